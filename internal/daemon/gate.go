package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// gate judges every call of a tool: reads in the granted folders pass,
// everything else asks, and where nobody can be asked the answer is no. A
// grant that a person gave lowers an ask to exactly the rule it was shown as;
// allow-all lowers any, for the owner alone.
type gate struct {
	engine atomic.Pointer[engine.Engine] // set once the engine exists
}

// Judge implements tool.Gate.
func (g *gate) Judge(ctx context.Context, r tool.Request) mercury.Judgement {
	m := r.Mandate
	if m.Actor.Role == mercury.Stranger || m.Actor.Role == "" {
		return mercury.Judgement{Verdict: mercury.Deny, Rule: "role", Why: "strangers may not use tools"}
	}
	for _, a := range r.Accesses {
		if j := judge(m, a); j.Verdict != mercury.Allow {
			return g.lower(ctx, r, j)
		}
	}
	return mercury.Judgement{Verdict: mercury.Allow, Rule: "scope"}
}

// judge decides one access without mode and grants.
func judge(m mercury.Mandate, a mercury.Access) mercury.Judgement {
	switch a.Kind {
	case mercury.OwnState, mercury.AskPerson:
		return mercury.Judgement{Verdict: mercury.Allow, Rule: "own"}
	case mercury.ReadPath:
		if inScope(m.Scopes, a.Target) && a.Detail == "" {
			return mercury.Judgement{Verdict: mercury.Allow, Rule: "scope.read"}
		}
		return asks("scope.read", "it is outside the folders you opened", a)
	case mercury.WritePath:
		return asks("write", "it changes a file", a)
	case mercury.DeletePath:
		return asks("delete", "it deletes a file", a)
	case mercury.RunCommand:
		return asks("command", "it runs a command", a)
	}
	return asks(string(a.Kind), "it reaches beyond the workspace", a)
}

// asks is a question with the narrowest rule that would spare it next time:
// exactly this access again.
func asks(rule, why string, a mercury.Access) mercury.Judgement {
	return mercury.Judgement{Verdict: mercury.Ask, Rule: rule, Why: why, Always: rule + " " + exactly(a)}
}

func exactly(a mercury.Access) string {
	if len(a.Argv) > 0 {
		return fmt.Sprintf("%q in %s", a.Argv, a.Dir)
	}
	if a.Dir != "" {
		return fmt.Sprintf("%s in %s", a.Target, a.Dir)
	}
	return a.Target
}

// inScope reports whether the longest scope that covers a real path opens it
// for reading.
func inScope(scopes []mercury.Scope, path string) bool {
	best, read := -1, false
	for _, s := range scopes {
		root := s.Path
		if real, err := filepath.EvalSymlinks(root); err == nil {
			root = real
		}
		if (path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")) && len(root) > best {
			best, read = len(root), s.Read
		}
	}
	return read
}

// lower turns an ask into what the owner's mode, a grant, or the absence of a
// person makes of it.
func (g *gate) lower(ctx context.Context, r tool.Request, j mercury.Judgement) mercury.Judgement {
	if len(r.Accesses) > 1 {
		j.Always = "" // a rule for one of several accesses would not spare the question
	}
	if r.Mandate.Mode == "allow-all" && r.Mandate.Actor.Role == mercury.Owner {
		return mercury.Judgement{Verdict: mercury.Allow, Rule: "mode.allow-all"}
	}
	if j.Always != "" && g.granted(ctx, r, j.Always) {
		return mercury.Judgement{Verdict: mercury.Allow, Rule: "grant " + j.Always}
	}
	if !r.Mandate.Interactive {
		return mercury.Judgement{Verdict: mercury.Deny, Rule: j.Rule + ".nobody", Why: "nobody can be asked here, and " + j.Why}
	}
	return j
}

// granted looks for a live grant of exactly this rule. A store that cannot be
// read grants nothing.
func (g *gate) granted(ctx context.Context, r tool.Request, rule string) bool {
	e := g.engine.Load()
	if e == nil {
		return false
	}
	found := false
	err := e.View(ctx, func(tx store.Tx) error {
		grants, err := tx.Grants(time.Now())
		for _, gr := range grants {
			if gr.Rule == rule && !gr.Once && gr.Actor.Role == r.Mandate.Actor.Role && gr.Actor.ID == r.Mandate.Actor.ID &&
				(gr.RunID == "" || gr.RunID == r.RunID) {
				found = true
			}
		}
		return err
	})
	return err == nil && found
}
