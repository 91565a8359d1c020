package file

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// desk is the file tools over a real store, in a world.
type desk struct {
	t     *testing.T
	w     tooltest.World
	s     store.Store
	files *Files
	n     int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	w := tooltest.NewWorld(t)
	s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := &desk{t: t, w: w, s: s}
	d.files = New(Options{Hidden: []string{w.Home}, Trash: filepath.Join(w.Home, "trash"), Keep: s.Blobs().Put})
	d.update(func(tx store.Tx) error {
		return tx.InsertRun(mercury.Run{ID: "run_1", Kind: "turn", Lane: mercury.Chat, State: mercury.RunDone})
	})
	return d
}

func (d *desk) update(fn func(store.Tx) error) {
	d.t.Helper()
	if err := d.s.Update(context.Background(), fn); err != nil {
		d.t.Fatal(err)
	}
}

// do runs one call with what it states granted, and commits with its step.
func (d *desk) do(name, args string) tool.Output {
	d.t.Helper()
	d.n++
	c := d.w.Call(name, args)
	c.ID = "call_" + string(rune('a'+d.n))
	for _, x := range append(d.files.Core(), d.files.More()...) {
		if x.Spec().Name != name {
			continue
		}
		set := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, x)
		p := set.Prepare(d.t.Context(), c)
		if p.Run == nil {
			return *p.Output
		}
		out, err := p.Run(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		d.update(func(tx store.Tx) error {
			if err := tx.PutStep(mercury.Step{RunID: "run_1", Round: 1, CallID: c.ID, Kind: "tool", Name: name, Effect: mercury.Once, State: mercury.StepDone}); err != nil || out.Commit == nil {
				return err
			}
			return out.Commit(tx)
		})
		return out
	}
	d.t.Fatalf("no tool %s", name)
	return tool.Output{}
}

func (d *desk) undo(apply bool) (out mercury.Undone) {
	d.t.Helper()
	d.update(func(tx store.Tx) (err error) {
		out, err = d.files.Undo(d.t.Context(), tx, d.s.Blobs(), "", "", apply, mercury.Actor{Role: mercury.Owner})
		return err
	})
	return out
}

func (d *desk) path(name string) string { return filepath.Join(d.w.Workspace, name) }

func (d *desk) holds(name, want string) {
	d.t.Helper()
	b, err := os.ReadFile(d.path(name))
	if err != nil && want != "" || string(b) != want {
		d.t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
	}
}

func TestARunIsTakenBackNewestChangeFirst(t *testing.T) {
	d := newDesk(t)
	if err := os.Chmod(d.path("notes.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	d.do("write_file", `{"path":"notes.txt","content":"one\n"}`)
	d.do("edit_file", `{"path":"notes.txt","old_string":"one","new_string":"two"}`)
	d.do("write_file", `{"path":"new/x.txt","content":"new\n"}`)
	d.do("move_file", `{"from":"sub","to":"moved/sub"}`)
	d.do("delete_file", `{"path":"moved/sub/deep.txt"}`)
	d.do("move_file", `{"from":"notes.txt","to":"new/notes.txt"}`)

	looked := d.undo(false)
	if len(looked.Changes) != 6 || looked.Applied || len(looked.Cannot) != 0 {
		t.Errorf("the preview is %+v", looked)
	}
	for _, c := range looked.Changes {
		if !c.Can {
			t.Errorf("%s %s: %s", c.Act, c.Path, c.Text)
		}
	}
	d.holds("new/notes.txt", "two\n")

	for _, c := range d.undo(true).Changes {
		if !c.Can {
			t.Errorf("%s %s: %s", c.Act, c.Path, c.Text)
		}
	}
	d.holds("notes.txt", "alpha\nbeta\ngamma\n")
	d.holds("sub/deep.txt", "deep alpha\n")
	d.holds("new/x.txt", "")
	if info, err := os.Stat(d.path("notes.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("its bits: %v, %v", info, err)
	}
	err := d.s.Update(t.Context(), func(tx store.Tx) error {
		_, err := d.files.Undo(t.Context(), tx, d.s.Blobs(), "", "", true, mercury.Actor{})
		return err
	})
	if mercury.KindOf(err) != mercury.NotFound {
		t.Errorf("a second time: %v", err)
	}
}

func TestWhatSomeoneChangedSinceIsLeftAlone(t *testing.T) {
	d := newDesk(t)
	d.do("write_file", `{"path":"notes.txt","content":"ours\n"}`)
	d.do("write_file", `{"path":"other.txt","content":"ours\n"}`)
	d.do("delete_file", `{"path":"sub/deep.txt"}`)
	for name, text := range map[string]string{"notes.txt": "theirs\n", "sub/deep.txt": "a new one\n"} {
		if err := os.WriteFile(d.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := map[string]string{}
	for _, c := range d.undo(true).Changes {
		said[filepath.Base(c.Path)] = c.Text
		if c.Can != (filepath.Base(c.Path) == "other.txt") {
			t.Errorf("%s: %v, %s", c.Path, c.Can, c.Text)
		}
	}
	if !strings.Contains(said["notes.txt"], "changed since") || !strings.Contains(said["deep.txt"], "new is there") {
		t.Errorf("said %v", said)
	}
	d.holds("notes.txt", "theirs\n")
	d.holds("sub/deep.txt", "a new one\n")
	d.holds("other.txt", "")
}

func TestUndoFollowsNoLinkThatCameSince(t *testing.T) {
	d := newDesk(t)
	d.do("write_file", `{"path":"sub/deep.txt","content":"x\n"}`)
	if err := os.Rename(d.path("sub"), d.path("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.w.Outside, "deep.txt"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(d.w.Outside, d.path("sub")); err != nil {
		t.Fatal(err)
	}
	if c := d.undo(true).Changes[0]; c.Can {
		t.Errorf("it did: %s", c.Text)
	}
	if b, _ := os.ReadFile(filepath.Join(d.w.Outside, "deep.txt")); string(b) != "x\n" {
		t.Errorf("outside holds %q", b)
	}
}

func TestWhatCannotBeUndoneIsSaid(t *testing.T) {
	d := newDesk(t)
	if err := os.WriteFile(d.path("big"), make([]byte, changeMax+1), 0o644); err != nil {
		t.Fatal(err)
	}
	out := d.do("write_file", `{"path":"big","content":"small"}`)
	if !strings.Contains(out.Text, "cannot be undone") {
		t.Errorf("the model reads %q", out.Text)
	}
	d.update(func(tx store.Tx) error {
		return tx.PutStep(mercury.Step{RunID: "run_1", Round: 1, CallID: "x", Kind: "tool", Name: "run_command", Effect: mercury.Once, State: mercury.StepUnknown})
	})
	got := d.undo(true)
	if got.Changes[0].Can || !strings.Contains(got.Changes[0].Text, "not kept") || len(got.Cannot) != 1 || !strings.Contains(got.Cannot[0], "run_command") {
		t.Errorf("got %+v", got)
	}
}

func TestNothingOfMercurysOwnIsDeletedOrMoved(t *testing.T) {
	d := newDesk(t)
	for _, args := range []string{`{"path":"home"}`, `{"path":"home/token"}`, `{"path":"."}`, `{"path":".."}`, `{"path":"/"}`} {
		if out := d.do("delete_file", args); !out.IsError {
			t.Errorf("%s: %s", args, out.Text)
		}
	}
	for _, args := range []string{`{"from":"home","to":"x"}`, `{"from":"notes.txt","to":"home/y"}`, `{"from":"sub","to":"sub/in"}`, `{"from":"notes.txt","to":"long.txt"}`} {
		if out := d.do("move_file", args); !out.IsError {
			t.Errorf("%s: %s", args, out.Text)
		}
	}
	d.holds("notes.txt", "alpha\nbeta\ngamma\n")
	if _, err := os.Stat(filepath.Join(d.w.Home, "token")); err != nil {
		t.Error(err)
	}
}

func TestDeletingALinkLeavesWhatItLeadsTo(t *testing.T) {
	d := newDesk(t)
	if out := d.do("delete_file", `{"path":"out.txt"}`); out.IsError {
		t.Fatal(out.Text)
	}
	if _, err := os.Lstat(d.path("out.txt")); !os.IsNotExist(err) {
		t.Errorf("the link is there: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(d.w.Outside, "secret.txt")); err != nil || len(b) == 0 {
		t.Errorf("what it led to is gone: %v", err)
	}
	d.undo(true)
	if target, err := os.Readlink(d.path("out.txt")); err != nil || target != filepath.Join(d.w.Outside, "secret.txt") {
		t.Errorf("it came back as %q, %v", target, err)
	}
}

func TestAFormerContentIsKeptBeforeItGoes(t *testing.T) {
	d := newDesk(t)
	d.files.opts.Keep = func(context.Context, []byte) (string, error) { return "", io.ErrShortWrite }
	out := d.do("write_file", `{"path":"notes.txt","content":"x"}`)
	if !strings.Contains(out.Text, "could not be kept") {
		t.Errorf("the model reads %q", out.Text)
	}
}
