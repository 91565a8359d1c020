package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/git"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// bench is a repository whose settings and hooks would leave a canary, behind
// the real gate.
func bench(t *testing.T) (set *tool.Set, call func(name, args string) tool.Call, canary string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Missing(t, "git", "install git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, home := filepath.Join(dir, "work"), filepath.Join(dir, "home")
	canary = filepath.Join(dir, "canary")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	run("config", "--global", "user.name", "Kim")
	run("config", "--global", "user.email", "kim@example.com")
	run("init", "-q", work)
	for _, setting := range []string{"core.fsmonitor", "core.editor", "core.pager", "diff.external", "core.sshCommand", "gpg.program"} {
		run("-C", work, "config", setting, "touch "+canary)
	}
	run("-C", work, "config", "commit.gpgSign", "true")
	for _, hook := range []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change", "pre-push", "reference-transaction"} {
		if err := os.WriteFile(filepath.Join(work, ".git", "hooks", hook), []byte("#!/bin/sh\ntouch "+canary+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "a.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	set = tool.NewSet(newGate(gateOptions{home: filepath.Join(dir, "mercury"), mode: "ask", fence: sandbox.New(sandbox.Options{}), secrets: noSecrets()}), git.Tools(shell.Options{})...)
	return set, func(name, args string) tool.Call {
		return tool.Call{ID: "c", RunID: "r", Name: name, Args: []byte(args), Mandate: mercury.Mandate{
			Actor: mercury.Actor{Role: mercury.Owner}, Mode: "ask", Interactive: true, Workspace: work,
			Scopes: []mercury.Scope{{Path: work, Read: true, Write: true}}}}
	}, canary
}

// approve runs a call, with a person's yes where one is wanted.
func approve(t *testing.T, set *tool.Set, c tool.Call) (tool.Output, bool) {
	t.Helper()
	p := set.Prepare(context.Background(), c)
	asked := p.Question != nil
	if asked {
		c.Approved = p.Judgement.Hash
		p = set.Prepare(context.Background(), c)
	}
	if p.Run == nil {
		return *p.Output, asked
	}
	out, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out, asked
}

func TestGitToolsWorkAndStartNothingTheRepositoryNames(t *testing.T) {
	set, call, canary := bench(t)
	for _, tt := range []struct {
		name, args, want string
		asks             bool
	}{
		{"git_status", `{}`, "?? a.txt", false},
		{"git_add", `{"paths":["a.txt"]}`, "exit code 0", true},
		{"git_diff", `{"staged":true}`, "+one", false},
		{"git_commit", `{"message":"First words"}`, "First words", true},
		{"git_log", `{}`, "First words", false},
		{"git_show", `{}`, "+one", false},
		{"git_branch", `{}`, "First words", false},
	} {
		out, asked := approve(t, set, call(tt.name, tt.args))
		if !strings.Contains(out.Text, tt.want) || out.IsError || tt.asks && !asked {
			t.Errorf("%s (asked %v): %s", tt.name, asked, out.Text)
		}
		if _, err := os.Stat(canary); err == nil {
			t.Fatalf("%s started a program of the repository", tt.name)
		}
	}
	out, err := exec.Command("git", "-C", call("", "").Mandate.Workspace, "-c", "core.fsmonitor=false", "--no-pager", "log", "-1", "--format=%an|%B").Output()
	if err != nil || strings.TrimSpace(string(out)) != "Kim|First words" {
		t.Errorf("the commit is %q, %v", out, err)
	}
	push := set.Prepare(t.Context(), call("git_push", `{}`))
	if push.Output == nil || !strings.Contains(push.Output.Text, "core.sshcommand") {
		t.Errorf("a push with the repository's own way to connect: %+v", push)
	}
}

func TestAGitCommandIsTheGatesAndNotTheTools(t *testing.T) {
	set, call, _ := bench(t)
	names := []string{}
	for _, x := range set.Tools() {
		names = append(names, x.Spec().Name)
		if out, err := x.Run(t.Context(), call(x.Spec().Name, `{}`)); err == nil && !out.IsError {
			t.Errorf("%s ran without the gate: %s", x.Spec().Name, out.Text)
		}
	}
	if !slices.Contains(names, "git_push") {
		t.Errorf("the tools are %v", names)
	}
}

// noSecrets is a vault that knows none.
func noSecrets() secrets { return secrets{Vault: &permission.Vault{}} }
