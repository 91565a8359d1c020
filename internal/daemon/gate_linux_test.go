package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/internal/tool"
)

// The test program is the fence's helper, as Mercury is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Subcommand {
		os.Exit(sandbox.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestTheGateFencesWhatItLetsThroughUnasked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	for _, d := range []string{home, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "notes.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	there := sandbox.New(sandbox.Options{Self: self, Scratch: filepath.Join(home, "fence"), Bwrap: testenv.Need(t, "bwrap")})
	if r := there.Probe(t.Context()); r.Level == sandbox.None {
		testenv.Missing(t, "a fence", r.String())
	}
	missing := sandbox.New(sandbox.Options{})

	for _, tt := range []struct {
		name    string
		fence   *sandbox.Fence
		mode    string
		command string
		outside bool
		want    mercury.Verdict
		fenced  bool
		writes  bool
	}{
		{"any command in guided mode", there, permission.ModeGuided, "make all && echo done", false, mercury.Allow, true, true},
		{"one that needs more than the fence grants", there, permission.ModeGuided, "npm publish", true, mercury.Ask, false, false},
		{"a reading command", there, permission.ModeGuided, "cat notes.txt", false, mercury.Allow, true, false},
		{"a reading command that need not ask", there, permission.ModeAsk, "cat notes.txt", false, mercury.Allow, true, false},
		{"another one that asks", there, permission.ModeAsk, "make all", false, mercury.Ask, false, false},
		{"what the owner chose not to be asked about", there, permission.ModeAllowAll, "make all", false, mercury.Allow, false, false},
		{"any command, without a fence", missing, permission.ModeGuided, "make all", false, mercury.Ask, false, false},
		{"a reading command, without a fence", missing, permission.ModeGuided, "cat notes.txt", false, mercury.Ask, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(gateOptions{home: home, fence: tt.fence, secrets: noSecrets()})
			m := mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Mode: tt.mode, Interactive: true, Workspace: work,
				Scopes: []mercury.Scope{{Path: work, Read: true, Write: true}}}
			j, c := g.JudgeCommand(t.Context(), tool.Request{Mandate: m, Tool: "run_command",
				Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: tt.command, Dir: work, Unfenced: tt.outside}}})
			if j.Verdict != tt.want {
				t.Fatalf("got %+v", j)
			}
			if got := c != nil && c.Fence != nil; got != tt.fenced {
				t.Fatalf("fenced: %v, by %+v", got, c)
			}
			if !tt.fenced {
				return
			}
			p := c.Fence
			if p.Network || !slices.Contains(p.Hidden, home) || !slices.Contains(p.ReadOnly, work) {
				t.Errorf("the policy is %+v", p)
			}
			if got := strings.Join(p.ReadWrite, ":"); tt.writes != (got == work) || !tt.writes && got != "" {
				t.Errorf("it may write in %q", got)
			}
		})
	}
}

// What a person allowed needs what the fence keeps away: the network of a
// push, the folders of a commit's author.
func TestAGitCommandThatAPersonAllowedRunsOutsideTheFence(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, call, _ := bench(t)
	work := call("", "").Mandate.Workspace
	fence := sandbox.New(sandbox.Options{Self: self, Scratch: t.TempDir()})
	if r := fence.Probe(t.Context()); r.Level == sandbox.None {
		testenv.Missing(t, "a fence", r.String())
	}
	g := newGate(gateOptions{home: t.TempDir(), fence: fence, secrets: noSecrets()})
	for mode, fenced := range map[string]bool{permission.ModeAsk: false, permission.ModeGuided: true} {
		m := call("", "").Mandate
		m.Mode = mode
		j, c := g.JudgeCommand(t.Context(), tool.Request{Mandate: m, Tool: "git_commit",
			Accesses: []mercury.Access{{Kind: mercury.RunCommand, Argv: []string{"git", "commit", "-m", "x"}, Dir: work}}})
		if c == nil || (c.Fence != nil) != fenced || (j.Verdict == mercury.Allow) != fenced {
			t.Errorf("a commit in mode %s: %+v, %+v", mode, j, c)
		}
	}
}

func TestAFencedCommandWritesOnlyInAWorkspaceThatIsGranted(t *testing.T) {
	g := newGate(gateOptions{home: "/home/you/.mercury", fence: sandbox.New(sandbox.Options{}), secrets: noSecrets()})
	m := mercury.Mandate{Workspace: "/srv/work", Scopes: []mercury.Scope{{Path: "/srv/work", Read: true}, {Path: "/srv/other", Read: true, Write: true}}}
	if p := g.policy(m, true); len(p.ReadWrite) > 0 {
		t.Errorf("it may write in %q", p.ReadWrite)
	}
	m.Scopes = append(m.Scopes, mercury.Scope{Path: "/srv", Read: false, Write: true})
	if p := g.policy(m, true); !slices.Equal(p.ReadWrite, []string{"/srv/work"}) {
		t.Errorf("it may write in %q", p.ReadWrite)
	}
}
