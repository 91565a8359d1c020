package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A run is cut off in the middle of a step, and its database comes back as a
// copy: nothing of it goes on before somebody says so, and then the step is
// unknown, though its probe would say that it can be done again.
func TestWhatACopyHadInHandWaitsAndItsStartedStepIsUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var tries atomic.Int32
		cut := make(chan *Work, 1)
		state := make(chan mercury.StepState, 1)
		handler := func(ctx context.Context, w *Work) error {
			c := call(1, "c", mercury.Once)
			c.Probe = func(context.Context) (*StepResult, bool, error) { return nil, true, nil }
			s, err := w.Do(ctx, c, func(ctx context.Context) (StepResult, error) {
				tries.Add(1)
				cut <- w
				<-ctx.Done()
				return StepResult{}, ctx.Err()
			})
			if err != nil {
				return err
			}
			state <- s.State
			return w.Settle(ctx, reply("done"), nil)
		}
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		r.settle()
		p := r.say("m1", "go")
		receive(t, cut, "the step to be cut off")
		r.kill()

		asleep := h.asleep(t, Options{})
		asleep.update(func(tx *Tx) error { return HoldOutdated(tx.Tx) })
		asleep.update(func(tx *Tx) error { return HoldOutdated(tx.Tx) }) // a second time changes nothing
		asleep.store.Close()
		r = h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		r.settle()
		r.untilRun(p.RunID, mercury.RunQueued)
		r.view(func(tx store.Tx) error {
			o, err := FindOutdated(tx)
			if len(o.Runs) != 1 || o.Runs[0].ID != p.RunID {
				t.Errorf("held: %+v", o)
			}
			return err
		})
		r.update(func(tx *Tx) error {
			_, err := tx.ResumeOutdated(false, owner)
			return err
		})
		if got := receive(t, state, "the resumed step"); got != mercury.StepUnknown {
			t.Errorf("the step is %s", got)
		}
		r.untilRun(p.RunID, mercury.RunDone)
		if tries.Load() != 1 {
			t.Errorf("it ran %d times", tries.Load())
		}
	})
}

func TestWhatACopyHadInHandCanBeEndedInstead(t *testing.T) {
	h := sqliteHome(t)
	r := h.asleep(t, Options{})
	r.update(func(tx *Tx) error { return tx.InsertConversation(mercury.Conversation{ID: place, Kind: "chat"}) })
	p := r.say("m1", "go")
	r.update(func(tx *Tx) error {
		_, _, err := tx.Emit(mercury.Delivery{ID: "dl_1", Address: "relay/room", Kind: mercury.NoticeDelivery, Text: "late"})
		return err
	})
	r.update(func(tx *Tx) error { return HoldOutdated(tx.Tx) })
	r.view(func(tx store.Tx) error {
		d, err := tx.Delivery("dl_1")
		if d.State != mercury.DeliveryHeld || d.Reason != ReasonRestored {
			t.Errorf("the delivery is %s (%s)", d.State, d.Reason)
		}
		return err
	})
	r.update(func(tx *Tx) error {
		_, err := tx.ResumeOutdated(true, owner)
		return err
	})
	r.view(func(tx store.Tx) error {
		d, err := tx.Delivery("dl_1")
		if d.State != mercury.DeliveryCancelled {
			t.Errorf("the delivery is %s", d.State)
		}
		run, err2 := tx.Run(p.RunID)
		if run.State != mercury.RunStopped {
			t.Errorf("the run is %s", run.State)
		}
		if err == nil {
			err = err2
		}
		return err
	})
}
