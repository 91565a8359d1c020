package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestATalkFromElsewhereIsKeptOnceAsItWasAndAnswersNothing(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keepsHistory(t, s)
}

func TestATalkFromElsewhereIsKeptOnPostgreSQL(t *testing.T) {
	s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keepsHistory(t, s)
}

func keepsHistory(t *testing.T, s store.Store) {
	h := over(t, s)
	c := h.client()
	at := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	talk := api.History{Title: "Garden", Source: "openclaw", Entries: []api.HistoryLine{
		{Kind: "user", Text: "What grows?", At: at}, {Kind: "note", Text: "used search"}, {Kind: "assistant", Text: "Kale.", At: at.Add(time.Minute)}}}
	for i, want := range []bool{true, false} {
		if added, err := c.KeepHistory(t.Context(), "openclaw-1", talk); err != nil || added != want {
			t.Fatalf("time %d: added %v, %v", i+1, added, err)
		}
	}
	kept, err := c.Conversation(t.Context(), "openclaw-1")
	if err != nil || kept.Title != "Garden" || kept.RunID != "" || !kept.UpdatedAt.Equal(at.Add(time.Minute)) {
		t.Errorf("got %+v, %v", kept, err)
	}
	var entries []mercury.Entry
	err = s.View(t.Context(), func(tx store.Tx) (err error) {
		entries, err = tx.Entries("local/openclaw-1", 0, 0)
		return err
	})
	if err != nil || len(entries) != 3 {
		t.Fatalf("got %d entries, %v", len(entries), err)
	}
	if e := entries[0]; e.Actor.Role != mercury.Owner || len(e.Taint) > 0 || !e.At.Equal(at) {
		t.Errorf("what the person said: %+v", e)
	}
	if e := entries[1]; !e.Hidden || !e.At.Equal(at) {
		t.Errorf("the note: %+v", e)
	}
	if e := entries[2]; !slices.Equal(e.Taint, []string{"import:openclaw"}) {
		t.Errorf("the answer: %+v", e)
	}
	runs, err := c.Runs(t.Context(), nil)
	if err != nil || len(runs.Items) != 0 {
		t.Errorf("something ran: %+v, %v", runs.Items, err)
	}

	if _, err := c.KeepHistory(t.Context(), "x", api.History{Source: "y", Entries: []api.HistoryLine{{Kind: "summary", Text: "z"}}}); err == nil {
		t.Error("another kind was taken")
	}
}
