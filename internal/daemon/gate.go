package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// gate puts the permission room before the tools: it passes a tool's request
// on as a question, and the grants that the store keeps along with it.
type gate struct {
	gateOptions
	user   string
	engine atomic.Pointer[engine.Engine] // set once the engine exists; before, there are no grants

	mu    sync.Mutex // guards judge
	judge map[bool]*permission.Gate
}

// gateOptions are what a gate judges by. Home and fence are required.
type gateOptions struct {
	home    string // Mercury's own folder
	zone    string // of automatic commands; empty: the machine's
	mode    string // the configured one
	fence   *sandbox.Fence
	secrets secrets
	roles   permission.Roles
	// services are configured addresses that tools may ask.
	services []string
	resolve  permission.Resolver // default: the system's
	log      *slog.Logger
}

func newGate(o gateOptions) *gate {
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // a tilde is then an ordinary character
	}
	if o.resolve == nil {
		o.resolve = lookup
	}
	return &gate{gateOptions: o, user: user, judge: map[bool]*permission.Gate{}}
}

// permission returns the judge for what this system can hold. It waits for the
// fence's probe, which takes a moment once in a boot.
func (g *gate) permission(ctx context.Context) *permission.Gate {
	fenced := g.fence.Probe(ctx).Level != sandbox.None
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.judge[fenced] == nil {
		g.judge[fenced] = permission.New(permission.Options{
			Files:     permission.Files{Home: g.home, User: g.user},
			Grants:    g,
			Roles:     rights(g.roles),
			Sandboxed: fenced,
			Fenced:    fenced,
			Resolve:   g.resolve,
			Zone:      g.zone,
			Services:  g.services,
		})
	}
	return g.judge[fenced]
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Judge implements tool.Gate.
func (g *gate) Judge(ctx context.Context, r tool.Request) mercury.Judgement {
	j, _ := g.JudgeCommand(ctx, r)
	return j
}

// JudgeCommand implements tool.CommandGate: what the argv lane resolved is
// what runs, inside the fence where there is one. A string that a person or a
// grant let through is the shell's, outside it; one that passed because it is
// fenced runs fenced or not at all.
func (g *gate) JudgeCommand(ctx context.Context, r tool.Request) (mercury.Judgement, *tool.Command) {
	if why := g.leak(r); why != "" {
		return mercury.Judgement{Verdict: mercury.Deny, Rule: "secret.leaves", Why: why}, nil
	}
	if until := r.Mandate.ModeUntil; !until.IsZero() && !time.Now().Before(until) {
		r.Mandate.Mode = g.mode // the one that was chosen for a time is over
	}
	r.Mandate.Interactive = r.Mandate.Interactive && !g.crowded(ctx, r)
	judge := g.permission(ctx)
	d := judge.Decide(context.WithValue(ctx, runKey{}, r.RunID), permission.Question{
		Mandate: r.Mandate, Tool: r.Tool, Accesses: r.Accesses, Dir: r.Dir, Taint: r.Taint, Verbatim: g.verbatim(ctx, r)})
	if len(d.Commands) != 1 {
		return d.Judgement, nil
	}
	c := d.Commands[0]
	switch {
	case c.Fence:
		x := &tool.Command{Path: c.Path, Args: c.Args, Dir: c.Dir, Why: "sandbox", Fence: g.policy(r.Mandate, true)}
		if !c.Shell {
			x.Env = c.Env
		}
		return d.Judgement, x
	case c.Shell || c.Builtin != "":
		return d.Judgement, nil
	case c.Path == "" && d.Verdict == mercury.Allow:
		name := "the program"
		if len(c.Args) > 0 {
			name = c.Args[0]
		}
		return mercury.Judgement{Verdict: mercury.Deny, Rule: "command.missing", Why: name + " is not installed in a folder of the system's programs"}, nil
	}
	out := &tool.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Why: "argv"}
	if report, ok := g.fence.Known(); ok && report.Level != sandbox.None && !c.Asked {
		out.Fence = g.policy(r.Mandate, false)
	}
	return d.Judgement, out
}

// policy is what a fenced command of a mandate may touch: it reads what is
// granted and, with write, changes the workspace if that is granted too. It
// never sees Mercury's own folder, nor where people keep their keys.
func (g *gate) policy(m mercury.Mandate, write bool) *sandbox.Policy {
	p := &sandbox.Policy{
		ReadOnly: sandbox.Programs(g.user),
		Hidden:   append(sandbox.Keys(g.user), g.home),
		Limits:   sandbox.DefaultLimits(),
	}
	for _, s := range m.Scopes {
		if s.Read {
			p.ReadOnly = append(p.ReadOnly, s.Path)
		}
		if write && s.Write && holds(s.Path, m.Workspace) {
			p.ReadWrite = []string{m.Workspace}
		}
	}
	return p
}

// holds reports whether path is folder or lies in it.
func holds(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// Mask implements tool.Masker: what a tool brings holds no secret of ours, and
// none that its form gives away.
func (g *gate) Mask(text string) string { return g.secrets.Mask(text) }

// Masked implements tool.Masker. A person learns once of each file that holds
// what looks like a key.
func (g *gate) Masked(ctx context.Context, c tool.Call) {
	for _, a := range c.Granted {
		if a.Kind != mercury.ReadPath {
			continue
		}
		g.log.Warn("what looks like a secret was masked in a tool's output", "run", c.RunID, "tool", c.Name, "path", a.Target)
		e := g.engine.Load()
		if e == nil || c.Mandate.Destination == "" || c.Name != "read_file" {
			continue
		}
		sum := sha256.Sum256([]byte(a.Target))
		err := e.Update(ctx, "masked", func(tx *engine.Tx) error {
			_, _, err := tx.Emit(mercury.Delivery{Address: c.Mandate.Destination, ConversationID: c.ConversationID,
				RequestID: "masked:" + hex.EncodeToString(sum[:16]), Kind: mercury.NoticeDelivery,
				Text: a.Target + " holds what looks like a key or a password. I masked it before the model saw it. Keys that Mercury needs belong in .env of its home."})
			return err
		})
		if err != nil {
			g.log.Warn("the notice about a masked file could not be stored", "run", c.RunID, "err", err)
		}
	}
}

// leak is why a call may not happen: what it would run, fetch or send holds a
// secret that Mercury keeps.
func (g *gate) leak(r tool.Request) string {
	for _, a := range r.Accesses {
		switch a.Kind {
		case mercury.RunCommand, mercury.FetchURL, mercury.SendTo, mercury.Foreign, mercury.Spend:
			if text := a.Target + " " + a.Detail + " " + strings.Join(a.Argv, " "); g.secrets.Hide(text) != text {
				return "it holds a secret that Mercury keeps"
			}
		}
	}
	return ""
}

// update runs fn in one transaction of the engine.
func (g *gate) update(ctx context.Context, fn func(store.Tx) error) error {
	e := g.engine.Load()
	if e == nil {
		return errors.New("the engine is not there yet")
	}
	return e.Update(ctx, "tool", func(tx *engine.Tx) error { return fn(tx) })
}

// runKey carries the run a question belongs to down to Live, past a room that
// does not know runs.
type runKey struct{}

// Live implements permission.Grants over the store. The grant of a single call
// is not among them: it is bound to what was shown, and used up with it.
func (g *gate) Live(ctx context.Context, actor mercury.Actor) ([]permission.Grant, error) {
	e := g.engine.Load()
	if e == nil {
		return nil, nil
	}
	run, _ := ctx.Value(runKey{}).(string)
	var live []permission.Grant
	err := e.View(ctx, func(tx store.Tx) (err error) {
		grants, err := tx.Grants(time.Now())
		if err != nil {
			return err
		}
		if live, err = inherited(tx, actor, grants); err != nil {
			return err
		}
		for _, gr := range grants {
			// The owner is one person, wherever they write.
			same := gr.Actor.Role == actor.Role &&
				(actor.Role == mercury.Owner || gr.Actor.ID == actor.ID && gr.Actor.Channel == actor.Channel)
			if same && !gr.Once && (gr.RunID == "" || gr.RunID == run) {
				live = append(live, permission.Grant{ID: gr.ID, Rule: gr.Rule, Named: true})
			}
		}
		return err
	})
	return live, err
}
