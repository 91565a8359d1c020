package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// turn writes what one turn with one tool call writes, in as many commits.
func turn(t testing.TB, s store.Store, n int) {
	t.Helper()
	do := func(fn func(store.Tx) error) {
		t.Helper()
		if err := s.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	const conversation = "telegram/1"
	actor := mercury.Actor{Role: mercury.Owner, ID: "1", Name: "Ada", Channel: "telegram"}
	r := mercury.Run{ID: mercury.NewID("run"), Kind: "turn", Lane: mercury.Chat, ConversationID: conversation,
		State: mercury.RunQueued, Actor: actor, CreatedAt: time.Now(),
		Mandate: mercury.Mandate{Actor: actor, Mode: "guided", Interactive: true, Workspace: "/home/ada/mercury",
			Scopes: []mercury.Scope{{Path: "/home/ada/mercury", Read: true, Write: true}}}}
	in := mercury.Input{ID: mercury.NewID("in"), Channel: "telegram", MessageID: fmt.Sprint(n), ConversationID: conversation,
		Actor: actor, Mode: mercury.Steer, Text: "What is the weather in Lisbon?", State: mercury.InputPlaced, RunID: r.ID,
		AcceptedAt: time.Now()}
	entry := func(kind mercury.EntryKind, round int, text string) mercury.Entry {
		return mercury.Entry{Kind: kind, RunID: r.ID, Round: round, Actor: actor, Text: text}
	}
	do(func(tx store.Tx) error { // accept
		_, err := tx.Append(conversation, entry(mercury.UserEntry, 0, in.Text))
		return errors.Join(err, tx.InsertInput(in), tx.InsertRun(r))
	})
	do(func(tx store.Tx) (err error) {
		r, err = tx.Claim(store.Claim{Owner: "proc_1", Lane: mercury.Chat})
		return err
	})
	for round := range 2 {
		ledger := store.LedgerRow{ID: mercury.NewID("lg"), RunID: r.ID, ConversationID: conversation, Purpose: "turn",
			Provider: "local", Model: "qwen3:8b", State: "reserved", Usage: mercury.Usage{Input: 4000, Output: 4096}, At: time.Now()}
		do(func(tx store.Tx) error { return tx.PutLedger(ledger) })
		ledger.State = "settled"
		do(func(tx store.Tx) error { // the model's step; the last one settles below
			if round == 1 {
				return tx.PutLedger(ledger)
			}
			_, err := tx.Append(conversation, entry(mercury.AssistantEntry, round, "Let me look."),
				entry(mercury.ToolCallEntry, round, `{"city":"Lisbon"}`))
			return errors.Join(err, tx.PutLedger(ledger), tx.PutStep(mercury.Step{RunID: r.ID, Round: round, CallID: "model",
				Kind: "model", State: mercury.StepDone, Epoch: 1, Output: json.RawMessage(`"` + strings.Repeat("m", 600) + `"`)}))
		})
		if round == 1 {
			break
		}
		tool := mercury.Step{RunID: r.ID, Round: round, CallID: "call_1", Kind: "tool", Name: "weather", Effect: mercury.Once,
			State: mercury.StepStarted, Epoch: 1, StartedAt: time.Now()}
		do(func(tx store.Tx) error { return tx.PutStep(tool) })
		tool.State, tool.Output = mercury.StepDone, json.RawMessage(`"`+strings.Repeat("t", 2000)+`"`)
		do(func(tx store.Tx) error {
			_, err := tx.Append(conversation, entry(mercury.ToolResultEntry, round, strings.Repeat("t", 2000)))
			return errors.Join(err, tx.PutStep(tool))
		})
	}
	d := mercury.Delivery{ID: mercury.NewID("dl"), Address: conversation, ConversationID: conversation, RunID: r.ID,
		RequestID: r.ID, Kind: mercury.AnswerDelivery, Text: strings.Repeat("Sunny. ", 50), State: mercury.DeliveryPending,
		CreatedAt: time.Now()}
	do(func(tx store.Tx) error { // settle
		_, err := tx.Append(conversation, entry(mercury.AssistantEntry, 1, d.Text))
		r.State, r.EndedAt, in.State = mercury.RunDone, time.Now(), mercury.InputDone
		return errors.Join(err, tx.SaveRun(r), tx.SaveInput(in), tx.InsertDelivery(d))
	})
	d.State, d.Parts = mercury.DeliverySending, []mercury.Part{{N: 1, Text: d.Text, State: mercury.DeliverySending, Owner: "proc_1"}}
	do(func(tx store.Tx) error { return tx.SaveDelivery(d) })
	d.State, d.Parts[0].State, d.Parts[0].Receipt = mercury.DeliverySent, mercury.DeliverySent, "4711"
	do(func(tx store.Tx) error { return tx.SaveDelivery(d) })
}

func TestATurnWritesFewBytes(t *testing.T) {
	s := openOn(t, t.TempDir(), &disk{})
	if err := s.Update(t.Context(), func(tx store.Tx) error {
		return tx.InsertConversation(mercury.Conversation{ID: "telegram/1"})
	}); err != nil {
		t.Fatal(err)
	}
	for n := range 100 { // a history, so that indexes have more than one page
		turn(t, s, n)
	}
	if err := s.writer.once("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	const turns = 15 // fewer than fill the log
	for n := range turns {
		turn(t, s, 1000+n)
	}
	st, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	each := st.Size() / turns >> 10
	t.Logf("%d KB a turn", each)
	if each > 200 {
		t.Errorf("a turn writes %d KB to the log, want 200 at most", each)
	}
}
