package permission

import (
	"context"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// standing is a set of grants that hold for everybody.
type standing []Grant

func (g standing) Live(context.Context, mercury.Actor) ([]Grant, error) { return g, nil }

func TestInGuidedModeACommandLeavesTheFenceOnlyWhenItNeedsToAndMay(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name    string
		outside bool
		taint   []string
		grants  standing
		want    mercury.Verdict
		fence   bool
	}{
		{"fenced", false, nil, nil, mercury.Allow, true},
		{"fenced, after reading a page", false, []string{"web"}, nil, mercury.Allow, true},
		{"granted, and it needs no way out", false, nil, standing{{ID: "g", Rule: "run:=make deploy", Named: true}}, mercury.Allow, true},
		{"it needs a way out", true, nil, nil, mercury.Ask, false},
		{"it needs a way out, after reading a page", true, []string{"web"}, nil, mercury.Ask, false},
		{"it needs a way out, and has it", true, nil, standing{{ID: "g", Rule: "run:=make deploy"}}, mercury.Allow, false},
		{"a grant by nobody's name, after reading a page", true, []string{"web"}, standing{{ID: "g", Rule: "run:=make deploy"}}, mercury.Ask, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := New(Options{Sandboxed: true, Fenced: true, Grants: tt.grants})
			d := g.Decide(t.Context(), Question{Tool: "run_command", Taint: tt.taint,
				Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Mode: ModeGuided, Interactive: true, Workspace: dir,
					Scopes: []mercury.Scope{{Path: dir, Read: true, Write: true}}},
				Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: "make deploy", Dir: dir, Unfenced: tt.outside}}})
			if d.Verdict != tt.want || len(d.Commands) != 1 || d.Commands[0].Fence != tt.fence {
				t.Errorf("got %+v, commands %+v", d.Judgement, d.Commands)
			}
		})
	}
}
