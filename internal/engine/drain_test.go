package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestADrainGivesRunsBackWithoutCountingAnything(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		var lives atomic.Int32
		handler := func(ctx context.Context, w *Work) error {
			if lives.Add(1) == 1 {
				return g.pass(ctx, w)
			}
			return echo(ctx, w)
		}
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		r.settle()
		p := r.say("m1", "go")
		receive(t, g.arrived, "the run")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(p.RunID)
			if run.State != mercury.RunQueued || run.Attempts != 0 || run.Takeovers != 0 || run.Owner != "" || run.Running == 0 {
				t.Errorf("after the drain: %+v", run)
			}
			all, err2 := tx.Processes()
			if len(all) != 0 {
				t.Errorf("processes = %+v", all)
			}
			return errors.Join(err, err2)
		})
		if _, err := r.tryPost(input("m2", "late", owner, mercury.Steer)); kindOf(err) != mercury.Transient {
			t.Errorf("post while draining: %v", err)
		}
		r.store.Close()
		r = h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		r.untilRun(p.RunID, mercury.RunDone)
	})
}

func TestADrainWaitsFiveSecondsForASendAndThenLeavesItUnknown(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		state mercury.DeliveryState
	}{
		{"a send that ends in time", 3 * time.Second, mercury.DeliverySent},
		{"one that does not", time.Hour, mercury.DeliveryUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := sqliteHome(t)
			synctest.Test(t, func(t *testing.T) {
				inside := make(chan bool, 1)
				r := dir.rig(t, Options{}, func(e *Engine) {
					e.Sender("chat", slow{inside, tt.takes})
				})
				d := r.emit(mercury.Delivery{Text: "hello"})
				<-inside
				start := time.Now()
				r.stop()
				if took := time.Since(start); took > 6*time.Second {
					t.Errorf("the drain took %v", took)
				}
				r.view(func(tx store.Tx) (err error) { d, err = tx.Delivery(d.ID); return err })
				if d.State != tt.state {
					t.Errorf("delivery is %s, want %s", d.State, tt.state)
				}
				r.store.Close()
			})
		})
	}
}

// slow is a Sender that obeys its context.
type slow struct {
	inside chan bool
	takes  time.Duration
}

func (s slow) Send(ctx context.Context, _ mercury.Delivery, _ mercury.Part) (string, error) {
	s.inside <- true
	select {
	case <-time.After(s.takes):
		return "r", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestADrainEndsWithinTenSecondsThoughAHandlerDoesNotObey(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		inside, free := make(chan *Work, 1), make(chan bool)
		r := dir.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				inside <- w
				<-free
				return echo(ctx, w)
			})
		})
		r.settle()
		p := r.say("m1", "go")
		w := <-inside
		start := time.Now()
		r.stop()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the drain took %v", took)
		}
		r.view(func(tx store.Tx) error {
			run, err := tx.Run(p.RunID)
			if run.State != mercury.RunQueued {
				t.Errorf("run is %s", run.State)
			}
			return err
		})
		if err := w.Settle(t.Context(), reply("late"), nil); !errors.Is(err, ErrLost) {
			t.Errorf("a late settle: %v", err)
		}
		close(free)
		synctest.Wait()
		r.store.Close()
	})
}

// A fickle store loses the outcome of commits on demand: the commit happens,
// or not, and the caller is not told.
type fickle struct {
	store.Store
	lose atomic.Pointer[lost]
}

type lost struct {
	happened bool
	skip     int32 // commits to let through before
}

func (s *fickle) Update(ctx context.Context, fn func(store.Tx) error) error {
	l := s.lose.Load()
	if l == nil || atomic.AddInt32(&l.skip, -1) >= 0 || !s.lose.CompareAndSwap(l, nil) {
		return s.Store.Update(ctx, fn)
	}
	if !l.happened {
		rollback := errors.New("rolled back")
		err := s.Store.Update(ctx, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return rollback
		})
		if !errors.Is(err, rollback) {
			return err
		}
		return store.ErrUnknownOutcome
	}
	if err := s.Store.Update(ctx, fn); err != nil {
		return err
	}
	return store.ErrUnknownOutcome
}

func TestACommitWithAnUnknownOutcomeIsLookedUp(t *testing.T) {
	for _, happened := range []bool{true, false} {
		t.Run(map[bool]string{true: "it happened", false: "it did not"}[happened], func(t *testing.T) {
			h := sqliteHome(t)
			s := &fickle{Store: h.open(t)}
			r := &rig{Engine: New(s, Options{}), t: t, store: s}
			r.Handle("turn", echo)
			r.run()
			r.settle()
			s.lose.Store(&lost{happened: happened})
			in := input("m1", "hello", owner, mercury.Steer)
			p, err := r.tryPost(in)
			if happened {
				if err != nil || p.Duplicate {
					t.Fatalf("post: %+v, %v", p, err)
				}
			} else {
				if kindOf(err) != mercury.Transient {
					t.Fatalf("post: %v", err)
				}
				p = r.post(in)
			}
			r.untilRun(p.RunID, mercury.RunDone)
			equal(t, "entries", r.texts(place), "user: hello", "assistant: answer: hello")
		})
	}
}

// TestALostOutcomeAnywhereInARunChangesNothing loses the outcome of the n-th
// commit of a whole turn with a step and a send, for every n, both ways.
func TestALostOutcomeAnywhereInARunChangesNothing(t *testing.T) {
	for _, happened := range []bool{true, false} {
		for n := range int32(8) {
			h := sqliteHome(t)
			s := &fickle{Store: h.open(t)}
			r := &rig{Engine: New(s, Options{}), t: t, store: s}
			bird := &pigeon{}
			var effects atomic.Int32
			r.Handle("turn", func(ctx context.Context, w *Work) error {
				if _, err := w.Do(ctx, call(1, "c", mercury.Once), func(ctx context.Context) (StepResult, error) {
					effects.Add(1)
					return done("x")(ctx)
				}); err != nil {
					return err
				}
				return echo(ctx, w)
			})
			r.Sender("chat", bird)
			r.run()
			r.settle()
			in := input("m1", "hello", owner, mercury.Steer)
			s.lose.Store(&lost{happened: happened, skip: n})
			p, err := r.tryPost(in)
			if err != nil {
				p = r.post(in)
			}
			r.untilRun(p.RunID, mercury.RunDone)
			r.until("the answer is sent", func(tx store.Tx) bool {
				ds, err := tx.RecentAnswers(place, 1)
				return err == nil && len(ds) == 1 && ds[0].State == mercury.DeliverySent
			})
			if effects.Load() > 1 {
				t.Errorf("commit %d lost, happened %v: %d effects", n, happened, effects.Load())
			}
			equal(t, "sent", bird.seen(), "answer: hello")
			r.stop()
			r.store.Close()
		}
	}
}

// crammed is a store on a disk that is full for the first commits.
type crammed struct {
	store.Store
	left atomic.Int32
}

func (s *crammed) Update(ctx context.Context, fn func(store.Tx) error) error {
	if s.left.Add(-1) >= 0 {
		return &mercury.Error{Kind: mercury.Full, Err: store.ErrDiskFull, Help: "Free some space."}
	}
	return s.Store.Update(ctx, fn)
}

func TestAStartOnAFullDiskWaitsForRoomAndSaysSo(t *testing.T) {
	h := sqliteHome(t)
	s := &crammed{Store: h.open(t)}
	s.left.Store(3)
	r := &rig{Engine: New(s, Options{}), t: t, store: s}
	r.Handle("turn", echo)
	r.run()
	until := func(want string) {
		t.Helper()
		for {
			st, err := r.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st.Degraded == want {
				return
			}
		}
	}
	until("disk is full. Free some space.")
	until("")
	r.settle()
	p := r.post(input("m1", "hello", owner, mercury.Steer))
	r.untilRun(p.RunID, mercury.RunDone)
}

// brimful is a store whose commit fails for want of space, with an outcome it
// does not know.
type brimful struct {
	store.Store
	full atomic.Bool
}

func (s *brimful) Update(ctx context.Context, fn func(store.Tx) error) error {
	if !s.full.Load() {
		return s.Store.Update(ctx, fn)
	}
	err := s.Store.Update(ctx, func(tx store.Tx) error { return errors.Join(fn(tx), errRoom) })
	if errors.Is(err, errRoom) {
		err = &mercury.Error{Kind: mercury.Full, Err: errors.Join(store.ErrUnknownOutcome, store.ErrDiskFull), Help: "Free some space."}
	}
	return err
}

var errRoom = errors.New("no room")

func TestACommitThatLeftNothingOnAFullDiskSaysThatTheDiskIsFull(t *testing.T) {
	h := sqliteHome(t)
	s := &brimful{Store: h.open(t)}
	r := &rig{Engine: New(s, Options{}), t: t, store: s}
	r.Handle("turn", echo)
	r.run()
	r.settle()
	s.full.Store(true)
	_, err := r.tryPost(input("m1", "hello", owner, mercury.Steer))
	if kindOf(err) != mercury.Full || !errors.Is(err, store.ErrDiskFull) || errors.Is(err, store.ErrUnknownOutcome) || mercury.HelpOf(err) == "" {
		t.Errorf("post: %v, kind %v, help %q", err, kindOf(err), mercury.HelpOf(err))
	}
	s.full.Store(false)
	p := r.post(input("m1", "hello", owner, mercury.Steer))
	r.untilRun(p.RunID, mercury.RunDone)
}
