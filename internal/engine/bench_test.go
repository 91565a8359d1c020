package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// eachStoreB is eachStore for measurements.
func eachStoreB(b *testing.B, fn func(b *testing.B, h *home)) {
	b.Run("sqlite", func(b *testing.B) { fn(b, sqliteHome(b)) })
	b.Run("postgres", func(b *testing.B) { fn(b, postgresHome(b)) })
}

// report adds the median and the 99th percentile of what was measured.
func report(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, name+"-p99-ms")
}

// BenchmarkTurn measures the road of a message without a model: accepted and
// synced, claimed, one model step journaled, settled.
func BenchmarkTurn(b *testing.B) {
	eachStoreB(b, func(b *testing.B, h *home) {
		type times struct{ begun, over time.Time }
		ended := make(chan times, 1)
		r := h.rig(b, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				begun := time.Now()
				c := StepCall{Round: 1, CallID: "m", Kind: "model", Effect: mercury.Read}
				if _, err := w.Do(ctx, c, func(context.Context) (StepResult, error) {
					return StepResult{Output: json.RawMessage(`{"text":"hello"}`), Usage: mercury.Usage{Input: 100, Output: 10},
						Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, Text: "hello"}}}, nil
				}); err != nil {
					return err
				}
				err := w.Settle(ctx, Outcome{Answer: []mercury.Delivery{{Address: "local/1", Text: "hello"}}}, nil)
				ended <- times{begun, time.Now()}
				return err
			})
		})
		var start, accept, all []time.Duration
		in := input("", "hello", owner, mercury.Steer)
		in.ConversationID = "local/1"
		for i := 0; b.Loop(); i++ {
			in.ID, in.MessageID = mercury.NewID("in"), fmt.Sprint(i)
			began := time.Now()
			r.post(in)
			accepted := time.Now()
			t := <-ended
			start = append(start, t.begun.Sub(began))
			accept = append(accept, accepted.Sub(began))
			all = append(all, t.over.Sub(began))
			r.until("it is over", func(tx store.Tx) bool {
				got, err := tx.Input(in.ID)
				return err == nil && got.State == mercury.InputDone
			})
		}
		report(b, "accept", accept)
		report(b, "start", start)
		report(b, "turn", all)
	})
}

// BenchmarkRunOfSixtySteps measures the engine's own time in a long run: thirty
// model steps and thirty tool steps that are marked before they happen.
func BenchmarkRunOfSixtySteps(b *testing.B) {
	eachStoreB(b, func(b *testing.B, h *home) {
		took := make(chan time.Duration, 1)
		output := json.RawMessage(fmt.Sprintf("%q", make([]byte, 500)))
		r := h.rig(b, Options{}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, w *Work) error {
				began := time.Now()
				step := func(context.Context) (StepResult, error) { return StepResult{Output: output}, nil }
				for i := range 30 {
					if _, err := w.Do(ctx, StepCall{Round: i, CallID: "m", Kind: "model"}, step); err != nil {
						return err
					}
					if _, err := w.Do(ctx, StepCall{Round: i, CallID: "t", Kind: "tool", Effect: mercury.Once}, step); err != nil {
						return err
					}
				}
				err := w.Settle(ctx, Outcome{}, nil)
				took <- time.Since(began)
				return err
			})
		})
		var all []time.Duration
		for b.Loop() {
			r.enqueue(NewRun{Lane: mercury.Bot, Key: "bench"})
			all = append(all, <-took)
		}
		report(b, "run", all)
	})
}
