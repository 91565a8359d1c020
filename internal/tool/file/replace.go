package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/mercury-agent/mercury/internal/mercury"
)

const (
	changeMax = 16 << 20 // bytes of a file that is written or edited
	diffMax   = 1 << 20  // bytes of a file that is compared line by line
)

// A place is where a file is, or will be: its folder, held open, and what
// stood there when it was looked at.
type place struct {
	view *View
	dir  *os.Root
	name string
	old  os.FileInfo // nil: nothing
}

// placeFor opens the folder of real for writing, which is made if need be. The
// caller closes it.
func (v *View) placeFor(real string) (place, error) {
	dir, err := v.dir(mercury.WritePath, filepath.Dir(real), true, real)
	if err != nil {
		return place{}, err
	}
	return v.placeIn(dir, filepath.Base(real), true)
}

// existing opens the place of a file that must be there, and makes nothing.
func (v *View) existing(real string) (place, error) {
	dir, err := v.dir(mercury.WritePath, filepath.Dir(real), false, real)
	if err != nil {
		return place{}, err
	}
	return v.placeIn(dir, filepath.Base(real), false)
}

func (v *View) placeIn(dir *os.Root, name string, missing bool) (place, error) {
	old, err := dir.Lstat(name)
	if err == nil {
		err = v.plainFile(old)
	} else if missing && errors.Is(err, fs.ErrNotExist) {
		old, err = nil, nil
	}
	if err != nil {
		dir.Close()
		return place{}, err
	}
	return place{view: v, dir: dir, name: name, old: old}, nil
}

// content reads what stands there now.
func (p place) content() ([]byte, error) {
	if p.old.Size() > changeMax {
		return nil, fmt.Errorf("it has %s; more than %s is not changed by this tool", bytesText(p.old.Size()), bytesText(changeMax))
	}
	file, info, err := p.view.openIn(p.dir, p.name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !same(p.old, info) {
		return nil, errChanged
	}
	return io.ReadAll(io.LimitReader(file, changeMax+1))
}

var errChanged = errors.New("it was changed by someone else meanwhile; read it again")

// same reports whether nobody touched the file between a and b.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// replace puts data there in one step: whoever reads sees the old content or
// the new, also after a power cut. A file keeps its permission bits. When
// something else stands there than was looked at, nothing changes.
func (p place) replace(ctx context.Context, data []byte) (err error) {
	temp := ".mercury-" + strings.ToLower(rand.Text()) + ".tmp"
	mode := fs.FileMode(0o644)
	if p.old != nil {
		mode = p.old.Mode().Perm()
	}
	file, err := p.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = p.dir.Remove(temp)
		}
	}()
	_, err = file.Write(data)
	if err == nil && p.old != nil {
		err = file.Chmod(mode) // the mask of the process does not apply to what was there
	}
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = p.unchanged()
	}
	if err != nil {
		return err
	}
	if err = p.dir.Rename(temp, p.name); err != nil {
		return err
	}
	if serr := syncDir(p.dir); serr != nil {
		return fmt.Errorf("it was written, but the folder could not be synced: %w", serr)
	}
	return nil
}

func (p place) unchanged() error {
	now, err := p.dir.Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.old == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errChanged
	case err != nil:
		return err
	case p.old == nil || !same(p.old, now):
		return errChanged
	}
	return nil
}

// diff compares two texts for people; what is too large or no text has none.
func diff(path string, before, after []byte) string {
	if len(before) > diffMax || len(after) > diffMax || binary(before) || binary(after) {
		return ""
	}
	return udiff.Unified(path, path, string(before), string(after))
}

// changes counts the lines a diff adds and removes.
func changes(diff string) (added, removed int) {
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case line[0] == '+':
			added++
		case line[0] == '-':
			removed++
		}
	}
	return added, removed
}
