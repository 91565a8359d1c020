// Package tour is the demonstration: a private Mercury in a temporary home
// with a scripted stand-in for a model, which a person can talk to, or which
// plays its scene by itself where there is no terminal. Everything but the
// model is the real thing, and the runtime is a process of its own, so that it
// can be killed and seen to finish what it had begun.
package tour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/llm/demo"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// Options say how the tour is given.
type Options struct {
	Binary string        // the program whose "serve" is the runtime
	Lines  <-chan string // what the person types; unused when Alone
	Out    io.Writer
	// Alone plays the scene without a person.
	Alone bool
	Color bool
	Width func() int // columns of the terminal; may be nil
	// Attach returns a client of the runtime in the home at dir.
	Attach func(ctx context.Context, dir string) (*client.Client, error)
}

// kill is what a person types to have the runtime killed.
const kill = "kill"

// Run gives the tour and cleans up behind it. It returns when the person
// leaves, or when the scene is over.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := os.MkdirTemp("", "mercury-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary home: %w", err)
	}
	defer func() {
		if rm := os.RemoveAll(dir); err == nil && rm != nil {
			err = fmt.Errorf("remove the temporary home: %w", rm)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	model, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the demonstration model: %w", err)
	}
	pace := demo.Options{}
	if o.Alone {
		pace.Slow = 150 * time.Millisecond
	}
	go pace.Serve(ctx, model)

	t := &tour{o: o, dir: dir, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "workspace")}
	if err := t.furnish(model.Addr().String()); err != nil {
		return err
	}
	t.greet()
	if err := t.start(ctx); err != nil {
		return err
	}
	defer t.stop()
	c, err := t.attach(ctx)
	if err != nil {
		return err
	}
	line := &tui.Line{Client: c, Reconnect: t.attachOnce, Conversation: "local/demo", Lines: o.Lines, Out: o.Out, Color: o.Color, Width: o.Width, Quit: []string{"q", "quit", "/quit", "/exit"}}
	line.Typed = func(s string) string {
		if strings.TrimSpace(strings.ToLower(s)) == kill {
			go t.killAndStart(ctx)
			return ""
		}
		return t.numbered(s)
	}
	if o.Alone {
		script := make(chan string)
		line.Lines, line.Quiet = script, true
		p := &player{out: o.Out, typed: script, kill: func() { t.killAndStart(ctx) }, events: make(chan client.Event, 4096)}
		line.Heard = p.heard
		stuck := make(chan error, 1)
		go func() { stuck <- p.play(ctx) }()
		if err := line.Run(ctx); err != nil {
			return err
		}
		cancel()
		return <-stuck
	}
	return line.Run(ctx)
}

// tour is a demonstration under way.
type tour struct {
	o               Options
	dir, home, work string

	mu      sync.Mutex
	runtime *exec.Cmd
	ended   chan struct{}
}

// furnish writes the home's configuration and the files of the workspace.
func (t *tour) furnish(model string) error {
	config := fmt.Sprintf(`name: Mercury
model: demo/%s
providers:
  demo: { api: openai, base_url: "http://%s/v1" }
web: { listen: "127.0.0.1:0" }
workspace: %q
permissions: { mode: ask, scopes: [{ path: %q, read: true }] }
`, demo.Model, model, t.work, t.work)
	for path, text := range map[string]string{
		filepath.Join(t.home, "mercury.yaml"): config,
		filepath.Join(t.work, demo.NotesFile): demo.Notes,
		filepath.Join(t.work, "welcome.md"):   "# Welcome\n\nThis folder belongs to the demonstration and is removed when you leave.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("furnish the demonstration: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("furnish the demonstration: %w", err)
		}
	}
	return nil
}

func (t *tour) greet() {
	width := 0
	if t.o.Width != nil {
		width = t.o.Width()
	}
	say := func(text string) { fmt.Fprintln(t.o.Out, tui.Wrap(text, width)) }
	say("Mercury, a demonstration. The model is a stand-in with fixed rules; everything else is real, in a folder of its own that is removed when you leave. Type a line, or its number:\n")
	format := "%d. %-39s %s" // one line each, where the terminal has room for it
	if width > 0 && width < 80 {
		format = "%d. %s\n   %s"
	}
	for i, l := range demo.Tour() {
		say(fmt.Sprintf(format, i+1, l.Type, l.Shows))
	}
	say(fmt.Sprintf("\nWhile it counts, type %q: the runtime is ended by kill -9 and started again. \"q\" leaves.\n", kill))
}

// numbered is the line of the tour that a typed number stands for, or what was
// typed.
func (t *tour) numbered(typed string) string {
	lines := demo.Tour()
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimSpace(typed), "."))
	if err != nil || n < 1 || n > len(lines) {
		return typed
	}
	fmt.Fprintf(t.o.Out, "  (%s)\n", lines[n-1].Type)
	return lines[n-1].Type
}

// start runs the runtime as a child process.
func (t *tour) start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log, err := os.OpenFile(filepath.Join(t.dir, "runtime.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the runtime's log: %w", err)
	}
	defer log.Close()
	c := exec.Command(t.o.Binary, "serve")
	c.Dir, c.Stdout, c.Stderr = t.work, log, log
	c.Env = environment(t.home)
	detach(c)
	if err := c.Start(); err != nil {
		return fmt.Errorf("start the runtime: %w", err)
	}
	ended := make(chan struct{})
	t.runtime, t.ended = c, ended
	go func() {
		defer close(ended)
		_ = c.Wait()
	}()
	return nil
}

// environment is the runtime's: nothing of the person's own configuration and
// keys, which the demonstration neither needs nor should touch.
func environment(home string) []string {
	env := []string{"MERCURY_HOME=" + home}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "SYSTEMROOT", "USERPROFILE", "TEMP"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// attach waits until the runtime answers.
func (t *tour) attach(ctx context.Context) (*client.Client, error) {
	for deadline := time.Now().Add(15 * time.Second); ; {
		c, err := t.attachOnce(ctx)
		if err == nil {
			return c, nil
		}
		t.mu.Lock()
		ended := t.ended
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ended:
			log, _ := os.ReadFile(filepath.Join(t.dir, "runtime.log"))
			return nil, fmt.Errorf("the runtime ended at once: %s", strings.TrimSpace(string(log)))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.New("the runtime did not answer within 15 seconds")
		}
	}
}

func (t *tour) attachOnce(ctx context.Context) (*client.Client, error) {
	return t.o.Attach(ctx, t.home)
}

// killAndStart ends the runtime as a power cut would and starts it again.
func (t *tour) killAndStart(ctx context.Context) {
	t.mu.Lock()
	runtime, ended := t.runtime, t.ended
	t.mu.Unlock()
	fmt.Fprintf(t.o.Out, "\n  (kill -9 %d)\n", runtime.Process.Pid)
	_ = runtime.Process.Kill()
	<-ended
	if err := t.start(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(t.o.Out, "  (it could not be started again: %v)\n", err)
	}
}

func (t *tour) stop() {
	t.mu.Lock()
	runtime, ended := t.runtime, t.ended
	t.mu.Unlock()
	interrupt(runtime.Process)
	select {
	case <-ended:
	case <-time.After(12 * time.Second):
		_ = runtime.Process.Kill()
		<-ended
	}
}

// player types the lines of the tour, each when the one before is done, says
// yes to what is asked, and kills the runtime while it counts.
type player struct {
	out    io.Writer
	typed  chan<- string
	kill   func()
	events chan client.Event
}

// patience is how long one line of the scene may take.
const patience = 30 * time.Second

func (p *player) heard(ev client.Event) {
	select {
	case p.events <- ev:
	default: // nobody plays any more
	}
}

// play types the whole scene and closes the input. An error says where it got
// stuck.
func (p *player) play(ctx context.Context) error {
	defer close(p.typed)
	lines := demo.Tour()
	for i, l := range lines {
		p.say(ctx, l.Type)
		if err := p.follow(ctx, i == len(lines)-1); err != nil {
			return fmt.Errorf("the scene got stuck at %q: %w", l.Type, err)
		}
	}
	return nil
}

func (p *player) say(ctx context.Context, line string) {
	fmt.Fprint(p.out, "> ")
	p.answer(ctx, line)
}

// answer types a line after what asks for it.
func (p *player) answer(ctx context.Context, line string) {
	fmt.Fprintln(p.out, line)
	select {
	case p.typed <- line:
	case <-ctx.Done():
	}
}

// follow waits for the end of the run that the last line began, says yes to
// what it asks, and kills the runtime once while it counts.
func (p *player) follow(ctx context.Context, counting bool) error {
	killed := !counting
	heard := ""
	timeout := time.After(patience)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("no answer within %s", patience)
		case ev := <-p.events:
			switch ev.Type {
			case "delta":
				var d struct{ Text string }
				_ = json.Unmarshal(ev.Data, &d)
				if heard += d.Text; !killed && strings.Contains(heard, "5") {
					killed = true
					p.kill()
				}
			case "question":
				var q api.Question
				if json.Unmarshal(ev.Data, &q) == nil && q.State == string(mercury.QuestionOpen) {
					time.Sleep(250 * time.Millisecond) // what is typed at once is no answer
					p.answer(ctx, "y")
				}
			case "run":
				var r api.Run
				if json.Unmarshal(ev.Data, &r) == nil && r.State != "" && !mercury.RunState(r.State).Live() {
					return nil
				}
			}
		}
	}
}
