//go:build unix

package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestWhatACommandChangedIsTakenBack(t *testing.T) {
	d := newDesk(t)
	put := func(name, text string) {
		must(t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
		must(t, os.WriteFile(d.path(name), []byte(text), 0o640))
	}
	put("a.txt", "one\n")
	put("mine/deep/b.txt", "kept for years\n")
	put("same.txt", "same\n")
	put("big.bin", strings.Repeat("x", watchedFile+1))
	put(".git/HEAD", "ref\n")
	put("node_modules/x/index.js", "x\n")
	c := d.w.Call("run_command", `{}`)
	c.ID = "call_cmd"
	look := d.files.Watch(t.Context(), c, d.w.Workspace)
	if look == nil {
		t.Fatal("it is not watched")
	}
	// What a command might do.
	put("a.txt", "another\n")
	must(t, os.RemoveAll(d.path("mine")))
	put("new.txt", "new\n")
	put("same.txt", "same\n")
	put("big.bin", "small")
	put(".git/HEAD", "other\n")
	put("node_modules/x/index.js", "y\n")
	rows := look(t.Context())
	d.update(func(tx store.Tx) error {
		if err := tx.PutStep(mercury.Step{RunID: "run_1", Round: 1, CallID: c.ID, Kind: "tool", Name: "run_command", Effect: mercury.Once, State: mercury.StepDone}); err != nil {
			return err
		}
		return Remember(tx, rows)
	})
	if len(rows) != 4 {
		t.Errorf("%d changes are remembered: %+v", len(rows), rows)
	}
	seen := d.undo(false)
	d.holds("a.txt", "another\n") // a look changes nothing
	done := d.undo(true)
	if len(seen.Changes) != 4 || len(done.Changes) != 4 {
		t.Errorf("seen %+v, done %+v", seen, done)
	}
	d.holds("a.txt", "one\n")
	d.holds("mine/deep/b.txt", "kept for years\n")
	d.holds("new.txt", "")
	d.holds("big.bin", "small")
	d.holds(".git/HEAD", "other\n")
	if info, err := os.Stat(d.path("mine/deep/b.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("what came back has the mode %v, %v", info.Mode(), err)
	}
	text := strings.Join(done.Cannot, "\n")
	for _, c := range done.Changes {
		if !c.Can {
			text += "\n" + c.Text
		}
	}
	if !strings.Contains(text, "besides these files") || !strings.Contains(text, "too large to be kept") {
		t.Errorf("what cannot be undone is said as %q", text)
	}
}

func TestALargeFolderIsNotWatched(t *testing.T) {
	d := newDesk(t)
	for i := range watchedFiles + 1 {
		must(t, os.WriteFile(d.path(fmt.Sprint("f", i)), nil, 0o600))
	}
	if d.files.Watch(t.Context(), d.w.Call("run_command", `{}`), d.w.Workspace) != nil {
		t.Error("it is watched")
	}
}

func TestAWatchFollowsNoLink(t *testing.T) {
	d := newDesk(t)
	must(t, os.Symlink(d.w.Outside, d.path("out")))
	must(t, os.Symlink(filepath.Join(d.w.Outside, "secret.txt"), d.path("s.txt")))
	look := d.files.Watch(t.Context(), d.w.Call("run_command", `{}`), d.w.Workspace)
	must(t, os.WriteFile(filepath.Join(d.w.Outside, "secret.txt"), []byte("changed"), 0o600))
	if rows := look(t.Context()); len(rows) > 0 {
		t.Errorf("remembered %+v", rows)
	}
}
