package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// follows reports whether a running house follows a change of this key. The
// others are read when the house is built.
func follows(key string) bool {
	section, rest, _ := strings.Cut(key, ".")
	switch section {
	case "name", "owner", "model", "fallbacks", "providers", "permissions", "roles", "budget", "limits", "prices", "http", "memory", "quiet_hours":
		return true
	case "channels": // who is who; where they talk waits
		_, what, _ := strings.Cut(rest, ".")
		what, _, _ = strings.Cut(what, ".")
		return what == "owners" || what == "members" || what == "roles"
	}
	return false
}

// Follows says in a sentence what a change of this key does to a Mercury that
// runs.
func Follows(key string) string {
	if follows(key) {
		return "A running Mercury takes it up by itself."
	}
	return "A running Mercury uses it after its next start."
}

// answering is the model that answers now. Whoever holds it follows a change;
// a call in hand ends with the model that it began with.
type answering struct{ now atomic.Pointer[llm.Client] }

func (a *answering) set(c llm.Client) { a.now.Store(&c) }

func (a *answering) Stream(ctx context.Context, r llm.Request, show func(llm.Event)) (llm.Response, error) {
	return (*a.now.Load()).Stream(ctx, r, show)
}

// wires are the network now. A request in hand ends on the transport that it
// began with.
type wires struct {
	now atomic.Pointer[http.Transport]
}

func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) { return w.now.Load().RoundTrip(r) }

// current is the profiles that count now, in the shapes in which other rooms
// ask them.
type current struct{ now atomic.Pointer[profiles] }

func (c *current) Profile(ctx context.Context, run mercury.Run, conversation mercury.Conversation) (agent.Profile, error) {
	return c.now.Load().Profile(ctx, run, conversation)
}

func (c *current) plan(conversation mercury.Conversation, in mercury.Input) (engine.NewRun, error) {
	return c.now.Load().plan(conversation, in)
}

func (c *current) role(channel string, a mercury.Actor) mercury.Role {
	return c.now.Load().people(channel, a)
}

func (c *current) may(r mercury.Role, p mercury.Permission) bool {
	return c.now.Load().roles.May(r, p)
}

func (c *current) limit(a mercury.Actor) intake.Limit { return c.now.Load().limit(a) }

func (c *current) config() *config.Config { return c.now.Load().config }

// take makes c the configuration of the running house. Runs in hand end by the
// rights and the model they began with; the next ones follow. It returns the
// keys that wait for the next start.
func (h *House) take(ctx context.Context, c *config.Config) (waiting []string, err error) {
	r := h.rooms.Load()
	if r == nil {
		return nil, errors.New("the store cannot be used")
	}
	// New keys are known as secrets before anything could carry them.
	h.secrets.learn(c)
	network, err := newTransport(c.HTTP)
	if err != nil {
		return nil, err
	}
	chain, err := models(c, h.secrets.broker.Transport(r.wires), llm.NewBreaker())
	if err != nil {
		network.CloseIdleConnections()
		return nil, err
	}
	next := r.current.now.Load().with(c)
	next.gate.engine.Store(r.engine)
	r.wires.now.Swap(network).CloseIdleConnections()
	r.model.set(screen{chain, h.secrets})
	r.current.now.Store(next)
	next.mind.soul.Rename(c.Name, c.Owner)
	h.inUse.Store(c)
	if err := r.engine.Redigest(ctx, digest(c)); err != nil {
		h.opts.Log.Warn("other processes do not know of the changed configuration", "err", err)
	}
	return slices.DeleteFunc(config.Changed(h.opts.Config, c), follows), nil
}

// with returns the profiles by another configuration: rights, people, limits
// and tools are made anew; the model, files and background commands are shared.
func (p *profiles) with(c *config.Config) *profiles {
	next := *p
	next.config, next.mode, next.roles, next.people = c, c.Permissions.Mode, roles(c), people(c)
	next.scopes = scopes(c, p.workspace)
	o := p.gate.gateOptions
	o.mode, o.roles = next.mode, next.roles
	next.gate = newGate(o)
	next.core, next.more = next.belt(p.commands)
	next.tools = tool.NewTieredSet(next.gate, next.core, next.more)
	if p.outside != nil {
		next.outside = p.outside.again()
	}
	return &next
}

// config is the configuration in use, also for a house that is built anew.
func (h *House) config() *config.Config {
	if c := h.inUse.Load(); c != nil {
		return c
	}
	return h.opts.Config
}

// amend puts into a what changed since the house was opened. h.mu is held.
func (h *House) amend(a *api.About) {
	c := h.config()
	a.Name, a.Model, a.Restart = c.Name, c.Model, h.waiting
	if !h.reread {
		return
	}
	a.Problems = slices.DeleteFunc(slices.Clone(a.Problems), func(p string) bool { return slices.Contains(h.opts.Problems, p) })
	if h.unread != "" {
		a.Problems = append(a.Problems, h.unread)
	}
}

// live returns what keeps the house at its files; nil where it is not to
// follow them.
func (h *House) live() *live {
	if !h.opts.Follow {
		return nil
	}
	h.followed.Do(func() { h.follower = h.newFollower() })
	return h.follower
}

func (h *House) newFollower() *live {
	return &live{source: config.Source{Home: h.opts.Home}, now: h.opts.Config, take: h.take, log: h.opts.Log, degraded: len(h.opts.Problems) > 0,
		say: func(problem string, waiting []string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			// What was wrong at the start is over once the files were read anew.
			h.unread, h.waiting, h.reread = problem, waiting, true
		}}
}

// reload reads the configuration anew because somebody asks for it.
func (h *House) reload(ctx context.Context) (string, error) {
	l := h.live()
	if l == nil {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: errors.New("this Mercury keeps the configuration it began with"),
			Help: "It runs for one question only; a Mercury that stays follows its files."}
	}
	return l.Reload(ctx)
}
