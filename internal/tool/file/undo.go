package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Undo takes back what a run did to files, newest change first, and the grants
// that came of its questions. Without apply it only looks. An empty run is the
// last one with something to take back, of the conversation if one is named.
//
// A path that does not hold what the run left there is not touched, and said
// to have changed since. What happened to be as before already counts as taken
// back, so Undo may be called again when its transaction must be repeated.
func (f *Files) Undo(ctx context.Context, tx store.Tx, blobs store.Blobs, run, conversation string, apply bool, by mercury.Actor) (mercury.Undone, error) {
	if run == "" {
		last, err := tx.LastUndoRun(conversation)
		if errors.Is(err, store.ErrNotFound) {
			return mercury.Undone{}, &mercury.Error{Kind: mercury.NotFound, Err: errors.New("there is nothing to undo"),
				Help: "What a run did to files, schedules and memories can be taken back."}
		}
		if err != nil {
			return mercury.Undone{}, err
		}
		run = last
	}
	out := mercury.Undone{RunID: run, Applied: apply, Changes: []mercury.UndoChange{}, Cannot: []string{}}
	r, err := tx.Run(run)
	if err != nil {
		return out, fmt.Errorf("undo run %s: %w", run, err)
	}
	if apply && r.State.Live() {
		return out, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("undo run %s: it is still at work", run), Help: "Stop it first."}
	}
	rows, err := tx.UndoRows(run)
	if err != nil {
		return out, err
	}
	u := undoing{files: f, blobs: blobs, apply: apply, states: map[string]string{}}
	for _, row := range slices.Backward(rows) {
		change := mercury.UndoChange{Act: row.Act, Path: row.Path}
		if !row.UndoneAt.IsZero() {
			change.Text = "was taken back " + row.UndoneAt.Local().Format("2006-01-02 15:04")
			out.Changes = append(out.Changes, change)
			continue
		}
		if other := f.others[row.Act]; other != nil {
			change.Can, change.Text, err = other(ctx, tx, row, apply)
			out.Changes = append(out.Changes, change)
			if err == nil && change.Can && apply {
				err = tx.MarkUndone(row.ID, tx.Now())
			}
			if err != nil {
				return out, err
			}
			continue
		}
		change.Can, change.Text = u.back(ctx, row)
		out.Changes = append(out.Changes, change)
		if change.Can && apply {
			if err := tx.MarkUndone(row.ID, tx.Now()); err != nil {
				return out, err
			}
			if err := tx.TaintFile(row.Path, row.Taint, run); err != nil {
				return out, err
			}
		}
	}
	if err := grants(tx, run, apply, &out); err != nil {
		return out, err
	}
	if err := cannot(tx, run, rows, &out); err != nil {
		return out, err
	}
	if !apply {
		return out, nil
	}
	return out, tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: by, Act: "undo", Subject: run,
		Detail: fmt.Sprintf("%d changes", len(out.Changes))})
}

// An Other takes back what runs did to something besides files, or looks what
// that would do.
type Other func(ctx context.Context, tx store.Tx, row store.UndoRow, apply bool) (can bool, text string, err error)

// TakesBack names who takes back what an act did, such as "schedule". Call it
// before Undo is used.
func (f *Files) TakesBack(act string, other Other) {
	if f.others == nil {
		f.others = map[string]Other{}
	}
	f.others[act] = other
}

// grants takes back the rights that were given to a run's questions.
func grants(tx store.Tx, run string, apply bool, out *mercury.Undone) error {
	asked, err := tx.RunQuestions(run)
	if err != nil {
		return err
	}
	live, err := tx.Grants(time.Now())
	if err != nil {
		return err
	}
	for _, g := range live {
		if g.Once || g.Via != run && !slices.ContainsFunc(asked, func(q mercury.Question) bool { return q.ID == g.Via }) {
			continue
		}
		out.Changes = append(out.Changes, mercury.UndoChange{Act: "grant", Path: g.Rule, Can: true, Text: "the right is taken back"})
		if apply {
			if err := tx.RevokeGrant(g.ID, tx.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

// cannot names what the run did to the world besides.
func cannot(tx store.Tx, run string, rows []store.UndoRow, out *mercury.Undone) error {
	steps, err := tx.Steps(run)
	if err != nil {
		return err
	}
	for _, s := range steps {
		known := slices.ContainsFunc(rows, func(r store.UndoRow) bool { return r.CallID == s.CallID })
		command := s.Name == "run_command"
		if s.Kind != "tool" || s.Effect != mercury.Once || known && !command || s.State == mercury.StepFailed {
			continue
		}
		text := s.Name + " ran; what it did is not taken back"
		if known {
			text = s.Name + " ran; what it did besides these files is not taken back"
		}
		if s.State != mercury.StepDone {
			text = s.Name + " may have run; what it did is not known"
		}
		out.Cannot = append(out.Cannot, text)
	}
	return nil
}

// undoing is one look, or one act, over the changes of a run.
type undoing struct {
	files  *Files
	blobs  store.Blobs
	apply  bool
	states map[string]string // what paths would hold by now
}

// back takes back one change, or says why not.
func (u *undoing) back(ctx context.Context, r store.UndoRow) (can bool, text string) {
	if r.Note != "" {
		return false, "cannot be taken back: " + r.Note
	}
	now, err := u.state(r.Path)
	if err != nil {
		return false, err.Error()
	}
	switch r.Act {
	case "write":
		switch {
		case now == r.Before:
			return true, "is as it was already"
		case now != r.After:
			return false, "has changed since"
		case r.Before == stateNothing:
			return u.do(ctx, r, "is removed again, into the trash", u.drop)
		}
		return u.do(ctx, r, "gets its former content", u.restore)
	case "delete", "move":
		kept, err := u.state(r.Place)
		switch {
		case err != nil:
			return false, err.Error()
		case now == r.Before && kept == stateNothing:
			return true, "is as it was already"
		case now != stateNothing:
			return false, "something new is there since"
		case kept == stateNothing && r.Act == "delete":
			return false, "the trash no longer has it"
		case kept != r.Before:
			return false, "what was moved has changed since"
		case r.Act == "delete":
			return u.do(ctx, r, "comes back from the trash", u.bring)
		}
		return u.do(ctx, r, "comes back from "+r.Place, u.bring)
	}
	return false, "is a change nobody here knows"
}

func (u *undoing) do(ctx context.Context, r store.UndoRow, text string, act func(context.Context, store.UndoRow) error) (bool, string) {
	if u.apply {
		if err := act(ctx, r); err != nil {
			return false, err.Error()
		}
	}
	u.states[r.Path] = r.Before
	if r.Place != "" {
		u.states[r.Place] = stateNothing
	}
	return true, text
}

// state is what a path holds, or would by now.
func (u *undoing) state(path string) (string, error) {
	if s, ok := u.states[path]; ok {
		return s, nil
	}
	if u.files.inTrash(path) {
		dir, err := os.OpenRoot(filepath.Dir(path))
		if errors.Is(err, fs.ErrNotExist) {
			return stateNothing, nil
		}
		if err != nil {
			return "", err
		}
		defer dir.Close()
		return stateIn(dir, filepath.Base(path))
	}
	dir, err := u.folder(mercury.WritePath, path, false)
	if mercury.KindOf(err) == mercury.NotFound {
		return stateNothing, nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return stateIn(dir, filepath.Base(path))
}

// folder opens the folder of a path as it was when the change was made: one
// that leads elsewhere by now is not followed.
func (u *undoing) folder(kind mercury.AccessKind, path string, create bool) (*os.Root, error) {
	dir, err := u.view(kind, path).dir(kind, filepath.Dir(path), create, path)
	if err != nil {
		return nil, explain(path, err)
	}
	return dir, nil
}

func (u *undoing) view(kind mercury.AccessKind, path string) *View {
	return NewView(u.files.opts, tool.Call{Granted: []mercury.Access{{Kind: kind, Target: path}}})
}

// restore puts a former content back.
func (u *undoing) restore(ctx context.Context, r store.UndoRow) error {
	f, err := u.blobs.Open(ctx, r.BeforeRef)
	if err != nil {
		return fmt.Errorf("read the former content: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, changeMax+1))
	if err != nil {
		return fmt.Errorf("read the former content: %w", err)
	}
	if stateOf(content) != r.Before {
		return errors.New("the former content is damaged")
	}
	defer u.files.lock(r.Path)()
	if r.After == stateNothing {
		return u.create(r, content)
	}
	p, err := u.view(mercury.WritePath, r.Path).existing(r.Path)
	if err != nil {
		return explain(r.Path, err)
	}
	defer p.dir.Close()
	if err := p.replace(ctx, content); err != nil {
		return explain(r.Path, err)
	}
	return p.dir.Chmod(p.name, fs.FileMode(r.BeforeMode).Perm())
}

// create puts back a file that is gone, and the folders it lay in.
func (u *undoing) create(r store.UndoRow, content []byte) error {
	dir, err := u.folder(mercury.WritePath, r.Path, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(r.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return explain(r.Path, err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(fs.FileMode(r.BeforeMode).Perm()), f.Sync(), f.Close())
}

// drop removes a file that the run had made.
func (u *undoing) drop(ctx context.Context, r store.UndoRow) error {
	defer u.files.lock(r.Path)()
	dir, err := u.folder(mercury.DeletePath, r.Path, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	trash, err := u.files.trash(r.ID)
	if err != nil {
		return err
	}
	defer trash.Close()
	return move(ctx, dir, filepath.Base(r.Path), trash, filepath.Base(r.Path))
}

// bring moves back what was moved or deleted.
func (u *undoing) bring(ctx context.Context, r store.UndoRow) error {
	defer u.files.lock(r.Path)()
	var from *os.Root
	var err error
	if r.Act == "delete" {
		if !u.files.inTrash(r.Place) {
			return errors.New("it does not lie in the trash")
		}
		from, err = os.OpenRoot(filepath.Dir(r.Place))
	} else {
		from, err = u.folder(mercury.DeletePath, r.Place, false)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := u.folder(mercury.WritePath, r.Path, true)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := free(to, filepath.Base(r.Path)); err != nil {
		return err
	}
	return move(ctx, from, filepath.Base(r.Place), to, filepath.Base(r.Path))
}
