package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// dir opens the folder at the real path dir, on the way to the real path
// goal, which kind must be allowed for. It goes down from the top of the file
// system one folder at a time, follows no link and passes nothing closed.
// With create, folders that are missing are made.
func (v *View) dir(kind mercury.AccessKind, dir string, create bool, goal string) (*os.Root, error) {
	by, err := v.decides(kind, goal)
	if err != nil {
		return nil, err
	}
	if processFile(goal) {
		return nil, errHidden
	}
	w := way{closed: v.closed(kind, by)}
	if by == v.outputs && by != "" {
		w.closed = nil // lies in Mercury's home, and is the model's to read
	}
	if create {
		if err := v.alive(dir); err != nil {
			return nil, err
		}
	}
	return w.down(dir, create)
}

// alive fails when the scope that a new file would go to is gone: a workspace
// that was wiped is an alarm, and nothing to build anew.
func (v *View) alive(dir string) error {
	for _, s := range v.scopes {
		if within(dir, s.path) {
			if s.info == nil {
				return fmt.Errorf("the folder %s, where this conversation works, is gone", s.path)
			}
			return nil
		}
	}
	return nil
}

// notFolder says that a path ends at something else.
type notFolder struct{ path, kind string }

func (e *notFolder) Error() string { return fmt.Sprintf("%s is a %s, not a folder", e.path, e.kind) }

// A way leads down through folders.
type way struct {
	closed []os.FileInfo
}

func (w way) down(dir string, create bool) (*os.Root, error) {
	top := filepath.VolumeName(dir) + string(filepath.Separator)
	cur, err := os.OpenRoot(top)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	path := top
	for name := range strings.SplitSeq(strings.TrimPrefix(dir, top), string(filepath.Separator)) {
		if name == "" {
			continue
		}
		path = filepath.Join(path, name)
		next, err := w.step(cur, path, name, create)
		if cur != nil {
			cur.Close()
		}
		if err != nil {
			return nil, err
		}
		cur = next
	}
	if cur == nil {
		return nil, fs.ErrPermission
	}
	return cur, nil
}

// step opens the folder name in cur. A nil cur is a folder that can be passed
// but not opened, and so is a nil result; Android's and some servers' upper
// folders are like that. Only folders of other people are passed this way,
// for whoever acts in our name could close one of ours to make us.
func (w way) step(cur *os.Root, path, name string, create bool) (*os.Root, error) {
	before, err := lstat(cur, path, name)
	if create && cur != nil && errors.Is(err, fs.ErrNotExist) {
		if err := cur.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		before, err = lstat(cur, path, name)
	}
	if err != nil {
		return nil, err
	}
	if before.Mode()&fs.ModeSymlink != 0 {
		return nil, errMoved
	}
	if !before.IsDir() {
		return nil, &notFolder{path, kindOf(before.Mode())}
	}
	if w.closes(before) {
		return nil, errHidden
	}
	next, err := openDir(cur, path, name)
	if errors.Is(err, fs.ErrPermission) && foreign(before) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := next.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errMoved
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

func (w way) closes(info os.FileInfo) bool {
	return slices.ContainsFunc(w.closed, func(c os.FileInfo) bool { return os.SameFile(c, info) })
}

func lstat(cur *os.Root, path, name string) (os.FileInfo, error) {
	if cur == nil {
		return os.Lstat(path)
	}
	return cur.Lstat(name)
}

// openDir opens the folder name. The trailing dot makes the system insist on
// a folder, so that a pipe swapped in does not block.
func openDir(cur *os.Root, path, name string) (*os.Root, error) {
	if cur == nil {
		return os.OpenRoot(path + string(filepath.Separator) + ".")
	}
	return cur.OpenRoot(name + string(filepath.Separator) + ".")
}
