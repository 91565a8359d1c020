//go:build unix

package permission

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/argv"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// lines reads a file of one command a line; lines that begin with # are
// comments and \n stands for a newline.
func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if !strings.HasPrefix(l, "#") {
			out = append(out, strings.ReplaceAll(l, `\n`, "\n"))
		}
	}
	return out
}

func commandIn(g *Gate, m mercury.Mandate, cmd string) Decision {
	return g.Decide(context.Background(), Question{Mandate: m, Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: cmd}}})
}

func TestWhatLooksLikeAReadAndIsMoreAsks(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	repo(t, proj)
	gate := New(Options{Fenced: true})
	for _, cmd := range lines(t, "asks.txt") {
		if d := commandIn(gate, ownerIn(proj), mapped(cmd, base)); d.Verdict != mercury.Ask {
			t.Errorf("%q: %v (%s)", cmd, d.Verdict, d.Rule)
		}
	}
}

func TestDisguisesThatAParserCanSeeStayBlocked(t *testing.T) {
	gate := New(Options{})
	all := mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Mode: ModeAllowAll, Interactive: true, Workspace: "/w/proj"}
	for _, cmd := range lines(t, "blocked.txt") {
		if d := commandIn(gate, all, cmd); d.Verdict != mercury.Deny || !strings.HasPrefix(d.Rule, "blocked.") {
			t.Errorf("%q: %v (%s), even where everything else is allowed", cmd, d.Verdict, d.Rule)
		}
	}
}

func TestWordsOfTheBlockedListAreHarmlessWhereTheyDoNotRun(t *testing.T) {
	gate := New(Options{})
	for _, cmd := range lines(t, "not-blocked.txt") {
		if d := commandIn(gate, ownerIn("/w/proj"), cmd); d.Verdict != mercury.Ask {
			t.Errorf("%q: %v (%s)", cmd, d.Verdict, d.Rule)
		}
	}
}

func TestAnAutomaticCommandIsFullyResolved(t *testing.T) {
	proj := project(t) + "/w/proj"
	t.Setenv("PATH", proj)
	if err := os.WriteFile(proj+"/ls", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := commandIn(New(Options{Fenced: true}), ownerIn(proj), "ls -l src")
	c := d.Commands[0]
	if d.Verdict != mercury.Allow || !filepath.IsAbs(c.Path) || strings.HasPrefix(c.Path, proj) {
		t.Fatalf("%v %q", d.Verdict, c.Path)
	}
	if !slices.Equal(c.Args, []string{"ls", "-l", "src"}) || c.Dir != proj || c.Shell {
		t.Errorf("%+v", c)
	}
	for _, e := range c.Env {
		if strings.Contains(e, proj) {
			t.Errorf("the environment holds %q", e)
		}
	}
}

func TestAProgramThatEveryoneMayWriteIsNotPinned(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", 0o755)
	write("open", 0o757)
	write("plain", 0o644)
	if got := pin("good", []string{"relative", dir}); got != filepath.Join(dir, "good") {
		t.Errorf("good is %q", got)
	}
	for _, name := range []string{"open", "plain", "missing"} {
		if got := pin(name, []string{dir}); got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := pin("good", []string{dir}); got != "" {
		t.Errorf("a program in a folder open to all is %q", got)
	}
}

func TestWithoutAFenceCommandsWithPathsAsk(t *testing.T) {
	proj := project(t) + "/w/proj"
	gate := New(Options{})
	for cmd, want := range map[string]mercury.Verdict{"cat README.md": mercury.Ask, "pwd": mercury.Allow, "echo README.md": mercury.Allow} {
		if d := commandIn(gate, ownerIn(proj), cmd); d.Verdict != want {
			t.Errorf("%q: %v (%s), want %v", cmd, d.Verdict, d.Rule, want)
		}
	}
}

func TestRepositoriesThatLookElsewhereAsk(t *testing.T) {
	for name, file := range map[string][2]string{
		"a bracket in a comment":    {"config", "[core] worktree = /etc #]\n"},
		"two heads on a line":       {"config", "[a] [core] worktree = /etc\n"},
		"a byte order mark":         {"config", "\ufeff[core]\n\tWorkTree = /etc\n"},
		"a conditional include":     {"config", "[includeIf \"gitdir:]\"]\n\tpath = /etc/x\n"},
		"a head that does not end":  {"config", "[core\n"},
		"a file for objects":        {"objects", "x"},
		"settings of other files":   {"config", "[include]\n\tpath = /etc/x\n"},
		"files that lie elsewhere":  {"config", "[core]\n\tworktree = /etc\n"},
		"a repository out of scope": {"commondir", "/etc\n"},
		"borrowed objects":          {"objects/info/alternates", "/etc\n"},
		"settings over two lines":   {"config", "[core]\n\tx = a\\\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			proj := project(t) + "/w/proj"
			path := proj + "/.git/" + file[0]
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(file[1]), 0o644); err != nil {
				t.Fatal(err)
			}
			if d := commandIn(New(Options{Fenced: true}), ownerIn(proj), "git status"); d.Verdict != mercury.Ask {
				t.Errorf("%v (%s)", d.Verdict, d.Rule)
			}
		})
	}
}

func TestALastingRuleIsNarrow(t *testing.T) {
	for cmd, want := range map[string]string{
		"git commit -m x":      "run:/w:=git commit -m x",
		"git push --force o m": "run:/w:=git push --force o m",
		"go test ./...":        "run:/w:=go test ./...",
		"make && make test":    "run:/w:=make && make test",
		"rm -rf $DIR":          "",
		"echo $(date)":         "",
		"make > out.txt":       "run:/w:=make > out.txt",
	} {
		words, err := argv.Parse(cmd)
		script := argv.Read(cmd)
		if err == nil {
			script = argv.ReadArgv(words)
		}
		if got := lastingCommand(cmd, "/w", err == nil, script); got != want {
			t.Errorf("%q: %q, want %q", cmd, got, want)
		}
	}
	for _, dir := range []string{"", "w", "/w:=x"} {
		if got := lastingCommand("make", dir, true, argv.ReadArgv([]string{"make"})); got != "" {
			t.Errorf("in %q: %q", dir, got)
		}
	}
}

// What was said yes to for ever is that one thing: no other file, no other
// command, and the same command nowhere else.
func TestAYesForEverCoversNoVariant(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	gate := New(Options{})
	rule := func(a mercury.Access) string {
		return gate.Judge(t.Context(), Question{Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Interactive: true, Workspace: proj,
			Scopes: []mercury.Scope{{Path: proj, Read: true}}}, Dir: proj, Accesses: []mercury.Access{a}}).Always
	}
	for _, tt := range []struct {
		given  mercury.Access
		covers []mercury.Access
		leaves []mercury.Access
	}{
		{mercury.Access{Kind: mercury.WritePath, Target: proj + "/notes.txt"},
			[]mercury.Access{{Kind: mercury.WritePath, Target: proj + "/notes.txt"}},
			[]mercury.Access{{Kind: mercury.WritePath, Target: proj + "/README.md"}, {Kind: mercury.WritePath, Target: proj + "/src/main.go"},
				{Kind: mercury.DeletePath, Target: proj + "/notes.txt"}}},
		{mercury.Access{Kind: mercury.ReadPath, Target: base + "/w/other/a.txt"},
			[]mercury.Access{{Kind: mercury.ReadPath, Target: base + "/w/other/a.txt"}},
			[]mercury.Access{{Kind: mercury.ReadPath, Target: base + "/w/other/b.txt"}, {Kind: mercury.ReadPath, Target: base + "/w/other"}}},
		{mercury.Access{Kind: mercury.RunCommand, Target: "go test ./..."},
			[]mercury.Access{{Kind: mercury.RunCommand, Target: "go test ./..."}},
			[]mercury.Access{{Kind: mercury.RunCommand, Target: "go test -exec ./x ./..."}, {Kind: mercury.RunCommand, Target: "go test"},
				{Kind: mercury.RunCommand, Target: "go test ./...", Dir: proj + "/src"}, {Kind: mercury.RunCommand, Target: "go test ./...; id"},
				{Kind: mercury.RunCommand, Target: "go  test ./..."}}},
		{mercury.Access{Kind: mercury.RunCommand, Target: "make all | tee log"},
			[]mercury.Access{{Kind: mercury.RunCommand, Target: "make all | tee log"}},
			[]mercury.Access{{Kind: mercury.RunCommand, Target: "make all"}, {Kind: mercury.RunCommand, Target: "make all | tee log2"}}},
	} {
		r := rule(tt.given)
		if err := CheckRule(r); err != nil {
			t.Errorf("%+v gives %q: %v", tt.given, r, err)
		}
		with := New(Options{Grants: granted{{ID: "1", Rule: r, Named: true}}})
		by := func(a mercury.Access) string {
			return with.Judge(t.Context(), Question{Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Interactive: true, Workspace: proj,
				Scopes: []mercury.Scope{{Path: proj, Read: true}}}, Dir: proj, Accesses: []mercury.Access{a}}).Rule
		}
		for _, a := range tt.covers {
			if got := by(a); got != "grant.1" {
				t.Errorf("%q does not cover %s %q: %s", r, a.Kind, a.Target, got)
			}
		}
		for _, a := range tt.leaves {
			if got := by(a); got == "grant.1" {
				t.Errorf("%q covers %s %q in %q", r, a.Kind, a.Target, a.Dir)
			}
		}
	}
}

func TestARuleCoversNoMoreThanItSays(t *testing.T) {
	run := func(s string) mercury.Access { return mercury.Access{Kind: mercury.RunCommand, Target: s} }
	for _, tt := range []struct {
		rule   string
		access mercury.Access
		place  string
		want   bool
	}{
		{"run:git commit *", run("git commit -m x"), "", true},
		{"run:git commit *", run("git commit"), "", true},
		{"run:git commit *", run("git commit -m x && rm y"), "", false},
		{"run:git commit *", run("git commit -m $(id)"), "", false},
		{"run:git commit *", run("git -C /x commit"), "", false},
		{"run:git commit *", run("git commit-tree x"), "", false},
		{"run:=a && b", run("a && b"), "", true},
		{"run:=a && b", run("a && b; c"), "", false},
		{"run:/w:=make", run("make"), "", true},
		{"run:/x:=make", run("make"), "", false},
		{"run:/w:=make", run("make all"), "", false},
		{"run:", run(""), "", false},
		{"read:/a/b/**", mercury.Access{Kind: mercury.ReadPath}, "/a/b/c", true},
		{"read:/a/b/**", mercury.Access{Kind: mercury.ReadPath}, "/a/bc", false},
		{"read:/a/b/**", mercury.Access{Kind: mercury.WritePath}, "/a/b/c", false},
		{"write:/a/b", mercury.Access{Kind: mercury.WritePath}, "/a/b", true},
		{"write:/a/b", mercury.Access{Kind: mercury.WritePath}, "", false},
		{"fetch:https://example.com", mercury.Access{Kind: mercury.FetchURL, Target: "https://example.com/x"}, "", true},
		{"fetch:https://example.com", mercury.Access{Kind: mercury.FetchURL, Target: "https://example.com.evil.net/x"}, "", false},
		{"fetch:https://example.com", mercury.Access{Kind: mercury.FetchURL, Target: "http://example.com/x"}, "", false},
		{"send:telegram/1", mercury.Access{Kind: mercury.SendTo, Target: "telegram/1"}, "", true},
		{"send:telegram/1", mercury.Access{Kind: mercury.SendTo, Target: "telegram/12"}, "", false},
	} {
		if got := covers(tt.rule, tt.access, Place{Path: tt.place}, "/w"); got != tt.want {
			t.Errorf("covers(%q, %v %q %s) = %v", tt.rule, tt.access.Kind, tt.access.Target, tt.place, got)
		}
	}
}

// BenchmarkArgvLane measures the whole decision for an ordinary read. The
// median is the figure that counts: 50 µs at most on a quiet machine.
func BenchmarkArgvLane(b *testing.B) {
	base := project(b)
	proj := base + "/w/proj"
	repo(b, proj)
	gate := New(Options{Fenced: true})
	for _, cmd := range []string{"ls -la", "grep -rn 'func main' src docs", "git log --oneline -5 -- src/main.go", "find . -name '*.go'"} {
		b.Run(strings.Fields(cmd)[0], func(b *testing.B) {
			b.ReportAllocs()
			mandate := ownerIn(proj)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if d := commandIn(gate, mandate, cmd); d.Verdict != mercury.Allow {
					b.Fatal(d.Rule)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
		})
	}
}
