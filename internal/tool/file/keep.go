package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// What stands at a path, in one word: nothing, a folder, a link, or a content.
const (
	stateNothing = ""
	stateFolder  = "folder"
)

func stateOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// stateIn is the state of name in dir. A file is read whole.
func stateIn(dir *os.Root, name string) (string, error) {
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stateNothing, nil
	case err != nil:
		return "", err
	case info.IsDir():
		return stateFolder, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := dir.Readlink(name)
		return "link:" + target, err
	case !info.Mode().IsRegular():
		return kindOf(info.Mode()), nil
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// row begins what is remembered of a change that c makes at path. The id
// follows from the call, so that a change is remembered once.
func row(c tool.Call, act, path string) store.UndoRow {
	sum := sha256.Sum256([]byte(c.RunID + "\n" + c.ID + "\n" + act + "\n" + path))
	return store.UndoRow{ID: "un_" + hex.EncodeToString(sum[:12]), RunID: c.RunID, ConversationID: c.ConversationID,
		CallID: c.ID, Tool: c.Name, Act: act, Path: path}
}

// replaced remembers what a write at p takes away. It keeps the content first,
// so that there is no moment in which it is nowhere; what cannot be kept is
// said in the row, and does not keep the write from happening.
func (f *Files) replaced(ctx context.Context, c tool.Call, p place, path string, before, after []byte, unread error) store.UndoRow {
	if f.opts.Keep == nil {
		return store.UndoRow{}
	}
	r := row(c, "write", path)
	r.After = stateOf(after)
	if p.old == nil {
		return r
	}
	r.BeforeMode = uint32(p.old.Mode().Perm())
	switch {
	case unread != nil:
		r.Note = "its former content was not kept: " + unread.Error()
	default:
		r.Before = stateOf(before)
		ref, err := f.opts.Keep(ctx, before)
		if err != nil {
			r.Note = fmt.Sprintf("its former content could not be kept: %v", err)
		}
		r.BeforeRef = ref
	}
	return r
}

// remember makes the row part of the commit that stores the result.
func remember(out tool.Output, r store.UndoRow) tool.Output {
	if r.ID == "" {
		return out
	}
	out.Commit = func(tx store.Tx) error {
		taint, err := tx.FileTaint(r.Path)
		if err != nil {
			return err
		}
		if r.Before != stateNothing {
			r.Taint = taint
		}
		if err := tx.PutUndo(r); err != nil {
			return fmt.Errorf("remember how to undo it: %w", err)
		}
		return nil
	}
	if r.Note != "" {
		out.Text += " This cannot be undone: " + r.Note + "."
	}
	return out
}

// entryAccess is Access for what stands at a path itself: a link at its end
// is not followed, since it is the link that goes.
func (v *View) entryAccess(kind mercury.AccessKind, path string) (mercury.Access, error) {
	real, err := v.entry(path)
	if err != nil {
		return mercury.Access{}, err
	}
	return mercury.Access{Kind: kind, Target: real}, nil
}
