//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// glance is the pause between two looks at a condition.
const glance = 10 * time.Millisecond

// startPatience bounds a start, on a machine with all its cores taken.
const startPatience = time.Minute

// A World is what stays when a process dies: the model server, the bridge, the
// workspace, the database's place, and the memory of what was said.
type World struct {
	T         testing.TB
	Model     *llmtest.Running
	Relay     *relaytest.Server
	Workspace string
	Database  string // URL of PostgreSQL; empty: SQLite in each home
	Dir       string // of homes, and each process's own
	Place     string // of the workspace as Mercury is told; empty: Workspace

	// Before is what an earlier world's bridge has shown already.
	Before []relaytest.Sent

	relayURL string
	houses   []*House
	polling  atomic.Int64
	pollers  atomic.Int64

	mu     sync.Mutex
	said   []Said
	held   map[string]bool // acts of the scene that wait for Release
	pushed string          // id of the last message given to the bridge
	free   map[string]bool // conversations whose questions are answered as they come
}

// NewWorld makes a world around a script of the model. database is a URL of
// PostgreSQL, or empty.
func NewWorld(t testing.TB, script llmtest.Script, database string) *World {
	t.Helper()
	w := &World{T: t, Model: llmtest.Start(t, script), Relay: &relaytest.Server{}, Database: database, Dir: t.TempDir(), free: map[string]bool{}, held: map[string]bool{}}
	bridge := httptest.NewServer(http.HandlerFunc(w.bridge))
	t.Cleanup(func() {
		bridge.CloseClientConnections()
		bridge.Close()
	})
	w.relayURL = bridge.URL
	w.Workspace = filepath.Join(w.Dir, "workspace")
	if err := os.Mkdir(w.Workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, h := range w.houses {
			h.Kill()
		}
	})
	return w
}

// bridge serves the relay and counts who polls it at one time.
func (w *World) bridge(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/updates" {
		n := w.polling.Add(1)
		defer w.polling.Add(-1)
		for most := w.pollers.Load(); n > most && !w.pollers.CompareAndSwap(most, n); most = w.pollers.Load() {
		}
	}
	w.Relay.ServeHTTP(rw, r)
}

// Pollers is how many polls the bridge had open at one time at the most.
func (w *World) Pollers() int { return int(w.pollers.Load()) }

// A House is one home and the process that lives in it.
type House struct {
	Home  string
	Env   []string        // added to each life's environment
	Wrap  []string        // put before the program, such as a tracer
	Log   io.Writer       // gets what the program writes, too
	Fate  func() []string // what to add for the life that begins; nil: nothing
	world *World

	program string
	mu      sync.Mutex
	life    *Process
	client  atomic.Pointer[client.Client]
	away    atomic.Bool
}

// NewHouse makes a home for a built program. It starts nothing.
func (w *World) NewHouse(program string) *House {
	h := &House{Home: filepath.Join(w.Dir, fmt.Sprintf("home-%d", len(w.houses)+1)), world: w, program: program}
	if err := os.Mkdir(h.Home, 0o700); err != nil {
		w.T.Fatal(err)
	}
	w.houses = append(w.houses, h)
	place := w.Place
	if place == "" {
		place = w.Workspace
	}
	config := fmt.Sprintf(`model: scripted/one
workspace: %q
workspace_shared: true
database: { url: %q }
web: { listen: "127.0.0.1:0" }
permissions: { mode: ask }
providers:
  scripted: { api: openai, base_url: %q, api_key: "k", quirks: deepseek }
channels:
  relay: { url: %q, owners: [ann] }
`, place, w.Database, w.Model.URL+"/v1", w.relayURL)
	if err := os.WriteFile(filepath.Join(h.Home, "mercury.yaml"), []byte(config), 0o600); err != nil {
		w.T.Fatal(err)
	}
	return h
}

// Use makes later lives run another program.
func (h *House) Use(program string) { h.program = program }

// Life returns the process of now, or of the last life.
func (h *House) Life() *Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life
}

// Start begins a life and waits until it serves. It reports false when the
// process ended before that.
func (h *House) Start(env ...string) (bool, error) {
	argv := append(append([]string{}, h.Wrap...), h.program, "serve")
	all := append(append([]string{"MERCURY_HOME=" + h.Home, "HOME=" + h.world.Dir}, h.Env...), env...)
	if h.Fate != nil {
		all = append(all, h.Fate()...)
	}
	p, err := spawn(h.world.Dir, argv, all, h.Log)
	if err != nil {
		return false, err
	}
	h.mu.Lock()
	h.life = p
	h.mu.Unlock()
	addr, err := p.Address(startPatience)
	if err != nil || addr == "" {
		return false, err
	}
	token, err := os.ReadFile(filepath.Join(h.Home, "token"))
	if err != nil {
		return false, fmt.Errorf("read token: %w", err)
	}
	h.client.Store(client.New(addr, strings.TrimSpace(string(token))))
	return true, nil
}

// Kill ends the life as a power cut ends a process, and waits until it is gone.
func (h *House) Kill() {
	if p := h.Life(); p != nil {
		_ = p.cmd.Process.Kill()
		<-p.Ended()
	}
	h.client.Store(nil)
}

// Tend keeps the house alive: it starts again whatever was killed, until ctx
// ends, and returns how many deaths there were. Any end other than a kill is
// an error.
func (h *House) Tend(ctx context.Context) (deaths int, err error) {
	for {
		p := h.Life()
		select {
		case <-ctx.Done():
			return deaths, nil
		case <-p.Ended():
		}
		h.client.Store(nil)
		if ctx.Err() != nil {
			return deaths, nil
		}
		if !p.Killed() {
			return deaths, fmt.Errorf("the process ended by itself with code %d:\n%s", p.Code(), tail(p.Output()))
		}
		deaths++
		if _, err := h.Start(); err != nil {
			return deaths, err
		}
	}
}

// PID is the number of the process that has the home, which a tracer may stand
// before.
func (h *House) PID() int { return homelock.Read(h.Home).PID }

// Stop ends the life in order and wants exit code 0. A life that is killed on
// the way is followed by one that is stopped; deaths counts those.
func (h *House) Stop() (deaths int, err error) {
	for {
		p := h.Life()
		if err := h.signal(os.Interrupt); err != nil {
			return deaths, fmt.Errorf("stop: %w", err)
		}
		select {
		case <-p.Ended():
		case <-time.After(20 * time.Second):
			h.Kill()
			return deaths, fmt.Errorf("the process does not stop:\n%s", tail(p.Output()))
		}
		h.client.Store(nil)
		if p.Killed() {
			deaths++
			if _, err := h.Start(); err != nil {
				return deaths, err
			}
			continue
		}
		if p.Code() != 0 {
			return deaths, fmt.Errorf("the process stopped with code %d:\n%s", p.Code(), tail(p.Output()))
		}
		return deaths, nil
	}
}

// signal sends s to the program itself.
func (h *House) signal(s os.Signal) error {
	if len(h.Wrap) == 0 {
		return h.Life().Signal(s)
	}
	p, err := os.FindProcess(h.PID())
	if err != nil {
		return err
	}
	return p.Signal(s)
}

// tail is the end of a log.
func tail(s string) string {
	const most = 6000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// errDown means that no process answers just now.
var errDown = errors.New("nobody is at home")

// Ask calls fn with a client of a living process, and again with the next one
// when the process died or was busy meanwhile, until fn returns nil or an
// answer that another try would not change.
func (w *World) Ask(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	for {
		err := errDown
		for _, h := range w.houses {
			if c := h.client.Load(); c != nil && !h.away.Load() {
				// A frozen process takes requests and answers none.
				call, done := context.WithTimeout(ctx, 10*time.Second)
				err = fn(call, c)
				done()
				break
			}
		}
		var refused *client.Error
		if err == nil || errors.As(err, &refused) && refused.Status != 503 && refused.Status < 500 {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		pause(ctx)
	}
}

// Leave makes Ask pass over a house, such as one that is frozen.
func (w *World) Leave(h *House) { h.away.Store(true) }

// Return makes Ask go to a house again, first of all, once it answers.
func (w *World) Return(ctx context.Context, h *House) error {
	err := Until(ctx, func() (bool, error) {
		call, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		c := h.client.Load()
		if c == nil {
			return false, errDown
		}
		_, err := c.Status(call)
		return err == nil, nil
	})
	h.away.Store(false)
	return err
}

// Until looks again and again until ready reports true.
func Until(ctx context.Context, ready func() (bool, error)) error {
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause(ctx)
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(glance):
	}
}

// Describe is the end of a house's log, for a failing test.
func (w *World) Describe(h *House) string {
	var b strings.Builder
	ctx, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	if c := h.client.Load(); c != nil {
		if st, err := c.Status(ctx); err == nil {
			fmt.Fprintf(&b, "lanes %v\ndeliveries %v\n", st.Lanes, st.Deliveries)
		}
		if runs, err := c.Runs(ctx, nil); err == nil {
			for _, r := range runs.Items {
				fmt.Fprintf(&b, "run %s of %s: %s %s %s\n", r.ID, r.ConversationID, r.State, r.Waiting, r.Error)
			}
		}
		if list, err := c.Deliveries(ctx, nil); err == nil {
			for _, d := range list.Items {
				fmt.Fprintf(&b, "delivery %s to %s: %s %s %s %.60q\n", d.ID, d.Address, d.Kind, d.State, d.Reason, d.Text)
			}
		}
	}
	return b.String() + "log of the last life:\n" + tail(h.Life().Output())
}
