package schedule

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// A wall is a clock that a test sets and puts to sleep.
type wall struct {
	mu     sync.Mutex
	offset time.Duration
	set    chan struct{} // closed when it is set
}

func newWall() *wall { return &wall{set: make(chan struct{})} }

func (w *wall) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset).Round(0)
}

func (w *wall) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) {
	w.mu.Lock()
	set := w.set
	w.mu.Unlock()
	var at <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(max(until.Sub(w.Now()), 0))
		defer t.Stop()
		at = t.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-set:
	case <-at:
	}
}

// move sets the clock by d, as a person, a time server or a sleep does.
func (w *wall) move(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += d
	close(w.set)
	w.set = make(chan struct{})
}

var ada = mercury.Actor{Role: mercury.Owner, ID: "1", Name: "Ada", Channel: "local"}

// A rig is a store with schedules over it, as one home has them through many
// lives.
type rig struct {
	t     testing.TB
	store store.Store
	clock *wall
	opts  Options

	engine    *engine.Engine
	schedules *Schedules
	end       func()
	turns     atomic.Int64 // occurrences that asked the model
	turn      atomic.Value // func(context.Context, *engine.Work) error: what they do
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return rigOn(t, s, o)
}

func rigOn(t testing.TB, s store.Store, o Options) *rig {
	t.Helper()
	r := &rig{t: t, store: s, clock: newWall(), opts: o}
	if r.opts.Clock == nil {
		r.opts.Clock = r.clock
	}
	r.opts.Rights = func(by mercury.Actor, to string) mercury.Mandate {
		return mercury.Mandate{Actor: by, Mode: "guided", Interactive: true, Destination: to}
	}
	if r.opts.Turn == nil {
		r.opts.Turn = func(ctx context.Context, w *engine.Work) error {
			r.turns.Add(1)
			if turn, ok := r.turn.Load().(func(context.Context, *engine.Work) error); ok {
				return turn(ctx, w)
			}
			return answer(ctx, w, "done")
		}
	}
	r.build()
	return r
}

// answer ends an occurrence with a text to its destination.
func answer(ctx context.Context, w *engine.Work, text string) error {
	run := w.Run()
	return w.Settle(ctx, engine.Outcome{
		Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, RunID: run.ID, Text: text}},
		Answer:  []mercury.Delivery{{Address: run.Mandate.Destination, Text: text}},
	}, nil)
}

func (r *rig) build() {
	r.engine = engine.New(r.store, engine.Options{})
	r.schedules = New(r.engine, r.opts)
}

// start begins a life; stop ends it.
func (r *rig) start() *rig {
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	fail := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			r.t.Errorf("%s: %v", what, err)
		}
	}
	e, s := r.engine, r.schedules
	g.Go(func() { fail("engine", e.Run(ctx)) })
	g.Go(func() { fail("schedules", s.Run(ctx)) })
	r.end = func() { cancel(); g.Wait(); r.end = nil }
	return r
}

func (r *rig) stop() {
	if r.end != nil {
		r.end()
	}
	r.build()
}

func (r *rig) update(fn func(tx *engine.Tx) error) {
	r.t.Helper()
	if err := r.engine.Update(context.Background(), "test", fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) view(fn func(tx store.Tx) error) {
	r.t.Helper()
	if err := r.engine.View(context.Background(), fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) add(d Draft) store.Schedule {
	r.t.Helper()
	sch, err := r.schedules.New(d, ada, "local/default")
	if err != nil {
		r.t.Fatal(err)
	}
	r.update(func(tx *engine.Tx) error { return r.schedules.Add(tx, sch) })
	return sch
}

func (r *rig) schedule(id string) (sch store.Schedule) {
	r.t.Helper()
	r.view(func(tx store.Tx) (err error) {
		sch, err = tx.Schedule(id)
		return err
	})
	return sch
}

// rows are the occurrences of a schedule, oldest first.
func (r *rig) rows(id string) []store.Occurrence {
	r.t.Helper()
	var all []store.Occurrence
	r.view(func(tx store.Tx) error {
		all = nil
		for after := ""; ; {
			page, next, err := tx.Occurrences(id, store.Page{After: after, Limit: 1000})
			if err != nil {
				return err
			}
			all = append(all, page...)
			if after = next; next == "" {
				return nil
			}
		}
	})
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// states are the rows in short: "09:00 ran".
func (r *rig) states(id string) []string {
	out := []string{}
	for _, o := range r.rows(id) {
		zone, _, err := r.schedules.zone(r.schedule(id))
		if err != nil {
			r.t.Fatal(err)
		}
		text := o.DueAt.In(zone).Format("02T15:04") + " " + o.State
		if o.Outcome == "failed" {
			text += " failed"
		}
		out = append(out, text)
	}
	return out
}

// sent are the texts that went to an address, in order, without questions.
func (r *rig) sent(address string) []string {
	r.t.Helper()
	out := []string{}
	r.view(func(tx store.Tx) error {
		all, _, err := tx.Deliveries(store.DeliveryFilter{Address: address, Page: store.Page{Limit: 1000}})
		for i := len(all) - 1; i >= 0; i-- {
			out = append(out, all[i].Text)
		}
		return err
	})
	return out
}

// eachStore runs fn on every kind of store that this machine has.
func eachStore(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Run("sqlite", func(t *testing.T) { fn(t, newRig(t, Options{})) })
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(context.Background(), testenv.Postgres(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		fn(t, rigOn(t, s, Options{Owner: "a", Poll: 50 * time.Millisecond}))
	})
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}
