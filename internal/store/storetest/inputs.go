package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func newInput(id string, n int) mercury.Input {
	return mercury.Input{ID: id, Channel: "telegram", MessageID: "m" + id, ConversationID: "telegram/1", Actor: owner,
		Mode: mercury.FollowUp, Text: "text of " + id, State: mercury.InputQueued, AcceptedAt: at(n)}
}

var inputTests = map[string]func(*testing.T, Home, store.Store){
	"an input is read as it was written": func(t *testing.T, _ Home, s store.Store) {
		in := newInput("in_1", 1)
		in.Files = []mercury.File{{Name: "a.txt", Path: "/x", Type: "text/plain", Size: 7}}
		in.Digest, in.SentAt = "d", at(-5)
		update(t, s, func(tx store.Tx) error { return tx.InsertInput(in) })
		check := func(what string) {
			t.Helper()
			view(t, s, func(tx store.Tx) error {
				got, err := tx.Input("in_1")
				same(t, what, got, in)
				found, err2 := tx.FindInput("telegram", "min_1")
				same(t, what+" found", found, in)
				return errors.Join(err, err2)
			})
		}
		check("input")
		in.State, in.Reason, in.RunID, in.SettledAt, in.Mode = mercury.InputUnanswered, "why", "run_1", at(9), mercury.Write
		changed := in
		changed.Text = "must not be written"
		update(t, s, func(tx store.Tx) error { return tx.SaveInput(changed) })
		check("saved")
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Input("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.FindInput("telegram", "x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveInput(mercury.Input{ID: "x"}) })
	},
	"a message offered twice is one input": func(t *testing.T, _ Home, s store.Store) {
		for round := range 10 {
			got := race(8, func(i int) error {
				in := newInput(fmt.Sprintf("in_%d_%d", round, i), 1)
				in.MessageID = fmt.Sprint(round)
				return s.Update(context.Background(), func(tx store.Tx) error {
					err := tx.InsertInput(in)
					if errors.Is(err, store.ErrExists) {
						if _, found := tx.FindInput("telegram", fmt.Sprint(round)); found != nil {
							return fmt.Errorf("known but not found: %w", found)
						}
					}
					return err
				})
			})
			oneWins(t, got)
		}
		other := newInput("in_other", 1)
		other.Channel, other.MessageID = "slack", "0"
		update(t, s, func(tx store.Tx) error { return tx.InsertInput(other) })
	},
	"the inbox keeps the order of arrival": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			for i := range 5 {
				if err := tx.InsertInput(newInput(fmt.Sprint("in_", 9-i), 0)); err != nil {
					return err
				}
			}
			away := newInput("in_away", 0)
			away.ConversationID = "telegram/2"
			return tx.InsertInput(away)
		})
		update(t, s, func(tx store.Tx) error {
			for _, id := range []string{"in_8", "in_5"} {
				in, err := tx.Input(id)
				if err != nil {
					return err
				}
				in.State, in.RunID = mercury.InputPlaced, "run_1"
				if err := tx.SaveInput(in); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, s, func(tx store.Tx) error {
			queued, err := tx.QueuedInputs("telegram/1")
			same(t, "queued", ids(queued, inputID), []string{"in_9", "in_7", "in_6"})
			placed, err2 := tx.RunInputs("run_1")
			same(t, "placed", ids(placed, inputID), []string{"in_8", "in_5"})
			n, err3 := tx.CountQueued("telegram/1")
			same(t, "count", n, 3)
			none, err4 := tx.RunInputs("")
			same(t, "inputs of no run", len(none), 0)
			return errors.Join(err, err2, err3, err4)
		})
	},
	"a later input counts, a write does not": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			note := newInput("in_note", 20)
			note.Mode = mercury.Write
			return errors.Join(tx.InsertInput(newInput("in_1", 10)), tx.InsertInput(note))
		})
		for n, want := range map[int]bool{9: true, 10: false, 15: false} {
			view(t, s, func(tx store.Tx) error {
				got, err := tx.InputAfter("telegram/1", at(n))
				same(t, fmt.Sprint("after ", n), got, want)
				return err
			})
		}
	},
}
