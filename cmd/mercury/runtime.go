package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// loadConfig reads the configuration of the home and insists on a model. One
// that is found, by its key in the environment or as a server on this machine,
// stands in where none is configured.
func loadConfig(ctx context.Context) (config.Home, *config.Config, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return home, nil, err
	}
	src := config.Source{Home: home}
	c, err := config.Load(src)
	if err != nil {
		return home, nil, err
	}
	return home, c, withModel(ctx, src, c)
}

// loadForServe is loadConfig for the runtime: where the file is broken and a
// copy of the last good one exists, it starts on that and says so.
func loadForServe(ctx context.Context) (config.Home, *config.Config, []string, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return home, nil, nil, err
	}
	src := config.Source{Home: home}
	c, degraded, err := config.LoadOrLastGood(src)
	if err != nil {
		return home, nil, nil, err
	}
	var problems []string
	if degraded != nil {
		problems = append(problems, "the configuration is broken, so the last good one is used: "+message(degraded))
	}
	return home, c, problems, withModel(ctx, src, c)
}

func withModel(ctx context.Context, src config.Source, c *config.Config) error {
	err := c.Configured()
	// A model that the person named is never replaced by another one that
	// happens to be there.
	if c.Model != "" || !errors.Is(err, config.ErrNotConfigured) {
		return err
	}
	if found := config.Discover(ctx, src); len(found) > 0 {
		c.Use(found[0])
		return c.Configured()
	}
	if old := src.Home.Beside(); old != "" {
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: fmt.Sprintf("A TypeScript Mercury lives in %s and is left as it is; this one lives in %s, at %s. `mercury import mercury` takes over what it knows; `mercury setup` begins anew.",
			old, src.Home.Dir(), freeAddress())}
	}
	if other := elsewhere(src.Home); other != "" {
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: fmt.Sprintf("A Mercury of yours lives in %s: MERCURY_HOME=%s uses it. `mercury setup` begins another one in %s.", other, other, src.Home.Dir())}
	}
	return err
}

// attach returns a client of the runtime that owns the home, if one runs and
// answers.
func attach(ctx context.Context, home config.Home) (*client.Client, error) {
	addr := homelock.Read(home.Dir()).Address
	if addr == "" {
		return nil, errNoRuntime
	}
	token, err := os.ReadFile(home.TokenFile())
	if err != nil {
		return nil, errNoRuntime
	}
	c := client.New(addr, strings.TrimSpace(string(token)))
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := c.Commands(ctx); err != nil {
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status == 503 { // it runs, degraded
			return c, nil
		}
		return nil, errNoRuntime
	}
	return c, nil
}

var errNoRuntime = &mercury.Error{Kind: mercury.Unknown, Err: errors.New("no Mercury runs in this home"),
	Help: "Start one with `mercury start`, or talk to one with `mercury`."}

// running is a runtime to talk to: one that was there, or one of this process.
type running struct {
	*client.Client
	house *daemon.House // nil: somebody else's
	stop  context.CancelFunc
	done  chan error
}

// attachOrRun attaches to the runtime of the home, or runs one in this process
// as o says.
func attachOrRun(ctx context.Context, home config.Home, o func() (daemon.Options, error)) (*running, error) {
	if c, err := attach(ctx, home); err == nil {
		return &running{Client: c}, nil
	}
	options, err := o()
	if err != nil {
		return nil, err
	}
	house, err := daemon.Open(ctx, options)
	var held *homelock.HeldError
	if errors.As(err, &held) { // one started just now: give it the moment to answer
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if c, err := attach(ctx, home); err == nil {
				return &running{Client: c}, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	// The house outlives ctx by its own drain; stop ends it.
	hctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Client: client.New(house.Addr(), house.Token()), house: house, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- house.Run(hctx) }()
	return r, nil
}

// close ends a runtime of this process and waits until it has let go of the
// home; a runtime of somebody else goes on.
func (r *running) close() error {
	if r.house == nil {
		return nil
	}
	r.stop()
	return <-r.done
}

// logger writes what operators read to w, at the configured level.
func logger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}

// isTerminal reports whether f is a terminal and not a file or a pipe.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull && isTTY(file)
}

// with runs do against the runtime of the home. Where none runs, what is kept
// is read, and changed, by this process alone; nothing is started by it.
func with(ctx context.Context, do func(*client.Client) error) error {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return err
	}
	r, err := attachOrRun(ctx, home, func() (daemon.Options, error) {
		if !home.Exists() {
			return daemon.Options{}, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("there is no home at %s", home.Dir()),
				Help: "Run `mercury setup` to make one; or set MERCURY_HOME to where yours is."}
		}
		c, _, err := config.LoadOrLastGood(config.Source{Home: home})
		if err != nil {
			return daemon.Options{}, err
		}
		return daemon.Options{Home: home, Config: c, Version: version, Idle: true, AnyPort: true}, nil
	})
	if err != nil {
		return err
	}
	return errors.Join(do(r.Client), r.close())
}

// query returns what do returns, asked through with.
func query[T any](ctx context.Context, do func(*client.Client) (T, error)) (v T, err error) {
	err = with(ctx, func(r *client.Client) (err error) {
		v, err = do(r)
		return err
	})
	return v, err
}
