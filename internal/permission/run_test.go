//go:build unix

package permission

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func ownerIn(dir string) mercury.Mandate {
	return mercury.Mandate{
		Actor: mercury.Actor{Role: mercury.Owner}, Mode: ModeAsk, Interactive: true, Workspace: dir,
		Scopes: []mercury.Scope{{Path: dir, Read: true, Write: true}},
	}
}

// run does what the shell tool does with a decided command.
func run(t *testing.T, c Command) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	cmd.Args[0], cmd.Env, cmd.Dir = c.Args[0], c.Env, c.Dir
	out, _ := cmd.CombinedOutput() // what it says of missing files is of no interest
	if ctx.Err() != nil {
		t.Errorf("%q does not end", c.Args)
	}
	return string(out)
}

// snapshot lists every file below dir with its size and time of change, but
// for folders, whose times change by themselves.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(info.Mode(), info.IsDir() || info.ModTime().IsZero(), info.Size(), info.ModTime().UnixNano())
		if d.IsDir() {
			all[path] = "folder"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAutomaticCommandsOfTheCorpusChangeNothing(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	testenv.Need(t, "git")
	repo(t, proj)
	gate := New(Options{Fenced: true})
	before := snapshot(t, base)
	ran := 0
	for _, c := range corpus(t, "commands.jsonl") {
		d := gate.Decide(t.Context(), Question{
			Mandate:  ownerIn(proj),
			Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: mapped(c.Cmd, base)}},
		})
		if d.Verdict != mercury.Allow || d.Commands[0].Path == "" {
			continue
		}
		ran++
		if out := run(t, d.Commands[0]); strings.Contains(out, "TOPSECRET") || strings.Contains(out, "root:") {
			t.Errorf("%s: %q shows what lies outside", c.ID, c.Cmd)
		}
	}
	if ran < 100 {
		t.Errorf("only %d commands ran", ran)
	}
	for path, is := range snapshot(t, base) {
		if before[path] != is {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestAHostileRepositoryStartsNoProgram(t *testing.T) {
	testenv.Need(t, "git")
	for _, c := range corpus(t, "commands.jsonl") {
		if c.Fixture == "" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			base := project(t)
			proj := base + "/w/proj"
			repo(t, proj)
			dir := hostile(t, proj, c.Fixture)
			gate := New(Options{Fenced: true})
			d := gate.Decide(t.Context(), Question{
				Mandate: ownerIn(proj), Dir: dir,
				Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: c.Cmd}},
			})
			if d.Verdict == mercury.Deny {
				t.Fatalf("%q is denied: %s", c.Cmd, d.Why)
			}
			if d.Verdict == mercury.Allow {
				t.Logf("%s", run(t, d.Commands[0]))
			}
			if _, err := os.Stat(proj + "/canary"); err == nil {
				t.Errorf("%q started the repository's program: %s", c.Cmd, c.Fixture)
			}
			// The trap is real: without the hardening it snaps.
			plain(t, dir, c.Cmd)
			if _, err := os.Stat(proj + "/canary"); err != nil {
				t.Logf("this git does not fall into the trap unhardened: %s", c.Fixture)
			}
		})
	}
}

// plain runs cmd in dir as an unhardened tool would, for two seconds at most.
func plain(t *testing.T, dir, cmd string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", cmd)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Run() // how it ends tells nothing
}

// hostile sets the trap that fixture describes and returns where the command
// is run. Whatever springs it creates the file canary.
func hostile(t *testing.T, proj, fixture string) string {
	t.Helper()
	script := "#!/bin/sh\ntouch '" + proj + "/canary'\ncat\n"
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(proj+"/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(proj+"/"+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	config := func(keys ...string) {
		t.Helper()
		for i := 0; i < len(keys); i += 2 {
			cmd := exec.Command("git", "config", keys[i], keys[i+1])
			cmd.Dir = proj
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git config %v: %v: %s", keys[i:i+2], err, out)
			}
		}
	}
	put("canary.sh", script, 0o755)
	trap := proj + "/canary.sh"
	switch {
	case strings.Contains(fixture, "fsmonitor"):
		config("core.fsmonitor", trap)
	case strings.Contains(fixture, "nested.git"):
		put("nested.git/HEAD", "ref: refs/heads/main\n", 0o644)
		put("nested.git/objects/keep", "", 0o644)
		put("nested.git/refs/keep", "", 0o644)
		put("nested.git/hk/post-index-change", script, 0o755)
		put("nested.git/config", "[core]\n\tbare = false\n\tworktree = .\n\thooksPath = hk\n\tfsmonitor = "+trap+"\n", 0o644)
		put("nested.git/notes.txt", "x", 0o644)
		return proj + "/nested.git"
	case strings.Contains(fixture, "post-index-change"):
		put(".git/hooks/post-index-change", script, 0o755)
		later := time.Now().Add(time.Hour)
		if err := os.Chtimes(proj+"/notes.txt", later, later); err != nil {
			t.Fatal(err)
		}
	case strings.Contains(fixture, "filter"):
		put(".gitattributes", "*.txt filter=y\n", 0o644)
		config("filter.y.clean", trap)
		put("notes.txt", "another text\n", 0o644)
	case strings.Contains(fixture, "textconv"):
		put(".gitattributes", "*.txt diff=x\n", 0o644)
		config("diff.x.textconv", trap)
	case strings.Contains(fixture, "partialClone"):
		config("core.repositoryformatversion", "1", "extensions.partialClone", "o", "remote.o.url", ".",
			"remote.o.promisor", "true", "remote.o.uploadpack", trap)
	default:
		t.Fatalf("unknown fixture %q", fixture)
	}
	return proj
}
