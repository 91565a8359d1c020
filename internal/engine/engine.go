// Package engine keeps the promise that nothing accepted is lost and nothing
// done is done twice.
//
// It is a queue, a journal and an outbox over one store. A message that was
// accepted becomes a run in the commit that accepts it; a run is in the hands
// of one process at a time, under an epoch that refuses the writes of whoever
// had it before; each finished step of it is on disk before the next begins;
// its answer leaves through the outbox, where a send is marked before it is
// tried and never repeated unless it is proven that nothing was shown.
//
// The package knows no model and no channel. It runs handlers by kind and
// hands parts of deliveries to Senders; what a turn is, and how a text reaches
// a person, is decided above.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Handler works on one claimed run. It returns what Work.Settle or
// Work.Park returned, or an error whose Cure the engine applies. A nil error
// without a settle settles the run as done. Its context ends when the run is
// cancelled, the process drains, or the run was lost to another process; then
// it returns as soon as it can.
type Handler func(ctx context.Context, w *Work) error

// A Sender shows one part of a delivery to its reader and returns the
// platform's receipt. A mercury.Transient, Invalid or Denied error is proof
// that nothing was shown: the first is tried again, the others refuse the
// delivery. After any other error nobody knows, and the part stays unknown.
type Sender interface {
	Send(ctx context.Context, d mercury.Delivery, p mercury.Part) (receipt string, err error)
}

// What a Work or its operations return when a handler must stop.
var (
	// ErrParked is what Park returns and the handler passes on.
	ErrParked = errors.New("run is parked")
	// ErrMore means that an input arrived before the answer was stored: the
	// loop goes on with it.
	ErrMore = errors.New("more input arrived")
	// ErrLost means that the run is no longer this process's: stop at once
	// and write nothing.
	ErrLost = errors.New("run was lost to another owner")
	// ErrCanceled means that somebody asked for the run's end.
	ErrCanceled = errors.New("run is cancelled")
)

var errDraining = errors.New("process is shutting down")

// An Engine runs the queue and the outbox of one store in this process.
// Update, View and what builds on them work without Run; then another process
// or a later Run does the work.
type Engine struct {
	store  store.Store
	opts   Options
	log    *slog.Logger
	bus    *Bus
	shared bool // other processes may work on the same store

	handlers map[string]Handler
	ended    map[string]func(*Tx, mercury.Run) error

	runs *signal // work for the scheduler
	out  *signal // work for the outbox
	left *signal // something in hand is done

	wakes atomic.Int64  // how often the scheduler or the outbox woke
	woke  chan struct{} // closed when this process takes work

	mu       sync.Mutex
	id       string // of this process in the store; a new one after it was declared dead
	stage    stage
	senders  map[string]Sender
	hands    map[string]*hand  // runs in hand, by id
	sending  map[string]string // deliveries in hand and their attempts
	used     map[mercury.Lane]int
	todo     todo
	astray   bool   // this process may own what it does not know of
	degraded string // why nothing is claimed
	work     context.Context
	renewed  time.Time // when the lease was last renewed, wall and monotonic
	latency  latency
}

// stage is how far a Run has come.
type stage int

const (
	asleep stage = iota // not running: nothing is claimed
	awake
	draining
)

// New returns an engine over s. It starts nothing.
func New(s store.Store, o Options) *Engine {
	e := &Engine{
		store:    s,
		opts:     o.withDefaults(),
		shared:   s.SafetyPoll() > 0,
		handlers: map[string]Handler{},
		ended:    map[string]func(*Tx, mercury.Run) error{},
		runs:     newSignal(),
		out:      newSignal(),
		left:     newSignal(),
		woke:     make(chan struct{}),
		id:       mercury.NewID("ps"),
		senders:  map[string]Sender{},
		hands:    map[string]*hand{},
		sending:  map[string]string{},
		used:     map[mercury.Lane]int{},
	}
	e.log = e.opts.Log
	e.bus = newBus(e.id)
	return e
}

// Handle names the handler of a kind of run. Call it before Run.
func (e *Engine) Handle(kind string, h Handler) { e.handlers[kind] = h }

// Sender names who shows deliveries to addresses of channel; nil removes it,
// and its deliveries wait.
func (e *Engine) Sender(channel string, s Sender) {
	e.mu.Lock()
	if s == nil {
		delete(e.senders, channel)
	} else {
		e.senders[channel] = s
	}
	e.mu.Unlock()
	e.out.set()
}

// Bus returns the lossy stream of what happens.
func (e *Engine) Bus() *Bus { return e.bus }

// Run registers this process, takes back what dead ones left in hand, and
// works the queue and the outbox until ctx ends; then it drains for at most
// ten seconds. When it returns, all it started has stopped, but for handlers
// that did not obey within that time. Call it once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.stage != asleep {
		e.mu.Unlock()
		return errors.New("run engine: it ran already")
	}
	e.mu.Unlock()

	// What is in hand outlives ctx by the length of the drain.
	keep := context.WithoutCancel(ctx)
	if err := e.enter(ctx); err != nil {
		return err
	}
	loops, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, dropWork := context.WithCancelCause(keep)
	sends, dropSends := context.WithCancelCause(keep)
	e.mu.Lock()
	e.stage, e.work = awake, work
	e.todo = todo{cold: true, times: true}
	e.mu.Unlock()
	close(e.woke)
	var wg sync.WaitGroup
	loop := func(name string, fn func(context.Context) error) {
		wg.Go(func() {
			if err := fn(loops); err != nil && loops.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	loop("schedule runs", e.schedule)
	loop("send deliveries", func(c context.Context) error { return e.deliver(c, sends) })
	if e.shared {
		loop("keep lease", e.heartbeat)
		loop("listen to other processes", e.listen)
	}
	<-loops.Done()
	err := context.Cause(loops)
	if ctx.Err() != nil {
		err = nil
	}
	e.drain(keep, &wg, dropWork, dropSends)
	return err
}

// enter registers this process and takes back what dead ones left. A store
// that takes nothing just now, such as one on a full disk, is waited for.
func (e *Engine) enter(ctx context.Context) error {
	for again := 100 * time.Millisecond; ; again = min(2*again, 10*time.Second) {
		err := e.register(ctx)
		if err == nil {
			err = e.sweep(ctx)
		}
		if err == nil || ctx.Err() != nil || fatal(err) || !troubled(err) {
			if err != nil {
				return fmt.Errorf("register process: %w", err)
			}
			if !e.shared { // on a shared store it was compared with the others
				e.trouble("")
			}
			return nil
		}
		e.trouble(strings.TrimSpace(err.Error() + ". " + mercury.HelpOf(err)))
		e.log.Warn("register process", "err", err, "again", again)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// trouble says in the status why nothing is worked on; empty: no longer.
func (e *Engine) trouble(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.degraded = why
}

// Awake is closed once Run has taken back what was left in hand and begins to
// take work: from then on a message is accepted and claimed in one commit.
func (e *Engine) Awake() <-chan struct{} { return e.woke }

// Update runs fn in one durable transaction with the engine's rules on top.
// After the commit it wakes workers and publishes events. point names the
// transaction for crash tests. fn is pure but for its Tx, and may run again.
//
// An outcome that the store does not know is resolved by looking up what fn
// wrote; where that fails too, the error is store.ErrUnknownOutcome.
func (e *Engine) Update(ctx context.Context, point string, fn func(*Tx) error) error {
	ctx = crash.With(ctx, point)
	var t *Tx
	err := e.store.Update(ctx, func(s store.Tx) error {
		if t != nil {
			t.undo()
		}
		t = &Tx{Tx: s, e: e}
		if err := fn(t); err != nil {
			return err
		}
		return t.finish()
	})
	if errors.Is(err, store.ErrUnknownOutcome) && t.witness != nil {
		err = e.resolve(ctx, t.witness, err)
	}
	if err != nil {
		if t != nil {
			t.undo()
			t.unlocked()
		}
		if errors.Is(err, store.ErrUnknownOutcome) {
			e.reconcileLater()
		}
		return err
	}
	t.publish()
	return nil
}

// View runs fn on a consistent snapshot.
func (e *Engine) View(ctx context.Context, fn func(store.Tx) error) error {
	return e.store.View(ctx, fn)
}

// resolve finds out whether a commit with an unknown outcome happened, by
// what it would have written. It asks a few times, since the database has
// just failed.
func (e *Engine) resolve(ctx context.Context, witness func(store.Tx) (bool, error), unknown error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		found := false
		err := e.store.View(ctx, func(tx store.Tx) error {
			var err error
			found, err = witness(tx)
			return err
		})
		switch {
		case err == nil && found:
			return nil
		case err == nil:
			return nothingStored(unknown)
		case errors.Is(err, store.ErrClosed):
			return unknown
		}
		select {
		case <-ctx.Done():
			return unknown
		case <-time.After(pause):
		}
	}
}

// nothingStored is the error of a commit that turned out to have left nothing.
// It no longer reads as an unknown outcome; a full disk stays one, since it is
// a person who mends that.
func nothingStored(unknown error) error {
	if errors.Is(unknown, store.ErrDiskFull) {
		return &mercury.Error{Kind: mercury.Full, Help: mercury.HelpOf(unknown),
			Err: fmt.Errorf("commit: nothing was stored: %w", store.ErrDiskFull)}
	}
	return &mercury.Error{Kind: mercury.Transient, Help: "It was not stored; try again.",
		Err: errors.New("commit: the connection was lost and nothing was stored")}
}

// self is the id under which this process owns runs now.
func (e *Engine) self() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id
}

// signal is a bell that remembers one ring.
type signal struct{ c chan struct{} }

func newSignal() *signal { return &signal{c: make(chan struct{}, 1)} }

func (s *signal) set() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// found drops the error that says there is nothing, and reports whether there
// is something.
func found(err error) (bool, error) {
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
