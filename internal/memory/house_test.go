package memory

import (
	"context"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// a brain is a store with a clock of its own.
type brain struct {
	t     testing.TB
	store store.Store
	at    time.Time
}

// both runs a test on each database.
func both(t *testing.T, test func(t *testing.T, b *brain)) {
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		test(t, newBrain(t, s))
	})
}

func onSQLite(t testing.TB) *brain {
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return newBrain(t, s)
}

func newBrain(t testing.TB, s store.Store) *brain {
	return &brain{t, s, time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
}

// clock gives a transaction another time.
type clock struct {
	store.Tx
	at time.Time
}

func (c clock) Now() time.Time { return c.at }

func (b *brain) days(n int) { b.at = b.at.AddDate(0, 0, n) }

func (b *brain) update(fn func(store.Tx) error) {
	b.t.Helper()
	if err := b.store.Update(context.Background(), func(tx store.Tx) error { return fn(clock{tx, b.at}) }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *brain) view(fn func(store.Tx) error) {
	b.t.Helper()
	if err := b.store.View(context.Background(), func(tx store.Tx) error { return fn(clock{tx, b.at}) }); err != nil {
		b.t.Fatal(err)
	}
}

// inferred is a candidate as a lesson makes it.
func inferred(kind, text string, confidence float64, entry string) Candidate {
	return Candidate{Kind: kind, Summary: text, Confidence: confidence, Importance: 0.6, Durability: 0.7, Learned: Inferred,
		Sources: []store.MemorySource{{EntryID: entry}}, Actor: ada}
}

var ada = mercury.Actor{Role: mercury.Owner, ID: "1", Name: "Ada", Channel: "local"}

func (b *brain) learn(scope string, c Candidate) (r Result) {
	b.t.Helper()
	b.update(func(tx store.Tx) (err error) {
		r, err = Remember(tx, scope, c)
		return err
	})
	return r
}

func (b *brain) recall(scope, question string) (out []string) {
	b.t.Helper()
	b.view(func(tx store.Tx) error {
		found, err := Recall(tx, scope, question)
		for _, r := range found {
			out = append(out, r.Summary)
		}
		return err
	})
	return out
}

func (b *brain) get(id string) (m store.Memory) {
	b.t.Helper()
	b.view(func(tx store.Tx) (err error) {
		m, err = tx.Memory(id)
		return err
	})
	return m
}

func (b *brain) all(states ...string) (out []store.Memory) {
	b.t.Helper()
	b.view(func(tx store.Tx) (err error) {
		out, _, err = tx.Memories(store.MemoryFilter{States: states, Page: store.Page{Limit: 1000}})
		return err
	})
	return out
}
