package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Bounds of what is looked at around a command, so that it costs milliseconds.
const (
	watchedFiles = 2_000     // in a folder; a larger one is not watched
	watchedFile  = 256 << 10 // bytes of one file that are kept
	watchedBytes = 16 << 20  // bytes of all of them
	watchedRows  = 500       // changes of one command that are remembered
)

// unwatched are folders that keep their own history, or that programs fill
// again by themselves.
var unwatched = []string{".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "target"}

// seen is a file before a command.
type seen struct {
	info    fs.FileInfo
	content []byte
	kept    bool
}

// errTooMany ends a look at a folder that is too large.
var errTooMany = errors.New("too many files")

// Watch looks at a folder before a command works in it. The function it
// returns looks again, keeps what the files held that were changed or removed,
// and returns the rows by which an undo brings them back; nil when the folder
// is too large to be watched. Links, and folders that keep their own history,
// are left out.
func (f *Files) Watch(ctx context.Context, c tool.Call, folder string) func(context.Context) []store.UndoRow {
	if f.opts.Keep == nil || folder == "" {
		return nil
	}
	before, room := map[string]seen{}, watchedBytes
	err := f.eachFile(ctx, folder, func(path string, info fs.FileInfo) error {
		if len(before) == watchedFiles {
			return errTooMany
		}
		s := seen{info: info}
		if info.Size() <= watchedFile && int(info.Size()) <= room {
			if b, err := readPlain(path, info); err == nil {
				s.content, s.kept = b, true
				room -= len(b)
			}
		}
		before[path] = s
		return nil
	})
	if err != nil {
		return nil
	}
	return func(ctx context.Context) []store.UndoRow { return f.changes(ctx, c, folder, before) }
}

// changes compares a folder with what it held.
func (f *Files) changes(ctx context.Context, c tool.Call, folder string, before map[string]seen) (rows []store.UndoRow) {
	left := map[string]bool{}
	err := f.eachFile(ctx, folder, func(path string, info fs.FileInfo) error {
		left[path] = true
		was, known := before[path]
		if known && os.SameFile(was.info, info) && was.info.Size() == info.Size() && was.info.ModTime().Equal(info.ModTime()) {
			return nil
		}
		if len(rows) == watchedRows {
			return errTooMany
		}
		r := row(c, "write", path)
		dir, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil // it went meanwhile
		}
		defer dir.Close()
		if r.After, err = stateIn(dir, filepath.Base(path)); err != nil {
			return nil
		}
		if known {
			if r = f.held(ctx, r, was); r.Before == r.After && r.Note == "" {
				return nil // touched, and no more
			}
		}
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		return rows // what was seen until then can be taken back
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if !left[path] && len(rows) < watchedRows {
			r := row(c, "write", path)
			r.After = stateNothing
			rows = append(rows, f.held(ctx, r, before[path]))
		}
	}
	return rows
}

// held says in a row what a file held, and keeps it.
func (f *Files) held(ctx context.Context, r store.UndoRow, was seen) store.UndoRow {
	r.BeforeMode = uint32(was.info.Mode().Perm())
	if !was.kept {
		r.Note = "its former content was too large to be kept"
		return r
	}
	r.Before = stateOf(was.content)
	if r.Before == r.After {
		return r
	}
	ref, err := f.opts.Keep(ctx, was.content)
	if err != nil {
		r.Note = fmt.Sprintf("its former content could not be kept: %v", err)
	}
	r.BeforeRef = ref
	return r
}

// eachFile calls fn for the ordinary files below a folder that no tool is kept
// from.
func (f *Files) eachFile(ctx context.Context, folder string, fn func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // what cannot be looked into is left out
		case d.IsDir() && (slices.Contains(unwatched, d.Name()) || slices.Contains(f.opts.Hidden, path)):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it went meanwhile
		}
		return fn(path, info)
	})
}

// readPlain reads a file that is still the one that was looked at.
func readPlain(path string, info fs.FileInfo) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	now, err := file.Stat()
	if err != nil || !os.SameFile(now, info) || !now.Mode().IsRegular() {
		return nil, errors.New("it is another file by now")
	}
	b := make([]byte, info.Size())
	n, err := file.ReadAt(b, 0)
	if int64(n) != info.Size() {
		return nil, errors.Join(err, errors.New("it is being written"))
	}
	return b, nil
}

// Remember writes the rows of a call.
func Remember(tx store.Tx, rows []store.UndoRow) error {
	for _, r := range rows {
		taint, err := tx.FileTaint(r.Path)
		if err != nil {
			return err
		}
		if r.Before != stateNothing {
			r.Taint = taint
		}
		if err := tx.PutUndo(r); err != nil {
			return fmt.Errorf("remember how to undo %s: %w", strings.TrimSpace(r.Path), err)
		}
	}
	return nil
}
