package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// gate puts the permission room before the tools: it passes a tool's request
// on as a question, and the grants that the store keeps along with it.
type gate struct {
	permission *permission.Gate
	mode       string                        // the configured one
	engine     atomic.Pointer[engine.Engine] // set once the engine exists; before, there are no grants
}

// newGate returns the gate of a Mercury whose own folder is home. No fence
// for commands is at hand, so automatic commands with paths ask.
func newGate(home, zone, mode string) *gate {
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // a tilde is then an ordinary character
	}
	g := &gate{mode: mode}
	g.permission = permission.New(permission.Options{
		Files:   permission.Files{Home: home, User: user},
		Grants:  g,
		Resolve: lookup,
		Zone:    zone,
	})
	return g
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
// what runs. A string that a person or a grant let through is the shell's.
func (g *gate) JudgeCommand(ctx context.Context, r tool.Request) (mercury.Judgement, *tool.Command) {
	if until := r.Mandate.ModeUntil; !until.IsZero() && !time.Now().Before(until) {
		r.Mandate.Mode = g.mode // the one that was chosen for a time is over
	}
	d := g.permission.Decide(context.WithValue(ctx, runKey{}, r.RunID), permission.Question{
		Mandate: r.Mandate, Tool: r.Tool, Accesses: r.Accesses, Dir: r.Dir, Taint: r.Taint})
	if len(d.Commands) != 1 {
		return d.Judgement, nil
	}
	c := d.Commands[0]
	if c.Shell || c.Builtin != "" {
		return d.Judgement, nil
	}
	if c.Path == "" && d.Verdict == mercury.Allow {
		name := "the program"
		if len(c.Args) > 0 {
			name = c.Args[0]
		}
		return mercury.Judgement{Verdict: mercury.Deny, Rule: "command.missing", Why: name + " is not installed in a folder of the system's programs"}, nil
	}
	return d.Judgement, &tool.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Why: "argv"}
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
	err := e.View(ctx, func(tx store.Tx) error {
		grants, err := tx.Grants(time.Now())
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
