package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// enqueue queues a run and fails the test if that fails.
func (r *rig) enqueue(n NewRun) mercury.Run {
	r.t.Helper()
	if n.Kind == "" {
		n.Kind = "job"
	}
	var run mercury.Run
	r.update(func(t *Tx) (err error) {
		run, err = t.Enqueue(n)
		return err
	})
	return run
}

func quick(ctx context.Context, w *Work) error { return w.Settle(ctx, Outcome{}, nil) }

func TestALaneNeverHasMoreRunsInHandThanItsCap(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var now, most atomic.Int32
		r := h.rig(t, Options{Lanes: map[mercury.Lane]int{mercury.Bot: 3}}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, w *Work) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				defer now.Add(-1)
				if err := w.Update(ctx, "test", func(*Tx) error { return nil }); err != nil {
					return err
				}
				return quick(ctx, w)
			})
		})
		var runs []mercury.Run
		for i := range 30 {
			runs = append(runs, r.enqueue(NewRun{Lane: mercury.Bot, Key: fmt.Sprint("k", i)}))
		}
		for _, run := range runs {
			r.untilRun(run.ID, mercury.RunDone)
		}
		if most.Load() > 3 {
			t.Errorf("%d runs in hand at once", most.Load())
		}
	})
}

func TestRunsOfOneKeyGoOneAtATimeInOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var now atomic.Int32
		order := make(chan string, 10)
		r := h.rig(t, Options{Lanes: map[mercury.Lane]int{mercury.Bot: 8}}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, w *Work) error {
				if now.Add(1) > 1 {
					t.Error("two runs of one key at once")
				}
				order <- string(w.Run().Input)
				now.Add(-1) // its end lets the next one begin
				return quick(ctx, w)
			})
		})
		var last mercury.Run
		for i := range 6 {
			last = r.enqueue(NewRun{Lane: mercury.Bot, Key: "bot/a", Input: fmt.Appendf(nil, "%d", i)})
		}
		r.untilRun(last.ID, mercury.RunDone)
		for i := range 6 {
			if got := <-order; got != fmt.Sprint(i) {
				t.Errorf("run %d was %s", i, got)
			}
		}
	})
}

// TestOneChatSlotIsKeptForOwnersAndAdmins fills the chat lane with strangers'
// runs; the owner's still starts at once.
func TestOneChatSlotIsKeptForOwnersAndAdmins(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("job", g.then(quick)) })
		for i := range 12 {
			r.enqueue(NewRun{Lane: mercury.Chat, Key: fmt.Sprint("guest", i), Actor: guest})
		}
		for range 7 {
			receive(t, g.arrived, "the guests' runs")
		}
		mine := r.enqueue(NewRun{Lane: mercury.Chat, Key: "mine", Actor: owner})
		if w := receive(t, g.arrived, "the owner's run"); w.Run().ID != mine.ID {
			t.Error("the eighth slot went to a guest")
		}
		select {
		case <-g.arrived:
			t.Error("a ninth run is in hand")
		default:
		}
		close(g.open)
		r.until("all are done", func(tx store.Tx) bool {
			d, err := tx.Depths()
			return err == nil && len(d) == 0
		})
	})
}

func TestAFloodInOneLaneDoesNotDelayAnother(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("job", g.then(quick))
			e.Handle("turn", echo)
		})
		r.settle()
		for i := range 50 {
			r.enqueue(NewRun{Lane: mercury.Cron, Key: fmt.Sprint("cron", i)})
		}
		p := r.say("m1", "hello")
		r.untilRun(p.RunID, mercury.RunDone)
		close(g.open)
	})
}

func TestHigherPriorityGoesFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{Lanes: map[mercury.Lane]int{mercury.Quiet: 1}})
		order := make(chan string, 3)
		r.Handle("job", func(ctx context.Context, w *Work) error {
			order <- w.Run().Key
			return quick(ctx, w)
		})
		for _, p := range []int{0, 5, 1} {
			r.enqueue(NewRun{Lane: mercury.Quiet, Key: fmt.Sprint(p), Priority: p})
		}
		r.run()
		for _, want := range []string{"5", "1", "0"} {
			if got := receive(t, order, "a run"); got != want {
				t.Errorf("next is %s, want %s", got, want)
			}
		}
	})
}

func TestAHoldKeepsAKeyBackUntilItEndsByItself(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		began := make(chan time.Time, 2)
		r := dir.rig(t, Options{}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, w *Work) error {
				began <- time.Now()
				return quick(ctx, w)
			})
		})
		start := time.Now()
		r.update(func(t *Tx) error { return t.Hold("bot/a", t.Now().Add(2*time.Hour), "quota", "test") })
		r.enqueue(NewRun{Lane: mercury.Bot, Key: "bot/a"})
		r.enqueue(NewRun{Lane: mercury.Bot, Key: "bot/b"})
		if at := <-began; at.Sub(start) > time.Second {
			t.Errorf("another key waited %v", at.Sub(start))
		}
		if at := <-began; at.Sub(start) < 2*time.Hour || at.Sub(start) > 2*time.Hour+time.Second {
			t.Errorf("the held run began after %v", at.Sub(start))
		}
		// A person's hold has no end but a release.
		r.update(func(t *Tx) error { return t.Hold("bot/a", time.Time{}, "paused", "test") })
		run := r.enqueue(NewRun{Lane: mercury.Bot, Key: "bot/a"})
		time.Sleep(1000 * time.Hour)
		r.view(func(tx store.Tx) error {
			got, err := tx.Run(run.ID)
			if got.State != mercury.RunQueued {
				t.Errorf("the held run is %s", got.State)
			}
			return err
		})
		r.update(func(t *Tx) error { return t.Release("bot/a") })
		<-began
		r.stop()
		r.store.Close()
	})
}

func TestARunStartsWhenItIsDue(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		began := make(chan time.Time)
		r := dir.rig(t, Options{}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, w *Work) error {
				began <- time.Now()
				return quick(ctx, w)
			})
		})
		start := time.Now()
		for _, d := range []time.Duration{36 * time.Hour, 10 * time.Minute} {
			r.enqueue(NewRun{Lane: mercury.Cron, NotBefore: start.Add(d)})
		}
		for _, want := range []time.Duration{10 * time.Minute, 36 * time.Hour} {
			if d := (<-began).Sub(start); d < want || d > want+time.Second {
				t.Errorf("began after %v, want %v", d, want)
			}
		}
		r.stop()
		r.store.Close()
	})
}

func TestPinnedRunsAreClaimedOnTheirNodeOnly(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{Node: "here"}, func(e *Engine) { e.Handle("job", quick) })
		elsewhere := r.enqueue(NewRun{Node: "elsewhere"})
		here := r.enqueue(NewRun{Node: "here"})
		r.untilRun(here.ID, mercury.RunDone)
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(elsewhere.ID)
			if run.State != mercury.RunQueued {
				t.Errorf("the other node's run is %s", run.State)
			}
			return err
		})
	})
}

func TestOnlyOneConversationAndItsDescendantsAreRun(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{Only: place}, func(e *Engine) {
			e.Handle("turn", echo)
			e.Handle("job", quick)
		})
		r.settle()
		other := input("m0", "other", owner, mercury.Steer)
		other.ConversationID = "local/other"
		o := r.post(other)
		p := r.say("m1", "mine")
		r.untilRun(p.RunID, mercury.RunDone)
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(o.RunID)
			if run.State != mercury.RunQueued {
				t.Errorf("the other conversation's run is %s", run.State)
			}
			return err
		})
	})
}

func TestStatusTellsWhatStandsWhere(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{Lanes: map[mercury.Lane]int{mercury.Bot: 1}}, func(e *Engine) { e.Handle("job", g.then(quick)) })
		r.enqueue(NewRun{Lane: mercury.Bot, Key: "a"})
		r.enqueue(NewRun{Lane: mercury.Bot, Key: "b"})
		r.emit(mercury.Delivery{Text: "waits for a sender"})
		receive(t, g.arrived, "the first run")
		s, err := r.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		bot := s.Lanes[mercury.Bot]
		if s.State != "working" || bot.Here != 1 || bot.Cap != 1 || bot.Queued != 1 || bot.Running != 1 ||
			s.Deliveries[mercury.DeliveryPending] != 1 || len(s.Processes) != 1 {
			t.Errorf("status = %+v", s)
		}
		close(g.open)
	})
}

// TestIdleIsFree looks for anything that wakes while there is nothing to do:
// a year passes in one step or not at all.
func TestIdleIsFree(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		r := dir.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", echo)
			e.Sender("chat", &pigeon{})
		})
		r.settle()
		p := r.say("m1", "hello")
		r.untilRun(p.RunID, mercury.RunDone)
		synctest.Wait()
		before := r.wakes.Load()
		time.Sleep(365 * 24 * time.Hour)
		if n := r.wakes.Load() - before; n != 0 {
			t.Errorf("idle, and it woke %d times", n)
		}
		r.stop()
		r.store.Close()
	})
}
