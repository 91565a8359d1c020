package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// twoProcesses runs fn on a store that two engines may share.
func twoProcesses(t *testing.T, fn func(t *testing.T, h *home)) {
	t.Run("postgres", func(t *testing.T) { fn(t, postgresHome(t)) })
}

// expire makes the lease of r's process end, as time would.
func (r *rig) expireLease() {
	r.t.Helper()
	r.update(func(t *Tx) error {
		all, err := t.Processes()
		for _, p := range all {
			if p.ID == r.self() {
				p.LeaseUntil = t.Now().Add(-time.Second)
				err = errors.Join(err, t.PutProcess(p))
			}
		}
		return err
	})
}

// freeze makes r believe that it last renewed its lease long ago, as after a
// stop of the process.
func (r *rig) freeze() {
	r.mu.Lock()
	r.renewed = time.Now().Add(-time.Minute)
	r.mu.Unlock()
}

// TestASurvivorTakesOverAndTheFrozenOneWritesNothing: A is frozen in the middle
// of a run, B takes it over and finishes it, A thaws.
func TestASurvivorTakesOverAndTheFrozenOneWritesNothing(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		var reads, effects atomic.Int32
		g := newGate()
		work := func(ctx context.Context, w *Work) error {
			if _, err := w.Do(ctx, call(1, "first", mercury.Read), func(ctx context.Context) (StepResult, error) {
				reads.Add(1)
				return done("x")(ctx)
			}); err != nil {
				return err
			}
			if w.Run().Epoch == 1 {
				g.arrived <- w
				<-g.open // a frozen process does not see its context end either
			}
			if _, err := w.Do(ctx, call(2, "effect", mercury.Once), func(ctx context.Context) (StepResult, error) {
				effects.Add(1)
				return done("y")(ctx)
			}); err != nil {
				return err
			}
			return w.Settle(ctx, reply("done"), nil)
		}
		a := h.rig(t, Options{Node: "a"}, func(e *Engine) { e.Handle("turn", work) })
		a.settle()
		p := a.say("m1", "go")
		w := receive(t, g.arrived, "the run in A")
		a.freeze()
		a.expireLease()

		b := h.rig(t, Options{Node: "b"}, func(e *Engine) { e.Handle("turn", work) })
		run := b.untilRun(p.RunID, mercury.RunDone)
		if run.Takeovers != 0 || run.Epoch != 2 {
			t.Errorf("taken over: epoch %d, %d takeovers since it last got on", run.Epoch, run.Takeovers)
		}
		close(g.open)
		a.until("A lets go", func(store.Tx) bool { return !a.holds(p.RunID) })
		// Even without its own clock's warning A's writes are refused.
		a.mu.Lock()
		a.renewed = time.Now()
		a.mu.Unlock()
		if err := w.Update(context.Background(), "test", func(*Tx) error { return nil }); !errors.Is(err, ErrLost) {
			t.Errorf("a late write of A: %v", err)
		}
		if reads.Load() != 1 || effects.Load() != 1 {
			t.Errorf("%d reads, %d effects, want one each", reads.Load(), effects.Load())
		}
		equal(t, "entries", b.texts(place), "user: go", "assistant: done")
	})
}

func TestAProcessThatWasDeclaredDeadBeginsAnew(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		r.settle()
		before := r.self()
		r.expireLease()
		if err := r.beat(context.Background()); err != nil {
			t.Fatal(err)
		}
		if r.self() == before {
			t.Error("it goes on under the name that was declared dead")
		}
		p := r.say("m1", "hello")
		if run := r.untilRun(p.RunID, mercury.RunDone); run.Epoch != 1 {
			t.Errorf("epoch %d", run.Epoch)
		}
	})
}

func TestAThawedProcessThatStillOwnsItsRunsGoesOnWithThem(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		g := newGate()
		var lives atomic.Int32
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if lives.Add(1) == 1 {
					return g.pass(ctx, w)
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		p := r.say("m1", "hello")
		w := receive(t, g.arrived, "the run")
		r.freeze()
		if _, err := w.Do(context.Background(), call(1, "c", mercury.Read), done("x")); !errors.Is(err, ErrLost) {
			t.Errorf("a step of a frozen process: %v", err)
		}
		r.cancelHands(ErrLost)
		if err := r.beat(context.Background()); err != nil {
			t.Fatal(err)
		}
		run := r.untilRun(p.RunID, mercury.RunDone)
		if run.Epoch != 2 || run.Attempts != 0 {
			t.Errorf("epoch %d, %d attempts", run.Epoch, run.Attempts)
		}
	})
}

func TestASendOfADeadProcessBecomesUnknownAtTheSurvivor(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		inside, goOn := make(chan bool, 1), make(chan bool)
		a := h.rig(t, Options{Node: "a"}, func(e *Engine) {
			e.Sender("chat", &pigeon{do: func(int, mercury.Part) error { inside <- true; <-goOn; return nil }})
		})
		d := a.emit(mercury.Delivery{Text: "hello"})
		receive(t, inside, "the send in A")
		a.expireLease()
		b := h.rig(t, Options{Node: "b"}, nil)
		b.untilDelivery(d.ID, mercury.DeliveryUnknown)
		// The receipt of the same attempt comes late after all.
		close(goOn)
		b.untilDelivery(d.ID, mercury.DeliverySent)
	})
}

func TestOneProcessCancelsWhatAnotherHasInHand(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		g := newGate()
		a := h.rig(t, Options{Node: "a"}, func(e *Engine) { e.Handle("turn", g.then(echo)) })
		a.settle()
		p := a.say("m1", "hello")
		receive(t, g.arrived, "the run in A")
		b := h.rig(t, Options{Node: "b"}, nil)
		if err := b.cancelRun(p.RunID); err != nil {
			t.Fatal(err)
		}
		b.untilRun(p.RunID, mercury.RunStopped)
	})
}

func TestWorkQueuedInOneProcessStartsInAnother(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		a := h.asleep(t, Options{Node: "a"})
		t.Cleanup(func() { a.store.Close() })
		b := h.rig(t, Options{Node: "b"}, func(e *Engine) { e.Handle("turn", echo) })
		a.settle()
		told := make(chan string, 100)
		events := b.Bus().Subscribe(t.Context(), "")
		go func() {
			for ev := range events {
				if ev.Type == "entry" && ev.Data == nil { // of A, with ids only
					told <- ev.ConversationID
				}
			}
		}()
		// What is said before B listens is found by looking, and not told.
		for i := range 1000 {
			p := a.say(fmt.Sprint("m", i), "hello")
			b.untilRun(p.RunID, mercury.RunDone)
			select {
			case conv := <-told:
				if conv != place {
					t.Errorf("told of %s", conv)
				}
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		t.Error("B was never told what happened in A")
	})
}

func TestTwoProcessesDoEachRunOnce(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		var done atomic.Int32
		count := func(ctx context.Context, w *Work) error {
			done.Add(1)
			return w.Settle(ctx, Outcome{}, nil)
		}
		a := h.rig(t, Options{Node: "a"}, func(e *Engine) { e.Handle("job", count) })
		h.rig(t, Options{Node: "b"}, func(e *Engine) { e.Handle("job", count) })
		const runs = 60
		for i := range runs {
			a.enqueue(NewRun{Lane: mercury.Bot, Key: "k" + string(rune('a'+i%5))})
		}
		a.until("all are done", func(tx store.Tx) bool {
			d, err := tx.Depths()
			return err == nil && len(d) == 0
		})
		if done.Load() != runs {
			t.Errorf("%d runs were done %d times", runs, done.Load())
		}
	})
}

func TestAProcessThatDiffersFromTheOldestClaimsNothing(t *testing.T) {
	twoProcesses(t, func(t *testing.T, h *home) {
		// A may claim what is meant for B; it gives it back when it stops.
		a := h.rig(t, Options{Node: "a", Name: "host-a", Digest: "one"}, func(e *Engine) {
			e.Handle("job", func(ctx context.Context, _ *Work) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		a.until("A is registered", func(tx store.Tx) bool { all, err := tx.Processes(); return err == nil && len(all) == 1 })
		b := h.rig(t, Options{Node: "b", Name: "host-b", Digest: "two"}, func(e *Engine) { e.Handle("job", quick) })
		b.until("B is registered", func(tx store.Tx) bool { all, err := tx.Processes(); return err == nil && len(all) == 2 })
		b.until("B says so", func(store.Tx) bool { s, err := b.Status(context.Background()); return err == nil && s.Degraded != "" })
		s, err := b.Status(context.Background())
		if err != nil || s.State != "degraded" || s.Degraded == "" {
			t.Fatalf("status = %+v, %v", s, err)
		}
		// Each may take up another configuration while it runs.
		for _, step := range []struct {
			who    *rig
			digest string
			alike  bool
		}{{a, "two", true}, {b, "three", false}} {
			if err := step.who.Redigest(context.Background(), step.digest); err != nil {
				t.Fatal(err)
			}
			if err := b.beat(context.Background()); err != nil {
				t.Fatal(err)
			}
			if s, err := b.Status(context.Background()); err != nil || (s.Degraded == "") != step.alike {
				t.Errorf("with %s: status = %+v, %v", step.digest, s, err)
			}
		}
		run := b.enqueue(NewRun{Kind: "job"})
		if err := b.claim(context.Background(), []mercury.Lane{mercury.Chat}); err != nil || b.holds(run.ID) {
			t.Errorf("B claims (%v)", err)
		}
		a.stop()
		if err := b.beat(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.untilRun(run.ID, mercury.RunDone)
	})
}

// TestARunThatKillsItsOwnersEndsOnTheDeadList lets five processes die with one
// run that never gets on.
func TestARunThatKillsItsOwnersEndsOnTheDeadList(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		start := func() *rig { return h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", g.then(echo)) }) }
		r := start()
		r.settle()
		p := r.say("m1", "go")
		for range poison {
			receive(t, g.arrived, "the run")
			r.kill()
			r = start()
		}
		run := r.untilRun(p.RunID, mercury.RunDead)
		if run.ErrorCode != "poison" || run.Attempts != 0 {
			t.Errorf("code %s, %d attempts", run.ErrorCode, run.Attempts)
		}
		if texts := r.texts(place); len(texts) != 2 {
			t.Errorf("nobody was told: %q", texts)
		}
	})
}

func TestARunThatGetsOnSurvivesAnyNumberOfKills(t *testing.T) {
	h := sqliteHome(t)
	g := newGate()
	const steps = 2 * poison
	start := func() *rig {
		return h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				for i := len(w.Journal()); i < steps; i++ {
					if _, err := w.Do(ctx, call(i, "c", mercury.Read), done("x")); err != nil {
						return err
					}
					if err := g.pass(ctx, w); err != nil {
						return err
					}
				}
				return w.Settle(ctx, Outcome{}, nil)
			})
		})
	}
	r := start()
	r.settle()
	p := r.say("m1", "go")
	for range steps {
		receive(t, g.arrived, "a step")
		r.kill()
		r = start()
	}
	r.untilRun(p.RunID, mercury.RunDone)
}

func TestFrozenTakesTheLargerOfTwoClocks(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name    string
		renewed time.Time
		want    bool
	}{
		{"never renewed", time.Time{}, false},
		{"just now", now, false},
		{"long ago by both", now.Add(-time.Minute), true},
		{"long ago by the wall: the host slept", now.Add(-time.Second).Round(0).Add(-time.Minute), true},
		{"short enough", now.Add(-frozenAfter), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := frozen(tt.renewed, now); got != tt.want {
				t.Errorf("frozen = %v, want %v", got, tt.want)
			}
		})
	}
}
