package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

// patience is how long anything that should take milliseconds may take before
// it counts as broken.
const patience = 30 * time.Second

// A home is a folder with a configuration, and the servers it names: a model
// that answers at once and, for the idle rows, a relay that has nothing to say.
type home struct {
	b       *bench
	dir     string
	addr    string
	model   *llmtest.Server
	baseURL string // of the model
	servers []*http.Server
}

// script is what the model does: it greets, and runs a slow command when asked.
var script = llmtest.Script{
	Default: "Hello! I am here. What shall we do today?",
	Rules: []llmtest.Rule{{Match: "^slow", Tools: []llmtest.Call{
		{Name: "run_command", Args: json.RawMessage(`{"command":"sleep 20"}`)}}}},
}

// newHome makes a home with what a person who has just set up would have.
func (b *bench) newHome(name string) (*home, error) {
	h := &home{b: b, dir: filepath.Join(b.dir, name)}
	workspace := filepath.Join(h.dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return nil, err
	}
	var err error
	if h.model, err = llmtest.NewServer(script, nil); err != nil {
		return nil, err
	}
	if h.baseURL, err = h.serve(h.model); err != nil {
		return nil, err
	}
	relayURL, err := h.serve(&relaytest.Server{})
	if err != nil {
		return nil, err
	}
	if h.addr, err = freeAddress(); err != nil {
		return nil, err
	}
	quoted := func(s string) string { q, _ := json.Marshal(s); return string(q) } // a JSON string is a YAML string
	config := fmt.Sprintf(`model: bench/instant
providers:
  bench: { api: openai, base_url: %s, api_key: none }
web: { listen: %s }
workspace: %s
permissions: { mode: allow-all }
channels:
  relay: { url: %s, owners: [ann] }
`, quoted(h.baseURL+"/v1"), quoted(h.addr), quoted(workspace), quoted(relayURL))
	return h, os.WriteFile(filepath.Join(h.dir, "mercury.yaml"), []byte(config), 0o600)
}

// serve answers on a loopback port until the home is closed.
func (h *home) serve(handler http.Handler) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: handler}
	h.servers = append(h.servers, srv)
	go srv.Serve(l)
	return "http://" + l.Addr().String(), nil
}

// close ends the servers.
func (h *home) close() {
	for _, s := range h.servers {
		s.Close()
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// command is the program with this home and nothing else around it.
func (h *home) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.b.binary, args...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "MERCURY_HOME=" + h.dir}
	return cmd
}

// A house is a running Mercury.
type house struct {
	*home
	cmd    *exec.Cmd
	pid    int // of Mercury itself, which a tracer may have started
	stderr *bytes.Buffer
	ended  chan struct{}
	*client.Client
}

// start runs Mercury in the home and returns when it answers, with the time
// from the start of the process to that answer. wrap may put another program
// in front of it, such as a tracer.
func (h *home) start(ctx context.Context, wrap ...string) (*house, time.Duration, error) {
	cmd := h.command(ctx, "serve")
	if len(wrap) > 0 {
		outer := exec.CommandContext(ctx, wrap[0], append(wrap[1:], cmd.Args...)...)
		outer.Dir, outer.Env = cmd.Dir, cmd.Env
		cmd = outer
	}
	r := &house{home: h, cmd: cmd, stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	cmd.Stderr = r.stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("start mercury: %w", err)
	}
	r.pid = cmd.Process.Pid
	h.b.houses = append(h.b.houses, r)
	go func() {
		cmd.Wait()
		close(r.ended)
	}()
	if err := r.answers(ctx); err != nil {
		r.kill()
		return nil, 0, fmt.Errorf("wait until mercury answers: %w\n%s", err, r.stderr)
	}
	took := time.Since(began)
	if len(wrap) > 0 {
		if err := r.findInner(); err != nil {
			return nil, 0, err
		}
	}
	token, err := os.ReadFile(filepath.Join(h.dir, "token"))
	if err != nil {
		return nil, 0, errors.Join(err, r.stop())
	}
	r.Client = client.New(h.addr, strings.TrimSpace(string(token)))
	return r, took, nil
}

// answers waits for the first answer of the open health route. Once the port
// is bound the request itself waits, so that nothing is lost to polling.
func (r *house) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	dialer := net.Dialer{}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", r.addr)
		if err == nil {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			fmt.Fprintf(conn, "GET /api/health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", r.addr)
			answer, err := io.ReadAll(conn)
			if err != nil {
				return err
			}
			if !bytes.Contains(answer, []byte(`"status":"ok"`)) {
				return fmt.Errorf("it is not well: %s", answer)
			}
			return nil
		}
		select {
		case <-r.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// findInner finds the process that the wrapper started.
func (r *house) findInner() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", r.pid, r.pid))
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(text), &r.pid); err != nil {
		return fmt.Errorf("find the process behind the wrapper: %w", err)
	}
	return nil
}

// stop asks Mercury to end and waits until it has.
func (r *house) stop() error {
	p, err := os.FindProcess(r.pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil { // it has ended, or this system has no such signal
		r.kill()
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-time.After(patience):
		r.kill()
		return errors.New("mercury did not stop by itself")
	}
}

// kill ends Mercury at once, if it still runs, and waits for its end.
func (r *house) kill() {
	select {
	case <-r.ended:
		return
	default:
	}
	if p, err := os.FindProcess(r.pid); err == nil {
		p.Kill()
	}
	r.cmd.Process.Kill()
	<-r.ended
}
