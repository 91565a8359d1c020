//go:build unix

package field

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// inBackground is a house whose Mercury is started with commands, and ended
// with the test whatever became of it.
func inBackground(t *testing.T) *house {
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	t.Cleanup(func() {
		for _, dir := range []string{h.home.Logs(), h.home.Dir()} { // first who would start it again
			if held, by := homelock.Held(dir); held {
				_ = syscall.Kill(by.PID, syscall.SIGKILL)
			}
		}
	})
	return h
}

// lives waits until another runtime than before has the home, and returns its
// process id.
func (h *house) lives(before int) (pid int) {
	h.t.Helper()
	if !within(patience, func() bool {
		held, by := homelock.Held(h.home.Dir())
		pid = by.PID
		return held && pid > 0 && pid != before && by.Address != ""
	}) {
		h.t.Fatal("nothing runs in this home")
	}
	return pid
}

// freed waits until nobody holds a folder.
func (h *house) freed(dir string) {
	h.t.Helper()
	if !within(patience, func() bool { held, _ := homelock.Held(dir); return !held }) {
		h.t.Fatalf("somebody still holds %s", dir)
	}
}

// says runs mercury and checks its exit code and a part of what it says.
func (h *house) says(code int, part string, args ...string) {
	h.t.Helper()
	if got, out := h.run(args...); got != code || !strings.Contains(out, part) {
		h.t.Errorf("mercury %s left with %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, part, out)
	}
}

func (h *house) crashes() string { return h.home.Logs() + "/crashes.json" }

func TestStartsInTheSameMomentMakeOneMercury(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { h.says(0, "http://", "start") })
	}
	all.Wait()
	pid := h.lives(0)
	h.says(0, "runs already", "start")
	h.says(0, "", "ask", "hello")
	h.says(0, "stopped", "stop")
	h.freed(h.home.Logs())
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the runtime lives on")
	}
}

func TestAKilledRuntimeIsStartedAgainWithItsLogAndItsWork(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	h.says(0, "started", "start")
	first := h.lives(0)
	h.says(0, "So: hello", "ask", "hello")
	must(t, syscall.Kill(first, syscall.SIGKILL))
	second := h.lives(first)
	h.says(0, "So: again", "ask", "again")
	h.says(7, "1 crash lately", "doctor")
	if s, err := supervise.Read(h.crashes()); err != nil || len(s.Crashes) != 1 || !strings.Contains(s.Crashes[0].How, "killed") {
		t.Errorf("kept: %+v, %v", s, err)
	}
	log, err := os.ReadFile(h.home.Logs() + "/mercury.log")
	must(t, err)
	if !strings.Contains(string(log), "started again in 1s") {
		t.Errorf("the log does not say it:\n%s", log)
	}
	h.says(0, "stopped", "stop")
	h.freed(h.home.Dir())
	if err := syscall.Kill(second, 0); err == nil {
		t.Error("the runtime lives on")
	}
}

func TestARuntimeOutlivesItsSupervisorWhichIsSaidAndMended(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	h.says(0, "started", "start")
	pid := h.lives(0)
	_, by := homelock.Held(h.home.Logs())
	must(t, syscall.Kill(by.PID, syscall.SIGKILL))
	h.freed(h.home.Logs())
	h.says(0, "So: hello", "ask", "hello")
	h.says(0, "nothing starts it again", "start")
	h.says(0, "nothing starts this Mercury again", "doctor")
	before := h.logSize()
	h.says(6, "", "up")
	h.says(0, "started", "restart")
	if h.logSize() <= before {
		t.Error("nothing more was written to the log")
	}
	again := h.lives(pid)
	must(t, syscall.Kill(again, syscall.SIGKILL))
	h.lives(again)
	h.says(0, "stopped", "stop")
}

func (h *house) logSize() int64 {
	info, err := os.Stat(h.home.Logs() + "/mercury.log")
	must(h.t, err)
	return info.Size()
}

func TestAMercuryThatOnlyCrashesStaysDownUntilAPersonStartsIt(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	up := h.spawn("up")
	last := 0
	for range 5 {
		last = h.lives(last)
		must(t, syscall.Kill(last, syscall.SIGKILL))
	}
	if code := h.code(up); code != 8 || !strings.Contains(up.out.String(), "5 times in a row") {
		t.Errorf("it left with %d: %s", code, up.out)
	}
	h.says(8, "mercury start", "up") // as a service manager would
	h.says(1, "5 times in a row", "status")
	h.says(7, "5 times in a row", "doctor")
	h.says(0, "started", "start")
	h.says(0, "So: hello", "ask", "hello")
	h.says(0, "stopped", "stop")
}

func TestAPersonEndsOrSkipsTheWaitForTheNextStart(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	waiting := func(crashes int) {
		h.says(0, "started", "start")
		for range crashes {
			must(t, syscall.Kill(h.lives(0), syscall.SIGKILL))
			h.freed(h.home.Dir())
		}
	}
	waiting(1)
	h.says(0, "waited to start it again", "stop")
	h.freed(h.home.Logs())
	h.says(1, "not running", "status")

	waiting(2)
	at := time.Now()
	h.says(0, "started", "restart")
	if s, err := supervise.Read(h.crashes()); err != nil || len(s.Crashes) > 0 && s.Crashes[0].At.Before(at) {
		t.Errorf("a person's start does not begin anew: %+v, %v", s, err)
	}
	h.says(0, "stopped", "stop")
}

func TestABrokenConfigurationIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	h := inBackground(t)
	h.write(h.home.Config(), "model: [a\n")
	h.says(3, "mercury.yaml:", "up")
	h.says(3, "mercury.yaml:", "start")
	if s, err := supervise.Read(h.crashes()); err != nil || len(s.Crashes) != 0 {
		t.Errorf("it counts as a crash: %+v, %v", s, err)
	}
}
