package file

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed list.md
var listUsage string

type listInput struct {
	Path string `json:"path,omitempty" jsonschema:"default: the workspace"`
}

// listMax is how many names of a folder are shown.
const listMax = 1000

// list is the tool that shows a folder.
func (f *Files) list() tool.Tool {
	return tool.Define(tool.Definition[listInput]{
		Name: "list_dir", Usage: listUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in listInput) ([]mercury.Access, error) {
			return f.access(c, mercury.ReadPath, folderPath(in.Path))
		},
		Run: func(ctx context.Context, c tool.Call, in listInput) (tool.Output, error) {
			path := folderPath(in.Path)
			w, dir, _, err := f.start(ctx, c, path)
			if err != nil {
				return tool.Output{}, explain(path, err)
			}
			defer dir.Close()
			entries, err := entriesOf(dir)
			if err != nil {
				return tool.Output{}, explain(path, err)
			}
			return listing(ctx, dir, entries, w.way)
		},
	})
}

func listing(ctx context.Context, dir *os.Root, entries []fs.DirEntry, w way) (tool.Output, error) {
	if len(entries) == 0 {
		return tool.Output{Text: "(the folder is empty)"}, nil
	}
	var b strings.Builder
	shown := 0
	for _, d := range entries {
		if err := ctx.Err(); err != nil {
			return tool.Output{}, err
		}
		if shown == listMax || b.Len() > readText {
			break
		}
		info, err := dir.Lstat(d.Name())
		if err != nil {
			continue // gone meanwhile
		}
		shown++
		name := printable(d.Name())
		switch k := kindOf(info.Mode()); {
		case w.closes(info):
			fmt.Fprintf(&b, "%s (out of reach)\n", name)
		case k == "folder":
			fmt.Fprintf(&b, "%s/\n", name)
		case k == "file":
			fmt.Fprintf(&b, "%s  %s\n", name, bytesText(info.Size()))
		case k == "link":
			target, err := dir.Readlink(d.Name())
			if err != nil {
				target = "?"
			}
			fmt.Fprintf(&b, "%s -> %s\n", name, printable(target))
		default:
			fmt.Fprintf(&b, "%s (%s)\n", name, k)
		}
	}
	if shown < len(entries) {
		fmt.Fprintf(&b, "[%d of %d names; find_files finds the others]\n", shown, len(entries))
	}
	return tool.Output{Text: b.String()}, nil
}

// printable writes a name so that it stays on its line.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}
