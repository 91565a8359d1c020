package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// CheckOptions say for whom Checker answers. Zero fields mean what their
// comments say.
type CheckOptions struct {
	Dir    string // working directory; required, absolute
	Scopes []mercury.Scope
	Mode   string // empty means ModeAsk
	Files  Files
	// Resolve looks names up when a line brings no dns of its own; nil denies
	// them.
	Resolve Resolver
	// Folders are the pinned folders of programs; nil means the system's.
	Folders []string
	// Sandboxed says that guided mode has a fence for commands.
	Sandboxed bool
}

// Checker answers what the gate would decide for an owner who can be asked,
// untainted and without grants, one question a line, and touches nothing. It
// assumes that automatic commands run fenced, as they do where a fence exists.
type Checker struct {
	opts CheckOptions
	gate *Gate
}

// NewChecker returns a Checker.
func NewChecker(opts CheckOptions) *Checker {
	return &Checker{opts: opts, gate: New(Options{
		Files: opts.Files, Resolve: opts.Resolve, Folders: opts.Folders, Sandboxed: opts.Sandboxed, Fenced: true,
	})}
}

// checkLine is one question; the fields that are set say of which form.
type checkLine struct {
	ID        string             `json:"id"`
	Cmd       *string            `json:"cmd"`
	Op        string             `json:"op"`
	Path      *string            `json:"path"`
	URL       *string            `json:"url"`
	DNS       map[string]answers `json:"dns"`
	Redirects []string           `json:"redirects"`
	Screen    *string            `json:"screen"`
}

// answers are the addresses of one name: a list, or a list of lists that stand
// for one answer after another.
type answers []netip.Addr

func (a *answers) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	for _, r := range raw {
		if bytes.HasPrefix(bytes.TrimSpace(r), []byte("[")) {
			var inner answers
			if err := json.Unmarshal(r, &inner); err != nil {
				return err
			}
			*a = append(*a, inner...)
			continue
		}
		var addr netip.Addr
		if err := json.Unmarshal(r, &addr); err != nil {
			return err
		}
		*a = append(*a, addr)
	}
	return nil
}

// Answer is the verdict on one line, in the words of its form: auto, approve
// or blocked for a command; allow, ask or deny for a path; allow, approve or
// deny for a URL; show or suppress for a text.
type Answer struct {
	ID      string `json:"id"`
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	Why     string `json:"why"`
	Shown   string `json:"shown,omitempty"`
}

// Check answers one JSON object. An error means that the line is no question.
func (c *Checker) Check(ctx context.Context, line []byte) (Answer, error) {
	var in checkLine
	if err := json.Unmarshal(line, &in); err != nil {
		return Answer{}, fmt.Errorf("read check line: %w", err)
	}
	switch {
	case in.Cmd != nil:
		j := c.judge(ctx, mercury.Access{Kind: mercury.RunCommand, Target: *in.Cmd})
		return answer(in.ID, j, "auto", "approve", "blocked"), nil
	case in.Path != nil:
		kinds := map[string]mercury.AccessKind{"read": mercury.ReadPath, "write": mercury.WritePath, "delete": mercury.DeletePath}
		kind, ok := kinds[in.Op]
		if !ok {
			return Answer{}, fmt.Errorf("read check line: op is %q, not read, write or delete", in.Op)
		}
		return answer(in.ID, c.judge(ctx, mercury.Access{Kind: kind, Target: *in.Path}), "allow", "ask", "deny"), nil
	case in.URL != nil:
		return answer(in.ID, c.fetch(ctx, in), "allow", "approve", "deny"), nil
	case in.Screen != nil:
		shown, suppressed := Screen(*in.Screen)
		if suppressed {
			return Answer{ID: in.ID, Verdict: "suppress", Rule: "screen.secret", Why: "it seems to hold a secret", Shown: shown}, nil
		}
		return Answer{ID: in.ID, Verdict: "show", Rule: "screen.clean", Why: "nothing in it looks like a secret", Shown: shown}, nil
	}
	return Answer{}, errors.New("read check line: it has none of cmd, path, url and screen")
}

func answer(id string, j mercury.Judgement, allowed, asked, denied string) Answer {
	verdict := map[mercury.Verdict]string{mercury.Allow: allowed, mercury.Ask: asked, mercury.Deny: denied}[j.Verdict]
	return Answer{ID: id, Verdict: verdict, Rule: j.Rule, Why: j.Why}
}

func (c *Checker) judge(ctx context.Context, a mercury.Access) mercury.Judgement {
	return c.gate.Judge(ctx, c.question(a))
}

func (c *Checker) question(a mercury.Access) Question {
	return Question{
		Mandate: mercury.Mandate{
			Actor: mercury.Actor{Role: mercury.Owner}, Mode: c.opts.Mode, Interactive: true,
			Scopes: c.opts.Scopes, Workspace: c.opts.Dir,
		},
		Accesses: []mercury.Access{a},
	}
}

// fetch judges the address and every hop a response would send it to.
func (c *Checker) fetch(ctx context.Context, in checkLine) mercury.Judgement {
	gate := c.gate
	if in.DNS != nil {
		opts := c.gate.opts
		opts.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) { return in.DNS[host], nil }
		gate = &Gate{opts: opts, lane: c.gate.lane, roles: c.gate.roles, urls: urlChecker{resolve: opts.Resolve}}
	}
	d := gate.Decide(ctx, c.question(mercury.Access{Kind: mercury.FetchURL, Target: *in.URL}))
	worst := d.Judgement
	for i, location := range in.Redirects {
		if worst.Verdict == mercury.Deny || len(d.Targets) == 0 {
			return worst
		}
		if i == maxRedirects {
			return judgement(deny("url.redirects", "it is redirected too often"))
		}
		next, err := follow(d.Targets[0].URL, location)
		if err != nil {
			return judgement(deny("url.invalid", err.Error()))
		}
		d = gate.Decide(ctx, c.question(mercury.Access{Kind: mercury.FetchURL, Target: next}))
		if d.Verdict < worst.Verdict {
			worst = d.Judgement
		}
	}
	return worst
}

// ParseScope reads "PATH" or "PATH:rw" as a scope. A path that is not absolute
// makes a scope that covers nothing.
func ParseScope(text string) mercury.Scope {
	if path, ok := strings.CutSuffix(text, ":rw"); ok {
		return mercury.Scope{Path: path, Read: true, Write: true}
	}
	return mercury.Scope{Path: text, Read: true}
}
