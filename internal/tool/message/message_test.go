package message

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/file"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

func tools(t testing.TB, w tooltest.World) ([]tool.Tool, store.Store) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return Tools(Options{Files: file.Options{Hidden: []string{w.Home}}, Sent: w.Outputs, View: s.View, Daily: 1000, Zone: time.UTC}), s
}

func TestToolsKeepTheContract(t *testing.T) {
	for i, calls := range [][]string{
		{`{"text":"hello"}`, `{"text":"hello","to":"telegram/1"}`},
		{`{"path":"notes.txt"}`, `{"path":"blob.bin","to":"telegram/1","text":"look"}`},
		{`{}`},
	} {
		t.Run(string(rune('1'+i)), func(t *testing.T) {
			tooltest.Run(t, tooltest.Fixture{Calls: calls, Tool: func(w tooltest.World) tool.Tool { all, _ := tools(t, w); return all[i] }})
		})
	}
}

// outbox is a transaction that takes deliveries.
type outbox struct {
	store.Tx
	sent  []mercury.Delivery
	notes map[string][]mercury.Entry
}

// LockConversation knows one conversation besides the caller's.
func (o *outbox) LockConversation(id string) (mercury.Conversation, error) {
	if id != "relay/bob" {
		return mercury.Conversation{}, store.ErrNotFound
	}
	return mercury.Conversation{ID: id}, nil
}

func (o *outbox) Emit(d mercury.Delivery) (mercury.Delivery, bool, error) {
	for _, known := range o.sent {
		if known.RequestID == d.RequestID && known.Address == d.Address {
			return known, true, nil
		}
	}
	o.sent = append(o.sent, d)
	return d, false, nil
}

func (o *outbox) Append(id string, es ...mercury.Entry) ([]mercury.Entry, error) {
	if o.notes == nil {
		o.notes = map[string][]mercury.Entry{}
	}
	o.notes[id] = append(o.notes[id], es...)
	return es, nil
}

func run(t *testing.T, x tool.Tool, c tool.Call) (tool.Output, *outbox) {
	t.Helper()
	p := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, x).Prepare(t.Context(), c)
	if p.Run == nil {
		return *p.Output, nil
	}
	out, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	box := &outbox{}
	if out.Commit != nil {
		if err := out.Commit(box); err != nil {
			t.Fatal(err)
		}
	}
	return out, box
}

func TestWhatIsSentGoesWhereItWasNamedOrWhereTheAnswerGoes(t *testing.T) {
	w := tooltest.NewWorld(t)
	all, _ := tools(t, w)
	for _, tt := range []struct{ args, destination, want string }{
		{`{"text":"hi"}`, "telegram/7", "telegram/7"},
		{`{"text":"hi"}`, "", "local/test"},
		{`{"text":"hi","to":"relay/bob"}`, "telegram/7", "relay/bob"},
	} {
		c := w.Call("send_message", tt.args)
		c.Mandate.Destination = tt.destination
		out, box := run(t, all[0], c)
		if len(box.sent) != 1 || box.sent[0].Address != tt.want || box.sent[0].Kind != mercury.DirectDelivery || box.sent[0].RequestID != "tool/run_1/call_1" {
			t.Errorf("%s: sent %+v", tt.args, box.sent)
		}
		if !strings.Contains(out.Text, box.sent[0].ID) {
			t.Errorf("the model reads %q", out.Text)
		}
	}
	for _, args := range []string{`{"text":" "}`, `{"text":"x","to":"bob"}`, `{"text":"x","to":"a/b c"}`, `{"text":"` + strings.Repeat("x", textMax+1) + `"}`} {
		if out, _ := run(t, all[0], w.Call("send_message", args)); !out.IsError {
			t.Errorf("%.40s: %s", args, out.Text)
		}
	}
}

func TestASendIsRepeatedSafelyAndLeavesOneNoteWhereItWent(t *testing.T) {
	w := tooltest.NewWorld(t)
	all, _ := tools(t, w)
	c := w.Call("send_message", `{"text":"hi","to":"relay/bob"}`)
	out, box := run(t, all[0], c)
	for range 2 { // the step's commit may be repeated
		if err := out.Commit(box); err != nil {
			t.Fatal(err)
		}
	}
	notes := box.notes["relay/bob"]
	if len(box.sent) != 1 || len(notes) != 1 || !strings.Contains(notes[0].Text, "hi") || !strings.Contains(notes[0].Text, box.sent[0].ID) || notes[0].Hidden || notes[0].Kind != mercury.NoteEntry {
		t.Errorf("sent %+v, notes %+v", box.sent, notes)
	}
}

func TestAFileIsSentAsItWas(t *testing.T) {
	w := tooltest.NewWorld(t)
	all, _ := tools(t, w)
	_, box := run(t, all[1], w.Call("send_file", `{"path":"notes.txt"}`))
	f := box.sent[0].Files[0]
	if err := os.WriteFile(w.Workspace+"/notes.txt", []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(f.Path); err != nil || string(b) != "alpha\nbeta\ngamma\n" || f.Name != "notes.txt" || f.Size != 17 {
		t.Errorf("%+v holds %q, %v", f, b, err)
	}
	if out, _ := run(t, all[1], w.Call("send_file", `{"path":"home/token"}`)); !out.IsError {
		t.Errorf("a key of Mercury's own: %s", out.Text)
	}
}

func TestTheBudgetIsTheSumOfToday(t *testing.T) {
	w := tooltest.NewWorld(t)
	all, s := tools(t, w)
	err := s.Update(t.Context(), func(tx store.Tx) error {
		row := func(id string, at time.Time, in int64) error {
			return tx.PutLedger(store.LedgerRow{ID: id, Provider: "p", Model: "m", State: "settled", Usage: mercury.Usage{Input: in, Output: 1}, At: at})
		}
		return errors.Join(row("1", tx.Now(), 100), row("2", tx.Now(), 200), row("3", tx.Now().AddDate(0, 0, -2), 5000))
	})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := run(t, all[2], w.Call("budget_status", `{}`))
	if !strings.Contains(out.Text, "2 calls") || !strings.Contains(out.Text, "302 of 1000 tokens; 698 are left") {
		t.Errorf("got %q", out.Text)
	}
}
