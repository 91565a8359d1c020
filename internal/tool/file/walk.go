package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Limits of one walk: folders deep, and names looked at.
const (
	walkDepth = 64
	walkMax   = 200_000
)

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// A walker goes through a folder in the order of names, following no link. It
// leaves out what is closed, private, ignored by git, or git's own.
type walker struct {
	ctx   context.Context
	view  *View
	way   way
	seen  int
	visit func(rel string, dir *os.Root, d fs.DirEntry) error

	tooMany bool // it stopped at a limit
}

// start opens the folder path and returns a walker for it.
func (f *Files) start(ctx context.Context, c tool.Call, path string) (w *walker, dir *os.Root, real string, err error) {
	v := NewView(f.opts, c)
	real, err = v.admit(mercury.ReadPath, path)
	if err != nil {
		return nil, nil, "", err
	}
	dir, err = v.dir(mercury.ReadPath, real, false, real)
	if err != nil {
		return nil, nil, real, err
	}
	by, err := v.decides(mercury.ReadPath, real)
	if err != nil {
		dir.Close()
		return nil, nil, real, err
	}
	return &walker{ctx: ctx, view: v, way: way{closed: v.closed(mercury.ReadPath, by)}}, dir, real, nil
}

// walk visits what is below dir, whose real path is real. It closes dir.
func (w *walker) walk(dir *os.Root, real string, visit func(rel string, dir *os.Root, d fs.DirEntry) error) error {
	w.visit = visit
	err := w.folder(dir, real, "", w.view.ignoresAbove(real), 0)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (w *walker) folder(dir *os.Root, real, rel string, ig ignores, depth int) error {
	defer dir.Close()
	entries, err := entriesOf(dir)
	if err != nil {
		return nil // a folder that cannot be listed is as good as empty
	}
	ig = ig.with(real, w.view.ignoreFile(dir))
	for _, d := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.seen++; w.seen > walkMax {
			w.tooMany = true
			return errEnough
		}
		name := d.Name()
		path := filepath.Join(real, name)
		if name == ".git" || ig.ignored(path, d.IsDir()) {
			continue
		}
		if w.view.opts.Private != nil && w.view.opts.Private(path) {
			continue
		}
		below := name
		if rel != "" {
			below = rel + "/" + name
		}
		if !d.IsDir() {
			if err := w.visit(below, dir, d); err != nil {
				return err
			}
			continue
		}
		if depth == walkDepth {
			w.tooMany = true
			continue
		}
		next, err := w.way.step(dir, path, name, false)
		if err != nil || next == nil {
			continue // closed, gone, or not ours to read
		}
		if err := w.folder(next, path, below, ig, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf lists a folder by name.
func entriesOf(dir *os.Root) ([]fs.DirEntry, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(walkMax)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if len(entries) > 0 {
		err = nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// joined is the path of rel below what the model called path.
func joined(path, rel string) string {
	path = strings.TrimSuffix(path, "/")
	if path == "" || path == "." {
		return rel
	}
	return path + "/" + rel
}

// folderPath is the path a model gave for a folder, or the workspace.
func folderPath(path string) string {
	if path == "" {
		return "."
	}
	return path
}
