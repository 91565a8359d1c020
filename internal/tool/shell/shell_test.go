//go:build unix

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

var fixture = tooltest.Fixture{
	Tool:  func(tooltest.World) tool.Tool { return Run(Options{}) },
	Calls: []string{`{"command":"echo hello; ls"}`, `{"command":"cat long.txt blob.bin","timeout_seconds":5}`, `{"command":"exit 3"}`},
}

func TestRunCommandKeepsTheContract(t *testing.T) { tooltest.Run(t, fixture) }

func FuzzArguments(f *testing.F) { tooltest.Fuzz(f, fixture) }

// call makes a granted call of command.
func call(w tooltest.World, command string) tool.Call {
	c := w.Call("run_command", fmt.Sprintf(`{"command":%q}`, command))
	c.Granted = []mercury.Access{{Kind: mercury.RunCommand, Target: command, Dir: w.Workspace}}
	return c
}

func do(t *testing.T, o Options, c tool.Call) tool.Output {
	t.Helper()
	out, err := Run(o).Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOutputAndErrorComeTogetherWithTheExitCode(t *testing.T) {
	w := tooltest.NewWorld(t)
	out := do(t, Options{}, call(w, "echo one; echo two >&2; pwd; exit 7"))
	want := "one\ntwo\n" + w.Workspace + "\n[exit code 7]"
	if out.Text != want || !out.IsError {
		t.Errorf("got %q, error %v, want %q", out.Text, out.IsError, want)
	}
	if out := do(t, Options{}, call(w, "true")); out.Text != "[exit code 0]" || out.IsError {
		t.Errorf("got %q, error %v", out.Text, out.IsError)
	}
}

func TestTheEnvironmentHoldsNoSecrets(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", tooltest.Secret)
	t.Setenv("MERCURY_HOME", "/nowhere")
	w := tooltest.NewWorld(t)
	out := do(t, Options{Home: "/home/someone"}, call(w, "env; cat /proc/self/environ"))
	for _, bad := range []string{tooltest.Secret, "MERCURY_", "OPENAI"} {
		if strings.Contains(out.Text, bad) {
			t.Errorf("%s is in %q", bad, out.Text)
		}
	}
	for _, good := range []string{"PATH=" + defaultPath, "HOME=/home/someone", "TERM=dumb", "LANG=C.UTF-8"} {
		if !strings.Contains(out.Text, good+"\n") {
			t.Errorf("%s is not in %q", good, out.Text)
		}
	}
}

func TestInputIsEmpty(t *testing.T) {
	out := do(t, Options{}, call(tooltest.NewWorld(t), "cat; echo over"))
	if out.Text != "over\n[exit code 0]" {
		t.Errorf("got %q", out.Text)
	}
}

func TestACommandEndsAtItsLimit(t *testing.T) {
	began := time.Now()
	out := do(t, Options{Limit: 200 * time.Millisecond}, call(tooltest.NewWorld(t), "echo begun; sleep 60"))
	if !out.IsError || !strings.Contains(out.Text, "begun\n[stopped: its time limit of 200ms was over]") {
		t.Errorf("got %q", out.Text)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestACommandThatDoesNotComplyIsEnded(t *testing.T) {
	began := time.Now()
	o := Options{Limit: 100 * time.Millisecond, Grace: 200 * time.Millisecond}
	out := do(t, o, call(tooltest.NewWorld(t), `trap '' TERM; echo deaf; while :; do sleep 1; done`))
	if took := time.Since(began); took > 3*time.Second || took < 300*time.Millisecond {
		t.Errorf("took %v: %s", took, out.Text)
	}
}

func TestACommandMayTidyUpWhenAsked(t *testing.T) {
	w := tooltest.NewWorld(t)
	do(t, Options{Limit: 300 * time.Millisecond}, call(w, `trap 'echo tidy > tidied; exit 0' TERM; while :; do sleep 0.05; done`))
	if _, err := os.Stat(filepath.Join(w.Workspace, "tidied")); err != nil {
		t.Error("it was not given the time")
	}
}

func TestCancellationEndsEverythingAtOnce(t *testing.T) {
	w := tooltest.NewWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := call(w, "sleep 60 & echo $! > pid; echo up; wait")
	c.Progress = func(string) { cancel() }
	began := time.Now()
	_, err := Run(Options{}).Run(ctx, c)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	gone(t, filepath.Join(w.Workspace, "pid"))
}

func TestNothingSurvivesItsRun(t *testing.T) {
	for _, tt := range []struct{ name, command string }{
		{"a grandchild that holds the pipe", "sleep 60 & echo $! > pid; echo done"},
		{"a grandchild without the pipe", "sleep 60 >/dev/null 2>&1 & echo $! > pid; echo done"},
		{"a grandchild that is deaf", `sh -c 'trap "" TERM HUP; echo $$ > pid; while :; do sleep 1; done' & while ! [ -s pid ]; do sleep 0.01; done; echo done`},
		{"a process in a session of its own", `setsid sh -c 'echo $$ > pid; exec sleep 60' & while ! [ -s pid ]; do sleep 0.01; done; echo done`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.command, "setsid") && runtime.GOOS != "linux" {
				return // it is found by its environment, which Linux alone shows
			}
			w := tooltest.NewWorld(t)
			began := time.Now()
			out := do(t, Options{}, call(w, tt.command))
			if !strings.HasPrefix(out.Text, "done\n[exit code 0]") || !strings.Contains(out.Text, "left running were ended") {
				t.Errorf("got %q", out.Text)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			gone(t, filepath.Join(w.Workspace, "pid"))
		})
	}
}

// gone waits until the process whose id stands in file is no more, or is a
// zombie that nobody has collected.
func gone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is alive", pid)
}

func TestAGigabyteOfOutputStaysInBoundedMemory(t *testing.T) {
	w := tooltest.NewWorld(t)
	stop := make(chan struct{})
	var peak uint64
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
	})
	out := do(t, Options{}, call(w, "yes 0123456789012345678901234567890123456789012345678901234567890123456789 | head -c 1073741824; echo; echo the end"))
	close(stop)
	watch.Wait()
	if peak > 64<<20 {
		t.Errorf("peak of %d MB", peak>>20)
	}
	tooltest.Bounded(t, out)
	if !strings.Contains(out.Text, "the end\n[exit code 0") || !strings.HasPrefix(out.Text, "0123456789") {
		t.Errorf("beginning or end is missing: %.80q … %q", out.Text, out.Text[len(out.Text)-80:])
	}
	info, err := os.Stat(out.Truncated)
	if err != nil || info.Size() != tool.MaxKept {
		t.Errorf("kept: %v, %v", info, err)
	}
}

func TestBinaryOutputIsMadeHarmless(t *testing.T) {
	out := do(t, Options{}, call(tooltest.NewWorld(t), `printf 'a\0b\377c\033[31mred\033[0m\033]0;title\007\n'; head -c 200000 /dev/urandom`))
	tooltest.Bounded(t, out)
	if !strings.HasPrefix(out.Text, "a\ufffdb\ufffdcred\n") {
		t.Errorf("got %.60q", out.Text)
	}
}

func TestLinesAreToldAsTheyCome(t *testing.T) {
	w := tooltest.NewWorld(t)
	c := call(w, `echo first; while ! [ -e go ]; do sleep 0.01; done; echo second`)
	var told []string
	c.Progress = func(line string) {
		told = append(told, line)
		if line == "first" { // the command waits for us
			if err := os.WriteFile(filepath.Join(w.Workspace, "go"), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	do(t, Options{}, c)
	if strings.Join(told, ",") != "first,second" {
		t.Errorf("told %q", told)
	}
}

func TestAResolvedCommandRunsExactlyAsGiven(t *testing.T) {
	w := tooltest.NewWorld(t)
	c := call(w, "echo nothing of this")
	c.Exec = &tool.Command{Path: "/bin/sh", Args: []string{"name", "-c", `echo "$0 $ONLY"; env | wc -l; pwd`, "zero"}, Env: []string{"ONLY=this"}, Dir: filepath.Join(w.Workspace, "sub")}
	out := do(t, Options{}, c)
	if !strings.HasPrefix(out.Text, "zero this\n") || !strings.Contains(out.Text, "/sub\n") || strings.Contains(out.Text, "nothing of this") {
		t.Errorf("got %q", out.Text)
	}
}

func TestAWorkspaceThatIsGoneIsSaid(t *testing.T) {
	w := tooltest.NewWorld(t)
	c := call(w, "echo x")
	if err := os.RemoveAll(w.Workspace); err != nil {
		t.Fatal(err)
	}
	_, err := Run(Options{}).Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(w.Workspace); err == nil {
		t.Error("it was made anew")
	}
}

func BenchmarkTrue(b *testing.B) {
	w := tooltest.NewWorld(b)
	c := call(w, "true")
	t := Run(Options{})
	for b.Loop() {
		if _, err := t.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
