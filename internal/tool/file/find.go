package file

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed find.md
var findUsage string

type findInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty" jsonschema:"folder; default: the workspace"`
}

// findMax is how many paths are shown.
const findMax = 1000

// find is the tool that finds files by name.
func (f *Files) find() tool.Tool {
	return tool.Define(tool.Definition[findInput]{
		Name: "find_files", Usage: findUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in findInput) ([]mercury.Access, error) {
			if _, err := anywhere(in.Pattern); err != nil {
				return nil, err
			}
			return f.walkAccess(NewView(f.opts, c), folderPath(in.Path))
		},
		Run: func(ctx context.Context, c tool.Call, in findInput) (tool.Output, error) {
			pattern, err := anywhere(in.Pattern)
			if err != nil {
				return tool.Output{}, err
			}
			path := folderPath(in.Path)
			w, dir, real, err := f.start(ctx, c, path)
			if err != nil {
				return tool.Output{}, explain(path, err)
			}
			var b strings.Builder
			n := 0
			err = w.walk(dir, real, func(rel string, _ *os.Root, _ fs.DirEntry) error {
				if ok, _ := doublestar.Match(pattern, rel); !ok { // the pattern is valid
					return nil
				}
				if n == findMax || b.Len() > readText {
					w.tooMany = true
					return errEnough
				}
				n++
				b.WriteString(printable(joined(path, rel)) + "\n")
				return nil
			})
			if err != nil {
				return tool.Output{}, err
			}
			if n == 0 {
				b.WriteString("No file matches.")
			}
			if w.tooMany {
				b.WriteString("[there may be more; narrow the pattern or the path]\n")
			}
			return tool.Output{Text: b.String()}, nil
		},
	})
}

// anywhere checks a glob; one without a slash means a name in any folder.
func anywhere(pattern string) (string, error) {
	pattern = strings.TrimPrefix(filepath.ToSlash(pattern), "./")
	if pattern == "" || len(pattern) > pathMax || !doublestar.ValidatePattern(pattern) {
		return "", invalid(fmt.Sprintf("%q is not a valid glob", pattern), "")
	}
	if strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "../") {
		return "", invalid("the pattern must be relative to the folder", "Put the folder in path.")
	}
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return pattern, nil
}
