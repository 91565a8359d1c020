package daemon

import (
	"context"
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
	engine     atomic.Pointer[engine.Engine] // set once the engine exists; before, there are no grants
}

// newGate returns the gate of a Mercury whose own folder is home. No fence
// for commands is at hand, so automatic commands with paths ask. Services are
// configured addresses that tools may ask.
func newGate(home, zone string, services []string) *gate {
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // a tilde is then an ordinary character
	}
	g := &gate{}
	g.permission = permission.New(permission.Options{
		Files:   permission.Files{Home: home, User: user},
		Grants:  g,
		Resolve: lookup,
		Zone:    zone, Services: services,
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
	d := g.permission.Decide(context.WithValue(ctx, runKey{}, r.RunID), permission.Question{
		Mandate: r.Mandate, Tool: r.Tool, Accesses: r.Accesses, Dir: r.Mandate.Workspace, Taint: r.Taint, Verbatim: g.verbatim(ctx, r)})
	if len(d.Commands) != 1 {
		return d.Judgement, nil
	}
	c := d.Commands[0]
	if c.Shell || c.Path == "" || c.Builtin != "" {
		return d.Judgement, nil
	}
	return d.Judgement, &tool.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Why: "argv"}
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
			same := gr.Actor.Role == actor.Role && gr.Actor.ID == actor.ID && gr.Actor.Channel == actor.Channel
			if same && !gr.Once && (gr.RunID == "" || gr.RunID == run) {
				live = append(live, permission.Grant{ID: gr.ID, Rule: gr.Rule, Named: true})
			}
		}
		return err
	})
	return live, err
}
