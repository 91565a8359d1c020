package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// live keeps a running house at the configuration that its files hold. What
// cannot be used is said once and changes nothing: the house goes on with what
// it has.
type live struct {
	source config.Source
	now    *config.Config // in use
	// take makes a configuration the one in use and returns the keys that wait
	// for the next start, those of earlier changes too. After an error
	// everything is as it was.
	take func(ctx context.Context, c *config.Config) (waiting []string, err error)
	// say shows what is wrong with the files and which keys wait, in place of
	// what was said before.
	say func(problem string, waiting []string)
	log *slog.Logger
	// degraded says that the house started on another configuration than its
	// files hold.
	degraded bool

	mu     sync.Mutex // one look at a time
	said   string
	waited []string
}

// run watches until ctx ends. A system that cannot watch files is no reason to
// stop: a restart reads them.
func (l *live) run(ctx context.Context) {
	if !l.degraded { // else the broken file was said already
		_, _ = l.look(ctx) // for what changed while the house was built; it says itself what is wrong
	}
	files := []string{l.source.Home.Config(), l.source.Home.Env()}
	if err := watch(ctx, files, func() { _, _ = l.look(ctx) }); err != nil {
		l.log.Warn("changes of the configuration are not seen until the next start", "err", err)
	}
}

// Reload reads the files now and says what became of them. A file that cannot
// be used changes nothing and is the error.
func (l *live) Reload(ctx context.Context) (string, error) {
	keys, err := l.look(ctx)
	if err != nil {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("the configuration cannot be used, so the former one stays in use: %w", err), Help: mercury.HelpOf(err)}
	}
	text := "Read anew: nothing has changed."
	if len(keys) > 0 {
		text = "Read anew: " + strings.Join(keys, ", ") + ". Work in hand ends by what it began with."
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waited) > 0 {
		text += " Waits for the next start: " + strings.Join(l.waited, ", ") + "."
	}
	return text, nil
}

// look reads the files and takes up what changed, whose keys it returns.
func (l *live) look(ctx context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.read()
	if err != nil {
		l.refuse(err)
		return nil, err
	}
	keys := config.Changed(l.now, c)
	if len(keys) == 0 {
		l.show("", l.waited)
		return nil, nil
	}
	waiting, err := l.take(ctx, c)
	if err != nil {
		l.refuse(err)
		return nil, err
	}
	l.now = c
	l.log.Info("configuration taken up", "keys", strings.Join(keys, ", "), "waiting", strings.Join(waiting, ", "))
	l.show("", waiting)
	if err := c.Keep(); err != nil {
		l.log.Warn("the configuration was not kept for a later start", "err", err)
	}
	return keys, nil
}

// errHalf says that a file seems to be in the middle of being written: reading
// it as it stands would take back everything it decided.
var errHalf = &mercury.Error{Kind: mercury.Setup, Err: errors.New("mercury.yaml is empty or gone"),
	Help: "Put it back; where everything shall be as by default, restart Mercury."}

func (l *live) read() (*config.Config, error) {
	if l.now.FromFile() {
		text, err := os.ReadFile(l.source.Home.Config())
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(text)) == 0 {
			return nil, errHalf
		}
	}
	c, err := config.Load(l.source)
	if err != nil {
		return nil, err
	}
	c.Inherit(l.now)
	return c, c.Configured()
}

// refuse says what is wrong, once.
func (l *live) refuse(err error) {
	text := "the configuration was changed and cannot be used, so the former one stays in use: " + err.Error()
	if help := mercury.HelpOf(err); help != "" && !strings.Contains(text, help) {
		text += ". " + help
	}
	if text != l.said {
		l.log.Warn("the changed configuration cannot be used", "err", err)
	}
	l.show(text, l.waited)
}

func (l *live) show(problem string, waiting []string) {
	l.said, l.waited = problem, waiting
	l.say(problem, waiting)
}
