// Package daemon builds the house, runs it and stops it. It knows every room
// and nobody knows it but the commands: build.go is the list of what is made
// and in which order, this file is how it lives.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// Options say how a house is run. Home, Config and Version are required.
type Options struct {
	Home    config.Home
	Config  *config.Config
	Version string
	// Problems are why the house starts degraded, such as a broken
	// configuration replaced by its last good copy.
	Problems []string
	// Only, if set, works on this conversation and what descends from it:
	// no channels, no schedules, no other runs.
	Only string
	// OnlyLatest does the same for the local conversation that was last
	// active.
	OnlyLatest bool
	// Idle runs nothing at all: the API answers about what is kept, and
	// whatever is asked of it waits for a Mercury that works. It needs no
	// model.
	Idle bool
	// Stoppable lets the API end the house.
	Stoppable bool
	// Follow takes up changes of mercury.yaml and .env while the house runs.
	Follow bool
	// AnyPort listens on a free port when the configured one is taken; for
	// runs whose address nobody needs to know beforehand.
	AnyPort bool
	// Helper is the program that starts commands inside a fence when it is
	// called by the sandbox's subcommand; without one there is no fence.
	Helper string
	Log    *slog.Logger // default discards
}

// House is a Mercury in this process: its lock, its store, its rooms.
type House struct {
	opts     Options
	listener net.Listener
	lock     *homelock.Lock // where the store does not hold it itself
	token    string
	secrets  secrets
	started  time.Time
	rooms    atomic.Pointer[rooms] // nil while the store cannot be opened
	stop     chan struct{}         // closed once the API was asked to end the house
	stopping sync.Once

	followed sync.Once
	follower *live // set by followed

	inUse atomic.Pointer[config.Config] // since the last change; nil: the one it was opened with

	mu       sync.Mutex
	problems []string
	unread   string   // why changed configuration files are not in use
	waiting  []string // keys that wait for the next start
	reread   bool     // the files were read since the start
}

// Open takes the home, the address and the store. On return the house owns
// them, and nothing runs yet; Run or Close must follow.
//
// A home that another process owns gives a *homelock.HeldError. A store that
// cannot be opened for a reason a person can mend (damaged, full disk,
// read-only, unreachable) is no error: the house runs degraded, says so, and
// tries again.
func Open(ctx context.Context, o Options) (*House, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &House{opts: o, stop: make(chan struct{}), started: time.Now(), problems: o.Problems}
	if err := closeMemory(); err != nil {
		return nil, err
	}
	if err := backup.Unfinished(o.Home.Dir()); err != nil {
		return nil, err
	}
	if err := o.Home.Create(); err != nil {
		return nil, fmt.Errorf("make the home: %w", err)
	}
	if err := h.listen(); err != nil {
		return nil, err
	}
	var err error
	if h.token, err = o.Home.Token(); err != nil {
		h.listener.Close()
		return nil, fmt.Errorf("make the token: %w", err)
	}
	h.secrets = newSecrets(o.Config, h.token)
	h.opts.Log = redacted(o.Log, h.secrets.Mask)
	r, err := build(ctx, h)
	if err != nil {
		if !mendable(err) {
			h.listener.Close()
			return nil, h.secrets.hideIn(err)
		}
		h.degrade(err)
		return h, nil
	}
	h.rooms.Store(r)
	return h, nil
}

// startPatience is how long a port that is taken may turn out to be taken by
// another runtime of this home: one that has just begun has its port a moment
// before it has the home.
const startPatience = 2 * time.Second

// listen binds the configured address. Where the port is taken, whoever has
// it is named: another runtime of this home, or some other program.
func (h *House) listen() error {
	addr := h.opts.Config.Web.Listen
	l, err := net.Listen("tcp", addr)
	for begun := time.Now(); errors.Is(err, syscall.EADDRINUSE); l, err = net.Listen("tcp", addr) {
		holder := homelock.Read(h.opts.Home.Dir())
		if holder.Address == addr && holder.PID != os.Getpid() {
			lock, err := homelock.Take(h.opts.Home.Dir(), "")
			if err != nil {
				return err
			}
			lock.Release()
		}
		if h.opts.AnyPort {
			addr = "127.0.0.1:0"
			continue
		}
		if time.Since(begun) > startPatience {
			return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("the address %s is taken by another program", addr),
				Help: "Stop that program, or set web.listen in mercury.yaml to a free port such as 127.0.0.1:6175."}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("listen on %s: %w", addr, err), Help: "Set web.listen in mercury.yaml to an address of this machine."}
	}
	h.listener = l
	return nil
}

// Restored says, for people, that the home was restored and is held back; empty
// where it is not.
func (h *House) Restored() string {
	if r := h.rooms.Load(); r != nil {
		return strings.Join(r.care.problem(), " ")
	}
	return ""
}

// Addr is where the API listens.
func (h *House) Addr() string { return h.listener.Addr().String() }

// stopper is how the API ends the house; nil where it may not.
func (h *House) stopper() func() {
	if !h.opts.Stoppable {
		return nil
	}
	return func() { h.stopping.Do(func() { close(h.stop) }) }
}

// Token is the API's bearer token.
func (h *House) Token() string { return h.token }

// Engine returns the engine, or nil while the house is degraded so far that
// it has none.
func (h *House) Engine() *engine.Engine {
	if r := h.rooms.Load(); r != nil {
		return r.engine
	}
	return nil
}

// mendable reports whether an error of opening the store is one that passes,
// or that a person mends, while the house waits.
func mendable(err error) bool {
	for _, e := range []error{store.ErrDamaged, store.ErrDiskFull, store.ErrReadOnly, store.ErrUnavailable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (h *House) degrade(err error) {
	h.opts.Log.Error("the store cannot be used", "err", err)
	text := err.Error()
	if help := mercury.HelpOf(err); help != "" {
		text += ". " + help
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.opts.Problems[:len(h.opts.Problems):len(h.opts.Problems)], text)
}

func (h *House) mended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = h.opts.Problems
}

func (h *House) about(context.Context) api.About {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := api.About{Name: h.opts.Config.Name, Home: h.opts.Home.Dir(), Model: h.opts.Config.Model,
		Listen: h.Addr(), PID: os.Getpid(), Started: h.started, Problems: h.problems}
	r := h.rooms.Load()
	if r != nil {
		a.Problems = append(a.Problems[:len(a.Problems):len(a.Problems)], r.care.problem()...)
		if r.lost != "" {
			a.Problems = append(a.Problems, r.lost)
		}
	}
	h.amend(&a)
	if len(a.Problems) > 0 {
		a.State = "degraded"
	}
	if r != nil {
		if report, ok := r.fence.Known(); ok {
			a.Fence, a.FenceMissing, a.FenceCure = string(report.Level), report.Missing, report.Cure
			a.Veil = cmp.Or(string(report.Veil), "none")
		}
	}
	return a
}

// Run lives until ctx ends: the engine works, the channels listen, the API
// answers. Then it stops taking, drains for at most ten seconds, and lets go
// of the home. When it returns, all it started has stopped.
func (h *House) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-h.stop:
			stop()
		case <-ctx.Done():
		}
	}()
	defer h.Close()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(h.opts.Log.Handler(), slog.LevelDebug)}
	g, gctx := errgroup.WithContext(ctx)
	// Requests outlive ctx by the drain: what was accepted gets its answer.
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	g.Go(func() error {
		h.settle(gctx)
		if err := srv.Serve(api.Listener(h.listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the API: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		// Event streams never end by themselves: give requests a moment,
		// then end them.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		time.AfterFunc(200*time.Millisecond, endRequests)
		if srv.Shutdown(stop) != nil {
			return srv.Close()
		}
		return nil
	})
	g.Go(func() error { return h.work(gctx) })
	if l := h.live(); l != nil {
		g.Go(func() error {
			l.run(gctx)
			return nil
		})
	}
	err := g.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// settle lets the engine wake before the first request is read, so that who
// gets an answer finds a house at work. It takes one commit. Requests wait
// meanwhile, but not for a database that does not answer: then the house says
// so instead.
func (h *House) settle(ctx context.Context) {
	e := h.Engine()
	if e == nil {
		return
	}
	patience := time.NewTimer(500 * time.Millisecond)
	defer patience.Stop()
	select {
	case <-e.Awake():
	case <-patience.C:
	case <-ctx.Done():
	}
}

// work works in the rooms until ctx ends. While the store cannot be used, at
// the start or because it broke under the work, the house is degraded and
// tries again, less and less often.
func (h *House) work(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		if h.rooms.Load() == nil && !h.open(ctx, wait) {
			return nil // ctx ended first
		}
		began := time.Now()
		err := h.rooms.Load().run(ctx)
		if ctx.Err() != nil || !mendable(err) {
			return err
		}
		h.degrade(err)
		if r := h.rooms.Swap(nil); r != nil {
			if err := r.store.Close(); err != nil {
				h.opts.Log.Warn("the store did not close", "err", err)
			}
		}
		if time.Since(began) > time.Minute {
			wait = time.Second / 2
		}
	}
}

// open tries to open the store, first after wait, until it can; false when
// ctx ends before.
func (h *House) open(ctx context.Context, wait time.Duration) bool {
	for ; ; wait = min(2*wait, 30*time.Second) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		r, err := build(ctx, h)
		if err == nil {
			h.rooms.Store(r)
			h.mended()
			h.opts.Log.Info("the store can be used again")
			return true
		}
		h.degrade(err)
	}
}

// ServeHTTP answers through the API, or, while there is no store, says what
// is wrong to whoever has the token.
//
// No answer holds a secret, whatever it is made from.
func (h *House) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &screened{ResponseWriter: w, hide: h.secrets.Hide}
	if rooms := h.rooms.Load(); rooms != nil {
		rooms.api.ServeHTTP(w, r)
		return
	}
	api.ServeDegraded(w, r, h.token, h.opts.Version, h.about(r.Context()))
}

// Close lets go of the store, the address and the home. It is called by Run;
// call it only for a house that never ran.
func (h *House) Close() error {
	h.listener.Close()
	if r := h.rooms.Swap(nil); r != nil {
		err := r.store.Close()
		if h.lock != nil {
			h.lock.Release()
		}
		return err
	}
	return nil
}
