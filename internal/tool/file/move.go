package file

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed move.md
var moveUsage string

type moveInput struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// moving is the tool that moves a file or folder.
func (f *Files) moving() tool.Tool {
	return tool.Define(tool.Definition[moveInput]{
		Name: "move_file", Usage: moveUsage, Effect: mercury.Once,
		Access: func(_ context.Context, c tool.Call, in moveInput) ([]mercury.Access, error) {
			v := NewView(f.opts, c)
			from, err := v.entryAccess(mercury.DeletePath, in.From)
			if err != nil {
				return nil, err
			}
			to, err := v.entryAccess(mercury.WritePath, in.To)
			if err != nil {
				return nil, err
			}
			if within(to.Target, from.Target) {
				return nil, invalid(fmt.Sprintf("%s cannot move into itself", in.From), "")
			}
			from.Detail = "it moves to " + to.Target
			// Under another name it could be read where it may not be now.
			return []mercury.Access{from, to, {Kind: mercury.ReadPath, Target: from.Target}}, nil
		},
		Run: f.runMove,
	})
}

func (f *Files) runMove(ctx context.Context, c tool.Call, in moveInput) (tool.Output, error) {
	v := NewView(f.opts, c)
	from, err := v.admitEntry(mercury.DeletePath, in.From)
	if err != nil {
		return tool.Output{}, err
	}
	to, err := v.admitEntry(mercury.WritePath, in.To)
	if err != nil {
		return tool.Output{}, err
	}
	if err := ctx.Err(); err != nil {
		return tool.Output{}, err
	}
	defer f.lock(to)()
	source, err := v.leaving(mercury.DeletePath, from)
	if err != nil {
		return tool.Output{}, explain(in.From, err)
	}
	defer source.Close()
	r := row(c, "move", from)
	if r.Before, err = stateIn(source, filepath.Base(from)); err != nil {
		return tool.Output{}, explain(in.From, err)
	}
	target, err := v.dir(mercury.WritePath, filepath.Dir(to), true, to)
	if err != nil {
		return tool.Output{}, explain(in.To, err)
	}
	defer target.Close()
	if err := free(target, filepath.Base(to)); err != nil {
		return tool.Output{}, fmt.Errorf("%s: %w", in.To, err)
	}
	if err := move(ctx, source, filepath.Base(from), target, filepath.Base(to)); err != nil {
		return tool.Output{}, explain(in.From, err)
	}
	r.Place, r.After = to, r.Before
	return remember(tool.Output{Text: fmt.Sprintf("Moved %s to %s.", from, to)}, r), nil
}

func free(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("a folder is there already"), Help: "Give the whole new path, the name included."}
	}
	return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("something is there already"), Help: "Delete it first, or choose another name."}
}

// move brings what is called name in from to another folder, under another
// name. Between file systems it is copied, and removed only then.
func move(ctx context.Context, from *os.Root, name string, to *os.Root, as string) error {
	err := rename(from, name, to, as)
	if err == nil {
		return errors.Join(syncDir(to), syncDir(from))
	}
	if !crossDevice(err) {
		return err
	}
	left := int64(copyMax)
	if err := copyTree(ctx, from, name, to, as, &left); err != nil {
		return errors.Join(err, to.RemoveAll(as))
	}
	if err := syncDir(to); err != nil {
		return err
	}
	return from.RemoveAll(name)
}

// copyMax bounds what is copied when a move crosses file systems, in bytes.
const copyMax = 4 << 30

func copyTree(ctx context.Context, from *os.Root, name string, to *os.Root, as string, left *int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := from.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return copyFolder(ctx, from, name, to, as, info, left)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(target, as)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a %s and cannot be moved to another file system", name, kindOf(info.Mode()))
	}
	if *left -= info.Size(); *left < 0 {
		return fmt.Errorf("it has more than %s, which is too much to copy to another file system", bytesText(copyMax))
	}
	in, err := from.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(as, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

func copyFolder(ctx context.Context, from *os.Root, name string, to *os.Root, as string, info fs.FileInfo, left *int64) error {
	if err := to.Mkdir(as, info.Mode().Perm()|0o700); err != nil {
		return err
	}
	source, err := from.OpenRoot(name)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := to.OpenRoot(as)
	if err != nil {
		return err
	}
	defer target.Close()
	d, err := source.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := copyTree(ctx, source, n, target, n, left); err != nil {
			return err
		}
	}
	return nil
}

// inTrash reports whether a place the store names lies in the trash.
func (f *Files) inTrash(place string) bool {
	return f.opts.Trash != "" && strings.HasPrefix(filepath.Clean(place), filepath.Clean(f.opts.Trash)+string(filepath.Separator))
}
