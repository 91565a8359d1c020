package file

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

func TestWhereAConversationWentIsKeptAndPathsBeginThere(t *testing.T) {
	d := newDesk(t)
	if out := d.do("cd", `{"path":"notes.txt"}`); !out.IsError {
		t.Errorf("a file is no folder: %s", out.Text)
	}
	d.do("cd", `{"path":"sub"}`)
	d.update(func(tx store.Tx) error {
		at, err := tx.MetaValue(tool.FolderKey("local/test"))
		if at != d.path("sub") {
			t.Errorf("it is kept as %q", at)
		}
		return err
	})
	c := d.w.Call("read_file", `{"path":"deep.txt"}`)
	c.Dir = d.path("sub")
	a, err := NewView(Options{}, c).Access(mercury.ReadPath, "deep.txt")
	if err != nil || a.Target != d.path("sub/deep.txt") {
		t.Errorf("a relative path is %+v, %v", a, err)
	}
}

func TestAnApprovedScopeIsTwoGrantsWithTheGiver(t *testing.T) {
	d := newDesk(t)
	d.update(func(tx store.Tx) error {
		return tx.InsertQuestion(mercury.Question{ID: "qu_1", RunID: "run_1", CallID: "call_b", Kind: "approval",
			State: mercury.QuestionAnswered, Answer: mercury.AnswerOnce, AnsweredBy: mercury.Actor{Role: mercury.Owner, Name: "Ann"}})
	})
	out := d.do("approve_scope", `{"path":"`+d.w.Outside+`","write":true}`)
	if out.IsError {
		t.Fatal(out.Text)
	}
	d.update(func(tx store.Tx) error {
		grants, err := tx.Grants(time.Now())
		var rules []string
		for _, g := range grants {
			rules = append(rules, g.Rule)
			if g.GivenBy.Name != "Ann" || g.Via != "qu_1" || !g.ExpiresAt.IsZero() {
				t.Errorf("the grant is %+v", g)
			}
		}
		slices.Sort(rules)
		if want := []string{"read:" + d.w.Outside + "/**", "write:" + d.w.Outside + "/**"}; !slices.Equal(rules, want) {
			t.Errorf("granted %v", rules)
		}
		return err
	})
	for _, path := range []string{"/", d.w.Home, filepath.Join(d.w.Home, "x")} {
		out := d.do("approve_scope", `{"path":"`+path+`"}`)
		if !out.IsError {
			t.Errorf("%s was opened: %s", path, out.Text)
		}
	}
	d.update(func(tx store.Tx) error {
		got, err := d.files.Undo(t.Context(), tx, d.s.Blobs(), "run_1", "", true, mercury.Actor{})
		if len(got.Changes) != 2 || got.Changes[0].Act != "grant" || got.Changes[1].Act != "grant" {
			t.Errorf("undone: %+v", got)
		}
		left, _ := tx.Grants(time.Now())
		if len(left) != 0 {
			t.Errorf("left are %+v", left)
		}
		return err
	})
}
