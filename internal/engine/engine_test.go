package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// patience bounds every wait of a test for something that must happen.
const patience = 20 * time.Second

// A home is where a test's stores live. Opening it again after closing, or
// killing, is what a restart does.
type home struct {
	shared bool // several engines may work on it
	open   func(t testing.TB) store.Store
}

// eachStore runs fn on every kind of store that this machine has.
func eachStore(t *testing.T, fn func(t *testing.T, h *home)) {
	t.Run("sqlite", func(t *testing.T) { fn(t, sqliteHome(t)) })
	t.Run("postgres", func(t *testing.T) { fn(t, postgresHome(t)) })
}

func postgresHome(t testing.TB) *home {
	address := testenv.Postgres(t)
	return &home{shared: true, open: func(t testing.TB) store.Store {
		s, err := postgres.Open(context.Background(), address, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}}
}

func sqliteHome(t testing.TB) *home {
	dir := t.TempDir()
	return &home{open: func(t testing.TB) store.Store {
		s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}}
}

// A rig is one engine over one open store, as a process would have it.
type rig struct {
	*Engine
	t     testing.TB
	store store.Store
	stop  func() error // drains
	done  chan struct{}
}

// rig makes an engine, lets prepare add handlers and senders, and runs it.
func (h *home) rig(t testing.TB, o Options, prepare func(e *Engine)) *rig {
	t.Helper()
	r := h.asleep(t, o)
	if prepare != nil {
		prepare(r.Engine)
	}
	r.run()
	return r
}

// asleep makes an engine that does not run.
func (h *home) asleep(t testing.TB, o Options) *rig {
	t.Helper()
	if o.Node == "" {
		o.Node = "home"
	}
	s := h.open(t)
	return &rig{Engine: New(s, o), t: t, store: s}
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.done = make(chan struct{})
	var err error
	go func() {
		defer close(r.done)
		err = r.Engine.Run(ctx)
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		<-r.done
		return err
	})
	r.t.Cleanup(func() {
		r.stop()
		r.store.Close()
	})
}

// kill takes the store away: nothing more reaches the disk, as after kill -9.
func (r *rig) kill() {
	r.store.Close()
	r.stop()
}

// until waits for cond, looking whenever something happens in the engine.
func (r *rig) until(what string, cond func(tx store.Tx) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	events := make(chan struct{}, 1)
	stream := r.Bus().Subscribe(ctx, "")
	go func() {
		for range stream {
			select {
			case events <- struct{}{}:
			default:
			}
		}
	}()
	for {
		ok := false
		if err := r.View(ctx, func(tx store.Tx) error { ok = cond(tx); return nil }); err != nil {
			r.t.Fatalf("wait until %s: %v", what, err)
		}
		if ok {
			return
		}
		select {
		case <-events:
		case <-time.After(50 * time.Millisecond): // what the engine does without an event
		case <-ctx.Done():
			r.t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (r *rig) untilRun(id string, states ...mercury.RunState) mercury.Run {
	r.t.Helper()
	var run mercury.Run
	r.until(fmt.Sprintf("run is %v", states), func(tx store.Tx) bool {
		var err error
		run, err = tx.Run(id)
		if err != nil {
			return false
		}
		for _, s := range states {
			if run.State == s {
				return true
			}
		}
		return false
	})
	return run
}

func (r *rig) untilDelivery(id string, state mercury.DeliveryState) mercury.Delivery {
	r.t.Helper()
	var d mercury.Delivery
	r.until("delivery is "+string(state), func(tx store.Tx) bool {
		var err error
		d, err = tx.Delivery(id)
		return err == nil && d.State == state
	})
	return d
}

var (
	owner = mercury.Actor{Role: mercury.Owner, ID: "1", Name: "Ann", Channel: "chat"}
	guest = mercury.Actor{Role: mercury.Member, ID: "2", Name: "Bob", Channel: "chat"}
)

// place is the conversation most tests talk in. Its channel is not a local
// one, so that its answers go through the outbox.
const place = "chat/1"

// settle brings the conversation place into being.
func (r *rig) settle() {
	r.t.Helper()
	err := r.Update(context.Background(), "test", func(t *Tx) error {
		err := t.InsertConversation(mercury.Conversation{ID: place, Kind: "chat"})
		if errors.Is(err, store.ErrExists) {
			return nil
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func input(id, text string, by mercury.Actor, mode mercury.Mode) mercury.Input {
	return mercury.Input{ID: mercury.NewID("in"), Channel: "chat", MessageID: id, ConversationID: place, Actor: by, Mode: mode, Text: text}
}

// post accepts an input and fails the test if that fails.
func (r *rig) post(in mercury.Input) Placement {
	r.t.Helper()
	p, err := r.tryPost(in)
	if err != nil {
		r.t.Fatalf("post %q: %v", in.Text, err)
	}
	return p
}

func (r *rig) tryPost(in mercury.Input) (Placement, error) {
	var p Placement
	err := r.Update(context.Background(), "accept", func(t *Tx) error {
		var err error
		p, err = t.Post(in)
		return err
	})
	return p, err
}

func (r *rig) say(id, text string) Placement {
	r.t.Helper()
	return r.post(input(id, text, owner, mercury.Steer))
}

func (r *rig) update(fn func(t *Tx) error) {
	r.t.Helper()
	if err := r.Update(context.Background(), "test", fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) view(fn func(tx store.Tx) error) {
	r.t.Helper()
	if err := r.View(context.Background(), fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) input(id string) mercury.Input {
	r.t.Helper()
	var in mercury.Input
	r.view(func(tx store.Tx) (err error) { in, err = tx.Input(id); return err })
	return in
}

// texts are the conversation's entries as "kind: text".
func (r *rig) texts(conversation string) []string {
	r.t.Helper()
	var out []string
	r.view(func(tx store.Tx) error {
		entries, err := tx.Entries(conversation, 0, 0)
		for i, en := range entries {
			if en.Seq != int64(i+1) {
				r.t.Errorf("entry %d has seq %d", i+1, en.Seq)
			}
			out = append(out, string(en.Kind)+": "+en.Text)
		}
		return err
	})
	return out
}

// reply settles a run with a text, to the conversation's own address.
func reply(text string) Outcome {
	return Outcome{
		Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, Text: text}},
		Answer:  []mercury.Delivery{{Address: place, Text: text}},
	}
}

// echo is a handler that answers at once with everything it was asked.
func echo(ctx context.Context, w *Work) error {
	for {
		text := "answer:"
		err := w.View(ctx, func(tx store.Tx) error {
			inputs, err := tx.RunInputs(w.Run().ID)
			for _, in := range inputs {
				text += " " + in.Text
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := w.Settle(ctx, reply(text), nil); !errors.Is(err, ErrMore) {
			return err
		}
	}
}

// A gated handler stops at a gate the test opens.
type gate struct {
	arrived chan *Work
	open    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan *Work, 100), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context, w *Work) error {
	g.arrived <- w
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// then returns a handler that waits at the gate and goes on with next.
func (g *gate) then(next Handler) Handler {
	return func(ctx context.Context, w *Work) error {
		if err := g.pass(ctx, w); err != nil {
			return err
		}
		return next(ctx, w)
	}
}

func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// A pigeon is a Sender that writes down what it shows and answers as told.
type pigeon struct {
	mu    sync.Mutex
	shown []string
	do    func(n int, p mercury.Part) error // n counts from 1
	n     int
}

func (s *pigeon) Send(ctx context.Context, d mercury.Delivery, p mercury.Part) (string, error) {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if s.do != nil {
		if err := s.do(n, p); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, p.Text)
	return fmt.Sprintf("receipt-%d", n), nil
}

func (s *pigeon) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.shown...)
}

func equal[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if len(got) == len(want) {
		same := true
		for i := range got {
			same = same && got[i] == want[i]
		}
		if same {
			return
		}
	}
	t.Errorf("%s = %v, want %v", what, got, want)
}

func kindOf(err error) mercury.Kind { return mercury.KindOf(err) }
