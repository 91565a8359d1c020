package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/channel/relay"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/longrun"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// rooms are the parts of a house that need its store.
type rooms struct {
	store    store.Store
	engine   *engine.Engine
	intake   *intake.Intake
	api      *api.Server
	channels []*post
	fence    *sandbox.Fence
	jobs     *shell.Jobs
	outside  *outside
	care     *care
	schedule *schedule.Schedules // nil: this process does not start any
	mind     *mind
	idle     bool
	wires    *wires
	model    *answering
	current  *current
	lost     string // what is gone since the last start, for people
}

// build makes every room. It starts nothing.
func build(ctx context.Context, h *House) (*rooms, error) {
	o, c := h.opts, h.config()
	network, err := newTransport(c.HTTP)
	if err != nil {
		return nil, err
	}
	wires, model, current := &wires{}, &answering{}, &current{}
	wires.now.Store(network)
	transport := h.secrets.broker.Transport(wires)
	var chain *llm.Chain
	if !o.Idle {
		if chain, err = models(c, transport, llm.NewBreaker()); err != nil {
			return nil, err
		}
	}
	model.set(screen{chain, h.secrets})
	node, err := nodeID(o.Home.Dir())
	if err != nil {
		return nil, err
	}
	kept, err := openStore(ctx, h)
	if err != nil {
		return nil, err
	}
	care, err := newCare(ctx, h, kept, node)
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	kept = sealed{kept, h.secrets}

	if o.OnlyLatest {
		if o.Only, err = latest(ctx, kept); err != nil {
			return nil, errors.Join(err, kept.Close())
		}
	}

	r := &rooms{store: kept, care: care, idle: o.Idle}
	r.wires, r.model, r.current = wires, model, current
	r.fence = sandbox.New(sandbox.Options{Self: o.Helper, Scratch: filepath.Join(o.Home.Files(), "fence"),
		Cache: filepath.Join(o.Home.Files(), "fence.json")})
	profiles := newProfiles(c, o.Home, h.secrets, model, kept, node, r.fence, o.Log)
	if r.lost, err = lostWorkspace(ctx, kept, node, profiles.workspace, o.Log); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	if r.lost != "" {
		o.Log.Warn(r.lost)
	}
	if err := os.MkdirAll(profiles.workspace, 0o755); err != nil {
		return nil, errors.Join(&mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("make the workspace: %w", err),
			Help: "Set workspace in mercury.yaml to a folder that you may write."}, kept.Close())
	}
	if n := shell.EndLeftovers(commandOwner(node, o.Home.Dir())); n > 0 {
		o.Log.Info("ended commands that a killed Mercury had left running", "processes", n)
	}
	r.fence.Empty()
	r.outside = newOutside(c, o.Home, profiles.workspace, o.Version, kept, profiles.gate, transport)
	profiles.outside = r.outside
	current.now.Store(profiles)
	profiles.mind.config = current.config
	money := treasury{o.Home, current}
	profiles.mind.book = money.Book
	turns := agent.New(current, agent.Options{Zone: profiles.zone, Log: o.Log})
	limits := map[string]channel.Limits{}
	r.engine = engine.New(kept, engine.Options{
		Node: node, Version: o.Version, Name: processName(), Digest: digest(c), Only: o.Only,
		Plan: current.plan, Cure: turns.Cure, Failure: turns.Failure,
		Split: func(d mercury.Delivery) []mercury.Part { return channel.Parts(d, limits[mercury.ChannelOf(d.Address)]) },
		Spool: filepath.Join(o.Home.Files(), "spool"), Idle: idler(), Log: o.Log,
	})
	profiles.gate.engine.Store(r.engine)
	care.engine = r.engine
	r.jobs = profiles.jobs
	r.engine.Handle("turn", turns.Turn)
	r.engine.Handle(agent.CompactKind, turns.Compact)
	profiles.schedules = newSchedules(current, profiles, r.engine, turns.Turn, node, kept.SafetyPoll(), o.Log)
	profiles.files.TakesBack(schedule.UndoAct, profiles.schedules.Undo)
	profiles.files.TakesBack(memory.UndoAct, memory.Undo)
	if o.Only == "" && !o.Idle {
		r.schedule = profiles.schedules
	}
	r.engine.Handle("learn", profiles.mind.learn)
	r.engine.Ended("", profiles.mind.ended)
	r.engine.Ended("turn", inTurn(longrun.Ended, turns.Grown))
	r.mind = profiles.mind
	if err := r.mind.seed(); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	anatomy := func(ctx context.Context, conversation string) (agent.Anatomy, error) {
		return turns.Anatomy(ctx, kept.View, conversation)
	}
	r.intake = intake.New(r.engine, intake.Options{Role: current.role, May: current.may,
		Limit: current.limit, Zone: profiles.zone, Undo: profiles.undo, Jobs: profiles.jobs, Schedules: profiles.schedules,
		Models: modelDesk{o.Home, current.config}, Budget: money, Anatomy: anatomy, Reload: h.reload, Skills: profiles.skills, Log: o.Log})
	r.api = api.New(r.engine, r.intake, h.token, api.Options{Version: o.Version, About: h.about, Undo: profiles.undo, Jobs: profiles.jobs,
		MCP: r.outside.mcp, Backups: care, Skills: profiles.skills, Schedules: profiles.schedules, Budget: money, Anatomy: anatomy, Stop: h.stopper(), Log: o.Log})

	if o.Only == "" && !o.Idle {
		if err := r.openChannels(h, node, transport); err != nil {
			return nil, errors.Join(err, kept.Close())
		}
		for _, p := range r.channels {
			limits[p.channel.Name()] = p.channel.Limits()
		}
	}
	return r, nil
}

// inTurn calls several functions at the end of a run, in this order.
func inTurn(fns ...func(*engine.Tx, mercury.Run) error) func(*engine.Tx, mercury.Run) error {
	return func(tx *engine.Tx, run mercury.Run) error {
		for _, fn := range fns {
			if err := fn(tx, run); err != nil {
				return err
			}
		}
		return nil
	}
}

// openStore opens the configured database. SQLite locks the home itself; with
// PostgreSQL the home is locked here, since it is still this process's alone.
func openStore(ctx context.Context, h *House) (store.Store, error) {
	o := h.opts
	url, err := o.Config.Database.URL.Value()
	if err != nil {
		return nil, err
	}
	if url == "" {
		return sqlite.Open(ctx, o.Home.Dir(), sqlite.Options{Address: h.Addr()})
	}
	if h.lock == nil {
		if h.lock, err = homelock.Take(o.Home.Dir(), h.Addr()); err != nil {
			return nil, err
		}
	}
	return postgres.Open(ctx, url, postgres.Options{})
}

// latest is the local conversation that was last active.
func latest(ctx context.Context, s store.Store) (id string, err error) {
	err = s.View(ctx, func(tx store.Tx) error {
		for after := ""; ; {
			list, next, err := tx.Conversations(store.Page{After: after})
			if err != nil {
				return err
			}
			for _, c := range list {
				if mercury.ChannelOf(c.ID) == "local" {
					id = c.ID
					return nil
				}
			}
			if after = next; next == "" {
				return &mercury.Error{Kind: mercury.NotFound, Err: errors.New("there is no conversation to continue yet"), Help: "Ask without --continue."}
			}
		}
	})
	return id, err
}

// openChannels makes the channels that are configured.
func (r *rooms) openChannels(h *House, node string, transport http.RoundTripper) error {
	c := h.opts.Config.Channels
	if c.Relay != nil {
		token, err := c.Relay.Token.Value()
		if err != nil {
			return err
		}
		p := &post{engine: r.engine, intake: r.intake, owner: node, shared: r.store.SafetyPoll() > 0, log: h.opts.Log}
		p.channel, err = relay.New(c.Relay.URL, p, relay.Options{Token: token, HTTP: transport, Log: h.opts.Log})
		if err != nil {
			return err
		}
		r.channels = append(r.channels, p)
	}
	return nil
}

// run works until ctx ends.
func (r *rooms) run(ctx context.Context) error {
	defer r.outside.mcp.Close()
	if r.idle {
		<-ctx.Done()
		return nil
	}
	defer r.care.leave(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.engine.Run(ctx) })
	g.Go(func() error { return r.care.run(ctx) })
	g.Go(func() error {
		r.fence.Probe(ctx) // so that the first command need not wait for it
		return nil
	})
	g.Go(func() error { return r.jobs.Run(ctx) })
	if r.schedule != nil {
		g.Go(func() error {
			if !r.care.ready(ctx) {
				return nil
			}
			return r.schedule.Run(ctx)
		})
	}
	g.Go(func() error { return r.mind.warm(ctx) })
	g.Go(func() error {
		if !r.care.ready(ctx) {
			return nil
		}
		return r.intake.KeepModes(ctx)
	})
	for _, p := range r.channels {
		g.Go(func() error {
			if !r.care.ready(ctx) {
				return nil
			}
			return p.run(ctx)
		})
	}
	return g.Wait()
}

// nodeID is the identity of a home, made once. It says which process of
// several on one database a run or a channel belongs to.
func nodeID(dir string) (string, error) {
	path := filepath.Join(dir, "node")
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the home's identity: %w", err)
	}
	id := mercury.NewID("node")
	if err := atomicfile.Write(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the home's identity: %w", err)
	}
	return id, nil
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "here"
	}
	return fmt.Sprintf("%s (pid %d)", host, os.Getpid())
}
