package engine

import (
	"context"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func (r *rig) cancelRun(id string) error {
	return r.Update(context.Background(), "cancel", func(t *Tx) error { return t.Cancel(id, ReasonStopped, owner) })
}

func TestStopEndsTheRunningRunAndKeepsTheQueue(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		causes := make(chan error, 1)
		first := true
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if first {
					first = false
					err := g.pass(ctx, w)
					causes <- context.Cause(ctx)
					return err
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		p := r.say("m1", "one")
		receive(t, g.arrived, "the run")
		next := r.post(input("m2", "two", owner, mercury.FollowUp))
		steer := r.say("m3", "three")
		if err := r.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		if cause := receive(t, causes, "the handler to obey"); cause != ErrCanceled {
			t.Errorf("its context ended with %v", cause)
		}
		r.untilRun(p.RunID, mercury.RunStopped)
		r.until("the queue is answered", func(tx store.Tx) bool {
			in, err := tx.Input(next.Input.ID)
			return err == nil && in.State == mercury.InputDone
		})
		if in := r.input(p.Input.ID); in.State != mercury.InputUnanswered || in.Reason != ReasonStopped {
			t.Errorf("stopped input is %s (%s)", in.State, in.Reason)
		}
		if in := r.input(steer.Input.ID); in.State != mercury.InputDone || in.RunID == p.RunID {
			t.Errorf("queued steer is %s in run %s", in.State, in.RunID)
		}
		equal(t, "entries", r.texts(place), "user: one", "user: two", "user: three", "assistant: answer: two three")
		if err := r.cancelRun(p.RunID); kindOf(err) != mercury.Conflict {
			t.Errorf("second stop: %v", err)
		}
	})
}

func TestStopEndsAWaitingRunAndWithdrawsItsQuestion(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		q := approval()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunWaiting)
		if err := r.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		r.untilRun(p.RunID, mercury.RunStopped)
		got, err := r.answer(q.ID, "once", owner)
		if kindOf(err) != mercury.Conflict || got.State != mercury.QuestionWithdrawn {
			t.Errorf("answer after the stop: %s, %v", got.State, err)
		}
	})
}

func TestAQueuedRunIsStoppedBeforeItBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{})
		r.settle()
		p := r.say("m1", "go")
		if err := r.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(p.RunID)
			if run.State != mercury.RunStopped || run.Cancel != ReasonStopped {
				t.Errorf("run is %s", run.State)
			}
			return err
		})
	})
}

func TestACancellationReachesChildrenButNotDetachedOnes(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{Lanes: map[mercury.Lane]int{mercury.Helper: 4}}, func(e *Engine) {
			e.Handle("turn", g.then(echo))
			e.Handle("child", g.then(func(ctx context.Context, w *Work) error { return w.Settle(ctx, Outcome{}, nil) }))
		})
		r.settle()
		p := r.say("m1", "go")
		receive(t, g.arrived, "the parent")
		var child, grandchild, detached, sleeping mercury.Run
		r.update(func(t *Tx) (err error) {
			n := NewRun{Kind: "child", Lane: mercury.Helper, ParentID: p.RunID}
			if child, err = t.Enqueue(n); err != nil {
				return err
			}
			n.ParentID = child.ID
			if grandchild, err = t.Enqueue(n); err != nil {
				return err
			}
			n.ParentID, n.NotBefore = p.RunID, t.Now().Add(1e12)
			if sleeping, err = t.Enqueue(n); err != nil {
				return err
			}
			detached, err = t.Enqueue(NewRun{Kind: "child", Lane: mercury.Helper, ParentID: p.RunID, Detached: true})
			return err
		})
		for range 3 {
			receive(t, g.arrived, "the children")
		}
		if err := r.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{p.RunID, child.ID, grandchild.ID, sleeping.ID} {
			r.untilRun(id, mercury.RunStopped)
		}
		err := r.Update(context.Background(), "test", func(t *Tx) error {
			_, err := t.Enqueue(NewRun{Kind: "child", ParentID: p.RunID})
			return err
		})
		if kindOf(err) != mercury.Conflict {
			t.Errorf("child of a stopped parent: %v", err)
		}
		close(g.open)
		r.untilRun(detached.ID, mercury.RunDone)
	})
}

// TestOfCancelAndSettleTheFirstWins races the two many times: whatever comes
// out, the run ended one way and its input says the same.
func TestOfCancelAndSettleTheFirstWins(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		r.settle()
		for i := range 100 {
			p := r.say(string(rune('a'+i%26))+mercury.NewID("m"), "go")
			err := r.cancelRun(p.RunID)
			if err != nil && kindOf(err) != mercury.Conflict {
				t.Fatal(err)
			}
			run := r.untilRun(p.RunID, mercury.RunDone, mercury.RunStopped)
			in := r.input(p.Input.ID)
			switch {
			case err == nil && run.State != mercury.RunStopped:
				t.Fatalf("cancelled, and the run is %s", run.State)
			case err != nil && run.State != mercury.RunDone:
				t.Fatalf("not cancelled (%v), and the run is %s", err, run.State)
			case (run.State == mercury.RunDone) != (in.State == mercury.InputDone):
				t.Fatalf("run is %s, input %s", run.State, in.State)
			}
		}
	})
}

func TestAOnceStepThatWasCancelledIsUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		inside := make(chan bool, 1)
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				_, err := w.Do(ctx, call(1, "c", mercury.Once), func(ctx context.Context) (StepResult, error) {
					inside <- true
					<-ctx.Done()
					return StepResult{}, ctx.Err()
				})
				return err
			})
		})
		r.settle()
		p := r.say("m1", "go")
		receive(t, inside, "the step")
		if err := r.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		r.untilRun(p.RunID, mercury.RunStopped)
		r.view(func(tx store.Tx) error {
			s, err := tx.Step(p.RunID, 1, "c")
			if s.State != mercury.StepUnknown {
				t.Errorf("step is %s", s.State)
			}
			return err
		})
	})
}
