// Package storetest holds every driver of package store to its contract.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Home is one empty place a store can be opened in.
type Home struct {
	// Open opens what is in the home. The test closes it.
	Open func(t *testing.T) store.Store
	// Shared says that a home may be open more than once.
	Shared bool
}

// Run exercises stores in homes that fresh makes, each empty.
func Run(t *testing.T, fresh func(t *testing.T) Home) {
	for _, group := range []struct {
		name  string
		tests map[string]func(*testing.T, Home, store.Store)
	}{
		{"transactions", transactionTests},
		{"conversations", conversationTests},
		{"inputs", inputTests},
		{"runs", runTests},
		{"claims", claimTests},
		{"steps", stepTests},
		{"questions", questionTests},
		{"deliveries", deliveryTests},
		{"processes", processTests},
		{"ledger", ledgerTests},
		{"rights", rightsTests},
		{"undo", undoTests},
		{"schedules", scheduleTests},
		{"memory", memoryTests},
		{"texts", textTests},
		{"blobs", blobTests},
		{"model", modelTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for name, test := range group.tests {
				t.Run(name, func(t *testing.T) {
					home := fresh(t)
					s := home.Open(t)
					defer s.Close()
					test(t, home, s)
				})
			}
		})
	}
}

// update runs fn in a transaction that must succeed.
func update(t testing.TB, s store.Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// view runs fn in a view that must succeed.
func view(t testing.TB, s store.Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.View(context.Background(), fn); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// fails runs fn in a transaction that must fail with want.
func fails(t testing.TB, s store.Store, want error, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), fn); !errors.Is(err, want) {
		t.Errorf("update: got %v, want %v", err, want)
	}
}

// same compares what was read with what was written.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}

// at is a fixed moment, n seconds into the test's own time.
func at(n int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC).Add(time.Duration(n) * time.Second)
}

var owner = mercury.Actor{Role: mercury.Owner, ID: "1", Name: "Ada", Channel: "local"}

// conversation inserts one and returns it as stored.
func conversation(t testing.TB, s store.Store, id string) mercury.Conversation {
	t.Helper()
	c := mercury.Conversation{ID: id, Kind: "chat", CreatedAt: at(0), UpdatedAt: at(0)}
	update(t, s, func(tx store.Tx) error { return tx.InsertConversation(c) })
	return c
}

// newRun is a queued chat run.
func newRun(id string, n int) mercury.Run {
	return mercury.Run{ID: id, Kind: "turn", Lane: mercury.Chat, State: mercury.RunQueued, Actor: owner,
		Mandate: mercury.Mandate{Actor: owner, Mode: "ask"}, CreatedAt: at(n)}
}

// insert puts runs in the queue.
func insert(t testing.TB, s store.Store, runs ...mercury.Run) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		for _, r := range runs {
			if err := tx.InsertRun(r); err != nil {
				return fmt.Errorf("%s: %w", r.ID, err)
			}
		}
		return nil
	})
}

func ids[T any](list []T, id func(T) string) []string {
	out := []string{}
	for _, v := range list {
		out = append(out, id(v))
	}
	return out
}

func runID(r mercury.Run) string           { return r.ID }
func deliveryID(d mercury.Delivery) string { return d.ID }
func inputID(in mercury.Input) string      { return in.ID }
func entryText(e mercury.Entry) string     { return e.Text }
