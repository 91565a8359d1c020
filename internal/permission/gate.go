package permission

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Modes of a mandate. Any other text is ModeAsk.
const (
	ModeAsk      = "ask"       // what no rule allows is asked
	ModeGuided   = "guided"    // undoable work in scope and fenced commands pass as well
	ModeAllowAll = "allow-all" // the owner is not asked; hard blocks and taint hold
)

// Question is one tool call as it comes to the gate.
type Question struct {
	Mandate  mercury.Mandate
	Tool     string // the tool's name, as in Mandate.Tools
	Accesses []mercury.Access
	// Dir is where relative paths and commands begin; empty means
	// Mandate.Workspace.
	Dir string
	// Taint names the outside sources in the request ("web", a bot, a file).
	Taint []string
	// Verbatim are URLs and addresses that stand word for word in what the
	// owner, a schedule or a search result said; taint does not gate them.
	Verbatim []string
}

// Decision is the judgement of a call together with what exactly was judged.
// A tool runs, opens and dials what stands here and nothing else.
type Decision struct {
	mercury.Judgement
	Commands []Command // one for each RunCommand access, in order
	Places   []Place   // one for each path access, in order
	Targets  []Target  // one for each FetchURL access, in order
	Heads    []string  // programs of the commands that were not automatic
}

// Grant is one standing permission.
type Grant struct {
	ID   string
	Rule string // as in Judgement.Always
	// Named says that a person gave it to this very actor. Only such a grant
	// passes a question that taint raised.
	Named bool
}

// Grants knows what has been granted. Live returns the grants that hold for
// the actor now: those of its run, its conversation and its own, none expired.
type Grants interface {
	Live(ctx context.Context, actor mercury.Actor) ([]Grant, error)
}

// Rights are what a role may do at all.
type Rights struct {
	Kinds []mercury.AccessKind // nil: every kind
	Deny  []string             // tools never given to the role
}

// Options tune a Gate. Zero fields mean what their comments say.
type Options struct {
	Files Files
	// Grants may be nil: then there are none.
	Grants Grants
	// Sandboxed says that commands can run inside a fence without network
	// that writes only in the workspace. Guided mode relies on it.
	Sandboxed bool
	// Fenced says that automatic commands run inside a fence that shows them
	// the granted folders only. Without it, those with paths ask.
	Fenced bool
	// Resolve looks up host names for URLs; nil denies every name.
	Resolve Resolver
	// Services are addresses of services that the owner configured, such as a
	// search service. Asking one is allowed, on the local network and in a
	// tainted request too: what is asked reaches nobody but the service. A tool
	// names the address alone, without what is asked.
	Services []string
	// Roles overrides the rights of roles and gives rights to custom ones.
	Roles map[mercury.Role]Rights
	// Folders are the pinned folders of programs; nil means the system's.
	Folders []string
	// Shell runs approved command strings; empty means /bin/sh.
	Shell string
	// Environment is what approved commands see; nil means what automatic
	// ones see.
	Environment []string
	Zone        string       // TZ of automatic commands; empty means the machine's
	Log         *slog.Logger // default discards
}

// Gate judges what calls would touch. It is safe for use by many goroutines.
type Gate struct {
	opts  Options
	lane  *lane
	urls  urlChecker
	roles map[mercury.Role]Rights
}

// New returns a gate. It looks up the pinned programs once, here.
func New(opts Options) *Gate {
	if opts.Folders == nil {
		opts.Folders = pinnedFolders()
	}
	if opts.Shell == "" {
		opts.Shell = "/bin/sh"
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{opts: opts, lane: newLane(opts.Files, opts.Folders, opts.Fenced, opts.Zone), urls: urlChecker{resolve: opts.Resolve}}
	if opts.Environment == nil {
		g.opts.Environment = g.lane.env
	}
	g.roles = defaultRights()
	for role, rights := range opts.Roles {
		g.roles[role] = rights
	}
	return g
}

// Judge returns the verdict on q: the strictest of its accesses.
func (g *Gate) Judge(ctx context.Context, q Question) mercury.Judgement {
	return g.Decide(ctx, q).Judgement
}

// Decide is Judge with what was resolved on the way. The stages, in order:
// hard blocks, role, tool gate, rules for paths, commands, URLs and
// recipients, taint, grants, mode, and at last the question. A stage that
// denies ends it; a question stays one until a grant or the mode lowers it.
func (g *Gate) Decide(ctx context.Context, q Question) Decision {
	if q.Dir == "" {
		q.Dir = q.Mandate.Workspace
	}
	var d Decision
	if out := g.tool(q); out != nil {
		d.Judgement = judgement(*out)
		return d
	}
	var grants []Grant
	if g.opts.Grants != nil {
		live, err := g.opts.Grants.Live(ctx, q.Mandate.Actor)
		if err != nil {
			g.opts.Log.Error("reading grants", "err", err) // without them, more is asked
		}
		grants = live
	}
	worst := allow("own", "it touches nothing")
	for i, a := range q.Accesses {
		out := g.access(ctx, q, a, grants, &d)
		if i == 0 || out.verdict < worst.verdict {
			worst = out
		}
	}
	if worst.verdict == mercury.Ask && !q.Mandate.Interactive {
		worst.verdict = mercury.Deny
		worst.rule = "unattended/" + worst.rule
		worst.why += "; nobody can be asked here. " + remedy(q.Mandate.Actor.Role)
	}
	d.Judgement = judgement(worst)
	d.Judgement.Hash = d.hash(q)
	return d
}

// remedy says what would let a call pass that nobody can be asked about.
func remedy(role mercury.Role) string {
	switch role {
	case mercury.Schedule:
		return "What the owner allows while it is rehearsed (/schedules) holds for its later runs"
	case mercury.Owner, mercury.Admin:
		return "It can be allowed beforehand: mercury permissions allow RULE"
	}
	return "The owner can do it in a conversation of their own"
}

func judgement(f finding) mercury.Judgement {
	return mercury.Judgement{Verdict: f.verdict, Rule: f.rule, Why: f.why, Always: f.always}
}

// tool is the tool gate: a name that is denied, or not given, ends it.
func (g *Gate) tool(q Question) *finding {
	stop := func(rule, format string, args ...any) *finding {
		out := deny(rule, fmt.Sprintf(format, args...))
		return &out
	}
	role := q.Mandate.Actor.Role
	rights, known := g.roles[role]
	if !known {
		return stop("role.unknown", "the role %q has no rights", role)
	}
	if matches(rights.Deny, q.Tool) {
		return stop("role.tool", "%s is never given to the role %s", q.Tool, role)
	}
	given, any := q.Mandate.Tools == nil, false
	for _, t := range q.Mandate.Tools {
		if name, ok := strings.CutPrefix(t, "!"); ok {
			if matches([]string{name}, q.Tool) {
				return stop("tool.denied", "%s is denied here", q.Tool)
			}
			continue
		}
		any = true
		given = given || matches([]string{t}, q.Tool)
	}
	if !given && (any || q.Mandate.Tools != nil && len(q.Mandate.Tools) == 0) {
		return stop("tool.not-given", "%s is not among the tools given here", q.Tool)
	}
	return nil
}

// matches knows "*" at the end of a pattern.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) || p == name {
			return true
		}
	}
	return false
}
