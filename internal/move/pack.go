package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Box is a folder that a house is packed into, as files that people and other
// programs can read. It holds no secret: whoever fills it gives texts that are
// free of them, and files of the home are passed through the same sieve.
type Box struct {
	dir  string
	hide func(string) string
	have []string // lines of the README
}

// NewBox makes the folder, which must be new or empty. hide takes secrets out
// of a text.
func NewBox(dir string, hide func(string) string) (*Box, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	entries, err := os.ReadDir(abs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("export to %s: %w", abs, err)
	}
	if len(entries) > 0 {
		return nil, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("export to %s: the folder is not empty", abs), Help: "Name a new folder with --to."}
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("export: %w", err), Help: "Name a folder that you may write with --to."}
	}
	return &Box{dir: abs, hide: hide}, nil
}

// Dir is the folder.
func (b *Box) Dir() string { return b.dir }

func (b *Box) write(name string, text []byte) error {
	at := inside(b.dir, name)
	if at == "" {
		return fmt.Errorf("export %s: its name leads out of the folder", name)
	}
	return writeFile(at, []byte(b.hide(string(text))))
}

// Note adds a line to the README that lists what the box holds.
func (b *Box) Note(format string, a ...any) { b.have = append(b.have, fmt.Sprintf(format, a...)) }

// JSON writes a value as one readable file.
func (b *Box) JSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	return b.write(name, append(text, '\n'))
}

// Text writes a text.
func (b *Box) Text(name, text string) error { return b.write(name, []byte(text)) }

// Said is one line of a talk, for a reader.
type Said struct {
	Who   string
	Text  string
	At    time.Time
	Aside bool // a tool, a note: not said by anybody
}

// Talk writes a talk twice: to read, and for programs.
func (b *Box) Talk(id, title string, lines []Said, whole any) error {
	name := "conversations/" + strings.ReplaceAll(cleanPath(id), "/", "_")
	var m strings.Builder
	if title == "" {
		title = id
	}
	fmt.Fprintf(&m, "# %s\n", title)
	for _, l := range lines {
		at := ""
		if !l.At.IsZero() {
			at = " · " + l.At.Local().Format("2006-01-02 15:04")
		}
		if l.Aside {
			fmt.Fprintf(&m, "\n> %s%s\n>\n> %s\n", l.Who, at, strings.ReplaceAll(strings.TrimSpace(l.Text), "\n", "\n> "))
			continue
		}
		fmt.Fprintf(&m, "\n**%s**%s\n\n%s\n", l.Who, at, strings.TrimSpace(l.Text))
	}
	if err := b.Text(name+".md", m.String()); err != nil {
		return err
	}
	return b.JSON(name+".json", whole)
}

// Folder copies the regular files of a folder of the home, but those named in
// without, and reports how many there were. A folder that is not there is
// empty.
func (b *Box) Folder(from, to string, without ...string) (int, error) {
	n := 0
	err := filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && at == from {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || slices.Contains(without, d.Name()) {
			return err
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return fmt.Errorf("export %s: %w", at, err)
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		n++
		return b.write(path.Join(to, filepath.ToSlash(rel)), text)
	})
	return n, err
}

// Close writes the README and ends the box.
func (b *Box) Close(about string) error {
	return b.Text("README.md", "# "+about+"\n\n"+strings.Join(b.have, "\n")+"\n\nSecrets are not in here: keys and tokens stay in .env of the home.\n")
}
