package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func failing(kind mercury.Kind) error {
	return &mercury.Error{Kind: kind, Help: "Do this.", Err: errors.New("secret internals")}
}

func TestHowAFailedRunEndsFollowsFromItsError(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		state    mercury.RunState
		attempts int
		code     string
	}{
		{"what may pass is tried three times", failing(mercury.Transient), mercury.RunDead, 2, "unavailable"},
		{"what is forbidden fails", failing(mercury.Denied), mercury.RunFailed, 0, "denied"},
		{"what is wrong is kept for a replay", failing(mercury.Invalid), mercury.RunDead, 0, "invalid"},
		{"a surprise is kept for a replay", errors.New("secret internals"), mercury.RunDead, 0, "internal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := sqliteHome(t)
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				r := dir.rig(t, Options{}, func(e *Engine) {
					e.Handle("turn", func(context.Context, *Work) error { tries.Add(1); return tt.err })
				})
				r.settle()
				p := r.say("m1", "go")
				time.Sleep(time.Hour)
				run := r.untilRun(p.RunID, tt.state)
				if run.Attempts != tt.attempts || run.ErrorCode != tt.code || int(tries.Load()) != tt.attempts+1 {
					t.Errorf("%d attempts, %d tries, code %s", run.Attempts, tries.Load(), run.ErrorCode)
				}
				texts := r.texts(place)
				if len(texts) != 2 || !strings.HasPrefix(texts[1], "note: ") || strings.Contains(texts[1], "secret") ||
					!strings.Contains(texts[1], tt.code) {
					t.Errorf("entries = %q", texts)
				}
				r.view(func(tx store.Tx) error {
					ds, _, err := tx.Deliveries(store.DeliveryFilter{RunID: p.RunID})
					if len(ds) != 1 || ds[0].Kind != mercury.NoticeDelivery || ds[0].Address != place {
						t.Errorf("notices = %+v", ds)
					}
					return err
				})
				if in := r.input(p.Input.ID); in.State != mercury.InputUnanswered || in.Reason != tt.code {
					t.Errorf("input is %s (%s)", in.State, in.Reason)
				}
				r.stop()
				r.store.Close()
			})
		})
	}
}

func TestARunThatFailsStartsTheSuccessorForWhatWaits(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		var tries atomic.Int32
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if tries.Add(1) == 1 {
					if err := g.pass(ctx, w); err != nil {
						return err
					}
					panic("a fault of ours")
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		first := r.say("m1", "one")
		receive(t, g.arrived, "the run")
		next := r.post(input("m2", "two", owner, mercury.FollowUp))
		close(g.open)
		r.untilRun(first.RunID, mercury.RunDead)
		r.until("the follow-up is answered", func(tx store.Tx) bool {
			in, err := tx.Input(next.Input.ID)
			return err == nil && in.State == mercury.InputDone
		})
	})
}

func TestAnOutageIsToldOnceAndCountsNoAttempt(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		o := Options{Cure: func(r mercury.Run, err error) Cure {
			return Cure{Do: Requeue, After: 10 * time.Minute, Code: "provider_down", Notice: "Kept; I answer when it is back."}
		}}
		r := dir.rig(t, o, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if tries.Add(1) <= 5 {
					return failing(mercury.Transient)
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		start := time.Now()
		p := r.say("m1", "go")
		time.Sleep(2 * time.Hour)
		run := r.untilRun(p.RunID, mercury.RunDone)
		if run.Attempts != 0 || run.EndedAt.Sub(start) < 50*time.Minute || run.EndedAt.Sub(start) > 51*time.Minute {
			t.Errorf("%d attempts, done after %v", run.Attempts, run.EndedAt.Sub(start))
		}
		equal(t, "entries", r.texts(place), "user: go", "note: Kept; I answer when it is back.", "assistant: answer: go")
		r.stop()
		r.store.Close()
	})
}

func TestACureMayAskInstead(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var tries atomic.Int32
		q := mercury.Question{ID: mercury.NewID("qu"), Kind: "choice", Title: "Still wanted?",
			Choices: []mercury.Choice{{Value: "yes", Label: "Yes"}, {Value: "no", Label: "No"}}}
		r := h.rig(t, Options{Cure: func(mercury.Run, error) Cure { return Cure{Ask: &q, Code: "stale"} }}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if tries.Add(1) == 1 {
					return failing(mercury.Transient)
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunWaiting)
		r.view(func(tx store.Tx) error {
			d, err := tx.FindDelivery(place, "question/"+q.ID)
			if d.Kind != mercury.QuestionDelivery || !strings.Contains(d.Text, "Still wanted?") {
				t.Errorf("question delivery = %+v", d)
			}
			return err
		})
		if _, err := r.answer(q.ID, "yes", owner); err != nil {
			t.Fatal(err)
		}
		r.untilRun(p.RunID, mercury.RunDone)
	})
}

func TestADeadRunIsReplayedWithItsInputs(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var mended atomic.Bool
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if !mended.Load() {
					return failing(mercury.Invalid)
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunDead)
		mended.Store(true)
		run, err := r.Replay(context.Background(), p.RunID, owner)
		if err != nil {
			t.Fatal(err)
		}
		if run.ReplayOf != p.RunID {
			t.Errorf("replay of %q", run.ReplayOf)
		}
		r.untilRun(run.ID, mercury.RunDone)
		if in := r.input(p.Input.ID); in.State != mercury.InputDone || in.RunID != run.ID {
			t.Errorf("input is %s in %s", in.State, in.RunID)
		}
		texts := r.texts(place)
		if texts[len(texts)-1] != "assistant: answer: go" {
			t.Errorf("entries = %q", texts)
		}
		if _, err := r.Replay(context.Background(), run.ID, owner); kindOf(err) != mercury.Conflict {
			t.Errorf("replay of a done run: %v", err)
		}
	})
}

func TestAHandlerThatReturnsNothingIsDone(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("job", func(context.Context, *Work) error { return nil })
		})
		r.untilRun(r.enqueue(NewRun{}).ID, mercury.RunDone)
	})
}

func TestAKindWithoutAHandlerIsKeptForALaterVersion(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("job", quick) })
		future := r.enqueue(NewRun{Kind: "future"}).ID
		r.untilRun(r.enqueue(NewRun{}).ID, mercury.RunDone) // what it can do goes by
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(future)
			if run.State != mercury.RunQueued {
				t.Errorf("what it cannot do is %s", run.State)
			}
			return err
		})
		r.kill()
		later := h.rig(t, Options{}, func(e *Engine) { e.Handle("future", quick) })
		later.untilRun(future, mercury.RunDone)
	})
}

func TestBackoffGrowsWithinItsLimits(t *testing.T) {
	for n := range 20 {
		want := min(time.Second<<n, time.Minute)
		for range 50 {
			if d := backoff(n, time.Second, time.Minute); d < want*4/5 || d > want*6/5+1 {
				t.Fatalf("backoff(%d) = %v, want %v give or take a fifth", n, d, want)
			}
		}
	}
}
