//go:build unix

package field

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	world "github.com/mercury-agent/mercury/test/house"
)

// program is the path of mercury, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mercury-field-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "mercury")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version=test", "-o", program, "github.com/mercury-agent/mercury/cmd/mercury")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build mercury: %v\n%s\n", err, out)
		return 1
	}
	// The tests wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return world.Main(m)
}

// A process is one run of the program.
type process struct {
	cmd   *exec.Cmd
	out   *output
	ended chan struct{}
}

// spawn runs mercury with args in the home, without the tester's environment.
func (h *house) spawn(args ...string) *process {
	h.t.Helper()
	return h.spawnAs(nil, nil, args...)
}

// spawnAs is spawn with attributes and additions to the environment.
func (h *house) spawnAs(attr *syscall.SysProcAttr, env []string, args ...string) *process {
	h.t.Helper()
	binary := program
	if h.binary != "" {
		binary = h.binary
	}
	p := &process{cmd: exec.Command(binary, args...), out: &output{}, ended: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "MERCURY_HOME=" + h.home.Dir(), "MERCURY_DISCOVER=off", "HOME=" + filepath.Dir(h.home.Dir())}, env...)
	p.cmd.Dir = h.workspace
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = attr
	p.cmd.WaitDelay = time.Second // commands may outlive a killed process
	if err := p.cmd.Start(); err != nil {
		h.t.Fatalf("start mercury: %v", err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code says it
		close(p.ended)
	}()
	return p
}

// live begins a life in a process of its own and waits until it serves.
func (h *house) live(env ...string) *house {
	h.t.Helper()
	h.life = h.spawnAs(nil, env, "serve")
	h.attach()
	return h
}

// attach waits until the process serves and makes its client.
func (h *house) attach() {
	h.t.Helper()
	p := h.life
	addr := ""
	h.client = nil
	if !within(patience, func() bool { addr = p.out.address(); return addr != "" || p.over() }) || addr == "" {
		h.t.Fatalf("mercury does not serve:\n%s", p.out)
	}
	token, err := os.ReadFile(h.home.TokenFile())
	if err != nil {
		h.t.Fatal(err)
	}
	h.addr, h.client = addr, client.New(addr, strings.TrimSpace(string(token)))
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// code waits for the end and returns the exit code, -1 for a signal.
func (h *house) code(p *process) int {
	h.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		h.t.Fatalf("mercury does not end:\n%s", p.out)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs mercury to its end and returns its exit code and what it wrote.
func (h *house) run(args ...string) (int, string) {
	h.t.Helper()
	p := h.spawn(args...)
	code := h.code(p)
	return code, p.out.String()
}

// output keeps what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var serving = regexp.MustCompile(`serves .* on http://(\S+)\n`)

// address is where the process serves, once it said so.
func (o *output) address() string {
	if m := serving.FindStringSubmatch(o.String()); m != nil {
		return m[1]
	}
	return ""
}

// noPanic fails the test if the process wrote a stack.
func (p *process) noPanic(t *testing.T) {
	t.Helper()
	if text := p.out.String(); strings.Contains(text, "panic:") || strings.Contains(text, "goroutine 1 [") {
		t.Errorf("the program panicked:\n%s", text)
	}
}

// brief is a context for one call of the API.
func brief(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
