package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Bench measures what a turn waits for, on the stores that open returns, each
// empty.
func Bench(b *testing.B, open func(b *testing.B) store.Store) {
	text := strings.Repeat("a message of two kilobytes ", 2048/27)
	var n atomic.Int64
	b.Run("accept", func(b *testing.B) {
		s := open(b)
		for b.Loop() {
			accept(b, s, n.Add(1), text)
		}
	})
	b.Run("accept by 8 writers", func(b *testing.B) {
		s := open(b)
		b.SetParallelism(4) // times GOMAXPROCS, which is two on the reference machine
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				accept(b, s, n.Add(1), text)
			}
		})
	})
	for _, size := range []int{2 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("step of %d KB", size>>10), func(b *testing.B) {
			s := open(b)
			output, err := json.Marshal(strings.Repeat("x", size))
			if err != nil {
				b.Fatal(err)
			}
			round := 0
			for b.Loop() {
				round++
				update(b, s, func(tx store.Tx) error {
					return tx.PutStep(mercury.Step{RunID: fmt.Sprint("run_", round/30), Round: round % 30, CallID: "c",
						State: mercury.StepDone, Output: output})
				})
			}
		})
	}
	b.Run("claim among 2000 ready of 20 keys and 10000 finished", func(b *testing.B) {
		s := open(b)
		crowd(b, s, 2000, 10000)
		for b.Loop() {
			var r mercury.Run
			update(b, s, func(tx store.Tx) (err error) {
				r, err = tx.Claim(store.Claim{Owner: "p", Lane: mercury.Bot})
				return err
			})
			b.StopTimer()
			r.State = mercury.RunQueued
			update(b, s, func(tx store.Tx) error { return tx.SaveRun(r) })
			b.StartTimer()
		}
	})
	b.Run("claim where every key is busy", func(b *testing.B) {
		s := open(b)
		crowd(b, s, 2000, 10000)
		for claim(b, s, func(c *store.Claim) { c.Lane = mercury.Bot }) != "" {
		}
		for b.Loop() {
			if id := claim(b, s, func(c *store.Claim) { c.Lane = mercury.Bot }); id != "" {
				b.Fatalf("claimed %s", id)
			}
		}
	})
}

// accept is the transaction between a message's arrival and its
// acknowledgement: conversation, input, entry, run.
func accept(tb testing.TB, s store.Store, n int64, text string) {
	id := fmt.Sprint("local/", n)
	err := s.Update(context.Background(), func(tx store.Tx) error {
		if err := tx.InsertConversation(mercury.Conversation{ID: id, Kind: "chat"}); err != nil {
			return err
		}
		r := newRun(mercury.NewID("run"), 0)
		r.ConversationID = id
		in := newInput(mercury.NewID("in"), 0)
		in.MessageID, in.ConversationID, in.RunID, in.State, in.Text = in.ID, id, r.ID, mercury.InputPlaced, text
		if err := tx.InsertInput(in); err != nil {
			return err
		}
		if _, err := tx.Append(id, mercury.Entry{Kind: mercury.UserEntry, RunID: r.ID, Text: text}); err != nil {
			return err
		}
		return tx.InsertRun(r)
	})
	if err != nil {
		tb.Error(err)
	}
}

// crowd fills the bot lane: ready runs over twenty keys, and finished ones.
func crowd(tb testing.TB, s store.Store, ready, finished int) {
	tb.Helper()
	for from := 0; from < ready+finished; from += 1000 {
		update(tb, s, func(tx store.Tx) error {
			for i := from; i < min(from+1000, ready+finished); i++ {
				r := newRun(mercury.NewID("run"), i)
				r.Lane, r.Key = mercury.Bot, fmt.Sprint("bot/", i%20)
				if i >= ready {
					r.State = mercury.RunDone
				}
				if err := tx.InsertRun(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
