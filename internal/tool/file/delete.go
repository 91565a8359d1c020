package file

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed delete.md
var deleteUsage string

// trashLife is how long the trash keeps what was deleted.
const trashLife = 30 * 24 * time.Hour

type deleteInput struct {
	Path string `json:"path"`
}

// remove is the tool that moves a file or folder to the trash.
func (f *Files) remove() tool.Tool {
	return tool.Define(tool.Definition[deleteInput]{
		Name: "delete_file", Usage: deleteUsage, Effect: mercury.Once,
		Access: func(_ context.Context, c tool.Call, in deleteInput) ([]mercury.Access, error) {
			a, err := NewView(f.opts, c).entryAccess(mercury.DeletePath, in.Path)
			return []mercury.Access{a}, err
		},
		Run: f.runDelete,
	})
}

func (f *Files) runDelete(ctx context.Context, c tool.Call, in deleteInput) (tool.Output, error) {
	v := NewView(f.opts, c)
	real, err := v.admitEntry(mercury.DeletePath, in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	if err := ctx.Err(); err != nil {
		return tool.Output{}, err
	}
	defer f.lock(real)()
	dir, err := v.leaving(mercury.DeletePath, real)
	if err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	defer dir.Close()
	r := row(c, "delete", real)
	if r.Before, err = stateIn(dir, filepath.Base(real)); err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	trash, err := f.trash(r.ID)
	if err != nil {
		return tool.Output{}, err
	}
	defer trash.Close()
	if err := move(ctx, dir, filepath.Base(real), trash, filepath.Base(real)); err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	r.Place = filepath.Join(trash.Name(), filepath.Base(real))
	what := "Deleted " + real
	if r.Before == stateFolder {
		what += " and all in it"
	}
	return remember(tool.Output{Text: what + "; the trash keeps it for 30 days."}, r), nil
}

// entry resolves a path but for a link at its end.
func (v *View) entry(path string) (string, error) {
	abs, err := v.absolute(path)
	if err != nil {
		return "", err
	}
	switch base := filepath.Base(abs); base {
	case ".", "..", string(filepath.Separator):
		return resolve(abs)
	default:
		dir, err := resolve(filepath.Dir(abs))
		return filepath.Join(dir, base), err
	}
}

// admitEntry is admit for what stands at a path itself.
func (v *View) admitEntry(kind mercury.AccessKind, path string) (string, error) {
	a, err := v.entryAccess(kind, path)
	if err != nil {
		return "", err
	}
	if v.granted && !slices.ContainsFunc(v.grants, func(g mercury.Access) bool { return g.Kind == a.Kind && g.Target == a.Target }) {
		return "", denied(path, errMoved)
	}
	return a.Target, nil
}

// leaving opens the folder that real is about to leave, and makes sure that it
// is there and that nothing hidden goes with it.
func (v *View) leaving(kind mercury.AccessKind, real string) (*os.Root, error) {
	dir, err := v.dir(kind, filepath.Dir(real), false, real)
	if err != nil {
		return nil, err
	}
	info, err := dir.Lstat(filepath.Base(real))
	if err == nil {
		for i, h := range v.opts.Hidden {
			top, rerr := resolve(h)
			if rerr == nil && within(top, real) || i < len(v.hidden) && os.SameFile(v.hidden[i], info) {
				err = errHidden
			}
		}
		if err == nil && info.Mode().IsRegular() && links(info) > 1 && v.hiddenKey(info) {
			err = errHidden
		}
	}
	if err == nil && v.workspace != "" {
		if top, rerr := resolve(v.workspace); rerr == nil && within(top, real) {
			err = errors.New("it is the folder this conversation works in")
		}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// trash opens a new folder of the trash, and lets go of old ones.
func (f *Files) trash(id string) (*os.Root, error) {
	if f.opts.Trash == "" {
		return nil, errors.New("there is no trash here, so nothing is deleted")
	}
	if err := os.MkdirAll(f.opts.Trash, 0o700); err != nil {
		return nil, fmt.Errorf("open the trash: %w", err)
	}
	top, err := os.OpenRoot(f.opts.Trash)
	if err != nil {
		return nil, fmt.Errorf("open the trash: %w", err)
	}
	defer top.Close()
	sweep(top, time.Now().Add(-trashLife))
	if err := top.Mkdir(id, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open the trash: %w", err)
	}
	return top.OpenRoot(id)
}

// sweep removes what the trash has kept since before t. What cannot be removed
// is tried again the next time something is deleted.
func sweep(top *os.Root, t time.Time) {
	d, err := top.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	kept, err := d.ReadDir(-1)
	if err != nil {
		return
	}
	for _, e := range kept {
		if info, err := e.Info(); err == nil && info.ModTime().Before(t) {
			_ = top.RemoveAll(e.Name())
		}
	}
}
