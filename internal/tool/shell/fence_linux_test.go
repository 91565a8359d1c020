package shell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// The test program is the fence's helper, as Mercury is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Subcommand {
		os.Exit(sandbox.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func newFence(t *testing.T) *sandbox.Fence {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := sandbox.New(sandbox.Options{Self: self, Scratch: t.TempDir(), Bwrap: testenv.Need(t, "bwrap")})
	if r := f.Probe(t.Context()); r.Level == sandbox.None {
		testenv.Missing(t, "a fence", r.String())
	}
	return f
}

// fenced is a call whose command the gate let through inside a fence only.
func fenced(w tooltest.World, command string) tool.Call {
	c := call(w, command)
	c.Exec = &tool.Command{Path: "/bin/sh", Args: []string{"sh", "-c", command}, Dir: w.Workspace,
		Fence: &sandbox.Policy{ReadWrite: []string{w.Workspace}, Hidden: []string{w.Home}}}
	return c
}

func TestAFencedCommandIsHeld(t *testing.T) {
	f := newFence(t)
	w := tooltest.NewWorld(t)
	out := do(t, Options{Fence: f}, fenced(w, "cat "+w.Outside+"/secret.txt; cat home/token; cat notes.txt; echo x > new; exit 3"))
	if strings.Contains(out.Text, tooltest.Secret) || !strings.Contains(out.Text, "alpha\nbeta") || !strings.Contains(out.Text, "[exit code 3]\n[it ran fenced") || !out.IsError {
		t.Errorf("got %q", out.Text)
	}
	if report, _ := f.Known(); out.Fence != string(report.Level) || strings.Contains(out.Text, out.Fence) {
		t.Errorf("the level is %q, and the model reads %q", out.Fence, out.Text)
	}
	if _, err := os.Stat(filepath.Join(w.Workspace, "new")); err != nil {
		t.Error(err)
	}
	if out := do(t, Options{Fence: f}, call(w, "echo hello")); out.Fence != "none" {
		t.Errorf("a command that a person allowed ran in %q", out.Fence)
	}
}

func TestAFencedCommandMayTidyUpAndNothingSurvivesIt(t *testing.T) {
	w := tooltest.NewWorld(t)
	o := Options{Fence: newFence(t), Limit: 2 * time.Second}
	out := do(t, o, fenced(w, `trap 'echo tidy > tidied; exit 0' TERM; echo begun; setsid sleep 60 & while :; do sleep 0.05; done`))
	if !strings.Contains(out.Text, "begun") || !strings.Contains(out.Text, "time limit") {
		t.Errorf("got %q", out.Text)
	}
	if _, err := os.Stat(filepath.Join(w.Workspace, "tidied")); err != nil {
		t.Error("it was not given the time")
	}
	if out := do(t, Options{Fence: o.Fence}, fenced(w, "echo fine")); out.Text != "fine\n[exit code 0]" {
		t.Errorf("got %q", out.Text)
	}
}

func TestCancellationEndsAFencedCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := fenced(tooltest.NewWorld(t), "echo up; exec sleep 60")
	c.Progress = func(string) { cancel() }
	began := time.Now()
	if _, err := Run(Options{Fence: newFence(t)}).Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWithoutAFenceAFencedCommandDoesNotRun(t *testing.T) {
	w := tooltest.NewWorld(t)
	for _, o := range []Options{{}, {Fence: sandbox.New(sandbox.Options{})}} {
		_, err := Run(o).Run(t.Context(), fenced(w, "echo x > ran"))
		if mercury.KindOf(err) != mercury.Denied {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Workspace, "ran")); err == nil {
		t.Error("it ran")
	}
}

// What a person allowed may do what they may, but for Mercury's own folder.
func TestAnAllowedCommandIsKeptFromWhatIsHidden(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := sandbox.New(sandbox.Options{Self: self, Scratch: t.TempDir()})
	if r := f.Probe(t.Context()); r.Veil == "" {
		testenv.Missing(t, "a way to hide a folder from commands", r.String())
	}
	w := tooltest.NewWorld(t)
	if err := os.WriteFile(filepath.Join(w.Home, "token"), []byte("TOKEN-OF-THE-API"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Fence: f, Hidden: []string{w.Home}}
	tries := "cat " + w.Home + "/token; cat home/token; echo x > " + w.Home + "/token; ln " + w.Home + "/token here; cat here; cat /proc/self/root" + w.Home + "/token; "
	out := do(t, o, call(w, tries+"cat "+w.Outside+"/secret.txt; echo $HOME; exit 3"))
	if strings.Contains(out.Text, "TOKEN-OF-THE-API") || !strings.Contains(out.Text, tooltest.Secret) || !strings.Contains(out.Text, "[exit code 3]") || out.Fence != string(sandbox.Veiled) {
		t.Errorf("got %q in %q", out.Text, out.Fence)
	}
	if b, err := os.ReadFile(filepath.Join(w.Home, "token")); err != nil || string(b) != "TOKEN-OF-THE-API" {
		t.Errorf("the token is %q now: %v", b, err)
	}
	// What it leaves running ends with it all the same.
	out = do(t, o, call(w, "setsid sleep 60 & echo started"))
	if !strings.Contains(out.Text, "started") || !strings.Contains(out.Text, "were ended") {
		t.Errorf("got %q", out.Text)
	}

	y := newYard(t)
	y.jobs.shell.Fence, y.jobs.shell.Hidden = f, []string{w.Home}
	c := call(w, tries)
	c.ConversationID, c.Outputs = "local/test", t.TempDir()
	if out, err = y.jobs.start(t.Context(), c, tries); err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(out.Text, " ")
	job := y.until(id, func(j store.Job) bool { return j.State != store.JobRunning })
	if text, err := os.ReadFile(job.Output); err != nil || strings.Contains(string(text), "TOKEN-OF-THE-API") {
		t.Errorf("in the background it printed %q, %v", text, err)
	}
}

func TestAnApprovalSaysThatNoFenceHolds(t *testing.T) {
	w := tooltest.NewWorld(t)
	text := Run(Options{}).(tool.Shower).Show(t.Context(), call(w, "make all"))
	if !strings.HasPrefix(text, "make all\n") || !strings.Contains(text, "outside the fence") {
		t.Errorf("got %q", text)
	}
}

// A command that was let through only because it is fenced is held in the
// background too.
func TestAFencedJobIsHeld(t *testing.T) {
	y := newYard(t)
	y.jobs.shell.Fence = newFence(t)
	c := fenced(y.w, "cat "+y.w.Outside+"/secret.txt; cat notes.txt; echo x > new")
	c.ConversationID, c.Outputs = "local/test", t.TempDir()
	out, err := y.jobs.start(t.Context(), c, c.Exec.Args[2])
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(out.Text, " ")
	job := y.until(id, func(j store.Job) bool { return j.State != store.JobRunning })
	text, err := os.ReadFile(job.Output)
	if err != nil || strings.Contains(string(text), tooltest.Secret) || !strings.Contains(string(text), "alpha\nbeta") {
		t.Errorf("it printed %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(y.w.Workspace, "new")); err != nil {
		t.Error(err)
	}

	y.jobs.shell.Fence = nil
	if _, err := y.jobs.start(t.Context(), c, c.Exec.Args[2]); err == nil {
		t.Error("without a fence it ran all the same")
	}
}
