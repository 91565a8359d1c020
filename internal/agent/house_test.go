package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/anthropic"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/llm/openai"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
)

// talkID is the conversation of the tests.
const talkID = "local/test"

var owner = mercury.Actor{Role: mercury.Owner, Channel: "local", Name: "Owner"}

// house is an agent on a real engine and a real store, asking a scripted
// server. It can be killed at any commit and opened again.
type house struct {
	t      *testing.T
	dir    string
	server *llmtest.Running

	// What a test may set before start.
	wire      llm.Wire
	models    []string // of the chain, the leading one first; default one/model
	limits    Limits
	budget    *budget.Book
	mandate   mercury.Mandate
	window    int
	maxOutput int
	lane      mercury.Lane
	gate      tool.Gate
	tools     []tool.Tool
	more      []tool.Tool // found with find_tools
	now       func() time.Time
	shape     func(*Profile) // changes the profile; may be nil
	dieAt     int            // store update after which, or before which, the process is dead
	before    bool           // the update that kills does not reach the disk

	engine  *engine.Engine
	agent   *Agent
	store   *mortal
	news    chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
	message int
}

func newHouse(t *testing.T, script llmtest.Script) *house {
	t.Helper()
	h := &house{t: t, dir: home(t), server: llmtest.Start(t, script), wire: llm.OpenAIWire, lane: mercury.Chat,
		mandate: mercury.Mandate{Actor: owner, Mode: "ask", Interactive: true}, gate: askOnce{}}
	h.tools = h.ownTools()
	t.Cleanup(func() { h.close() })
	return h
}

// home is a folder in memory where the system has such: these tests kill at
// commits, not at power cuts, and need no disk.
func home(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "mercury-agent-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Profile makes the house a Profiles.
func (h *house) Profile(context.Context, mercury.Run, mercury.Conversation) (Profile, error) {
	names := h.models
	if len(names) == 0 {
		names = []string{"one/model"}
	}
	var chain []llm.Model
	for _, name := range names {
		provider, model, _ := strings.Cut(name, "/")
		var client llm.Client
		if h.wire == llm.AnthropicWire {
			client = anthropic.New(anthropic.Options{Provider: provider, BaseURL: h.server.URL, Key: "k", Idle: 5 * time.Second})
		} else {
			client = openai.New(openai.Options{Provider: provider, BaseURL: h.server.URL + "/v1", Key: "k", Idle: 5 * time.Second})
		}
		chain = append(chain, llm.Model{Provider: provider, Name: model, Client: client})
	}
	p := Profile{
		Name: "main", Model: llm.NewChain(chain, llm.ChainOptions{Delay: time.Millisecond}), ModelName: names[0],
		Tools: tool.NewTieredSet(h.gate, h.tools, h.more), Limits: h.limits, Budget: h.budget, Window: h.window, MaxOutput: h.maxOutput,
		Outputs: filepath.Join(h.dir, "outputs"),
	}
	if h.shape != nil {
		h.shape(&p)
	}
	return p, nil
}

// start opens the store and runs the engine until close, or until the store
// dies.
func (h *house) start() {
	h.t.Helper()
	opened, err := sqlite.Open(context.Background(), h.dir, sqlite.Options{})
	if err != nil {
		h.t.Fatalf("open store: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.ended, h.news = stop, make(chan struct{}), make(chan struct{}, 1)
	h.store = &mortal{Store: opened, left: h.dieAt, before: h.before, die: stop, news: h.news}
	h.agent = New(h, Options{Now: h.now})
	h.engine = engine.New(h.store, engine.Options{
		Spool: h.dir, Cure: h.agent.Cure, Failure: h.agent.Failure,
		Plan: func(_ mercury.Conversation, in mercury.Input) (engine.NewRun, error) {
			return engine.NewRun{Kind: "turn", Lane: h.lane, Mandate: h.mandate}, nil
		},
	})
	h.engine.Handle("turn", h.agent.Turn)
	h.engine.Handle(CompactKind, h.agent.Compact)
	h.engine.Ended("turn", h.agent.Grown)
	go func() {
		defer close(h.ended)
		if err := h.engine.Run(ctx); err != nil && !errors.Is(err, errDead) && !errors.Is(err, context.Canceled) {
			h.t.Errorf("engine: %v", err)
		}
	}()
}

// close ends the engine and gives the home back.
func (h *house) close() {
	if h.stop == nil {
		return
	}
	h.stop()
	<-h.ended
	h.store.Store.Close()
	h.stop = nil
}

// reopen uses the store while no engine runs.
func (h *house) reopen(fn func(store.Store) error) {
	h.t.Helper()
	s, err := sqlite.Open(context.Background(), h.dir, sqlite.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	if err := fn(s); err != nil {
		h.t.Fatal(err)
	}
}

// say posts a message and returns its placement.
func (h *house) say(text string) engine.Placement {
	h.t.Helper()
	h.message++
	p, err := h.post(fmt.Sprintf("m%d", h.message), text, mercury.Steer)
	if err != nil {
		h.t.Fatalf("say %q: %v", text, err)
	}
	return p
}

func (h *house) post(id, text string, mode mercury.Mode) (p engine.Placement, err error) {
	in := mercury.Input{ID: mercury.NewID("in"), Channel: "local", MessageID: id, ConversationID: talkID,
		Actor: owner, Mode: mode, Text: text}
	err = h.engine.Update(context.Background(), "accept", func(tx *engine.Tx) error {
		p, err = tx.Post(in)
		return err
	})
	return p, err
}

// until waits for cond, looking again whenever something happens.
func (h *house) until(what string, cond func(store.Tx) bool) {
	h.t.Helper()
	deadline := time.After(time.Minute)
	for {
		ok := false
		if err := h.store.Store.View(context.Background(), func(tx store.Tx) error { ok = cond(tx); return nil }); err != nil {
			h.t.Fatalf("wait for %s: %v", what, err)
		}
		if ok {
			return
		}
		select {
		case <-h.news:
		case <-deadline:
			h.t.Fatalf("waited in vain for %s\n%s", what, h.dump())
		}
	}
}

// ends waits for a run's end and returns it.
func (h *house) ends(id string) (run mercury.Run) {
	h.t.Helper()
	h.until("the end of the run", func(tx store.Tx) bool {
		run, _ = tx.Run(id)
		return !run.State.Live()
	})
	return run
}

// asks waits until n questions are open and returns them.
func (h *house) asks(n int) (open []mercury.Question) {
	h.t.Helper()
	h.until("questions", func(tx store.Tx) bool {
		open, _ = tx.OpenQuestions(talkID)
		return len(open) == n
	})
	return open
}

func (h *house) answer(q mercury.Question, answer string) {
	h.t.Helper()
	if err := h.tryAnswer(q, answer); err != nil {
		h.t.Fatalf("answer %q: %v", q.Title, err)
	}
}

func (h *house) tryAnswer(q mercury.Question, answer string) error {
	return h.engine.Update(context.Background(), "answer", func(tx *engine.Tx) error {
		_, err := tx.Answer(q.ID, answer, owner, "local")
		return err
	})
}

func (h *house) entries() (es []mercury.Entry) {
	h.t.Helper()
	h.view(func(tx store.Tx) (err error) { es, err = tx.Entries(talkID, 0, 0); return err })
	return es
}

func (h *house) deliveries(kind mercury.DeliveryKind) (ds []mercury.Delivery) {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		all, _, err := tx.Deliveries(store.DeliveryFilter{ConversationID: talkID})
		for _, d := range all {
			if d.Kind == kind {
				ds = append([]mercury.Delivery{d}, ds...)
			}
		}
		return err
	})
	return ds
}

func (h *house) view(fn func(store.Tx) error) {
	h.t.Helper()
	if err := h.store.Store.View(context.Background(), fn); err != nil {
		h.t.Fatal(err)
	}
}

// requests returns what the model was asked, in order.
func (h *house) requests() []llm.Request {
	var reqs []llm.Request
	for _, r := range h.server.Requests() {
		reqs = append(reqs, r.Request)
	}
	return reqs
}

// sound fails the test if the strict server refused a request.
func (h *house) sound() {
	h.t.Helper()
	for _, r := range h.server.Refusals() {
		h.t.Errorf("the server refused %s", r)
	}
}

// kinds is the conversation in one line.
func (h *house) kinds() string {
	var words []string
	for _, e := range h.entries() {
		w := string(e.Kind)
		if e.Hidden {
			w += "(hidden)"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func (h *house) dump() string {
	var b strings.Builder
	h.store.Store.View(context.Background(), func(tx store.Tx) error {
		runs, _, _ := tx.Runs(store.RunFilter{})
		for _, r := range runs {
			fmt.Fprintf(&b, "run %s %s wait=%+v err=%s %s\n", r.ID, r.State, r.Wait, r.ErrorCode, r.Error)
			steps, _ := tx.Steps(r.ID)
			for _, s := range steps {
				fmt.Fprintf(&b, "  step %d/%s %s %s %s %.80s\n", s.Round, s.CallID, s.Kind, s.State, s.Error, s.Output)
			}
		}
		es, _ := tx.Entries(talkID, 0, 0)
		for _, e := range es {
			fmt.Fprintf(&b, "%d %s %q %.200s\n", e.Seq, e.Kind, e.Text, e.Data)
		}
		return nil
	})
	return b.String()
}

// The tools: look is read, mark leaves a line in a file, and both may be made
// to wait or fail.
type lookArgs struct {
	Path string `json:"path"`
}

func (h *house) ownTools() []tool.Tool {
	access := func(kind mercury.AccessKind) func(lookArgs) []mercury.Access {
		return func(in lookArgs) []mercury.Access { return []mercury.Access{{Kind: kind, Target: in.Path}} }
	}
	return []tool.Tool{
		tool.New("look", "Looks at a thing.", mercury.Read, access(mercury.ReadPath),
			func(_ context.Context, _ tool.Call, in lookArgs) (tool.Output, error) {
				return tool.Output{Text: "seen " + in.Path}, nil
			}),
		tool.New("mark", "Leaves a mark.", mercury.Once, access(mercury.WritePath),
			func(_ context.Context, _ tool.Call, in lookArgs) (tool.Output, error) {
				return tool.Output{Text: "marked " + in.Path}, h.mark(in.Path)
			}),
		tool.New("fail", "Fails.", mercury.Read, access(mercury.ReadPath),
			func(context.Context, tool.Call, lookArgs) (tool.Output, error) {
				return tool.Output{}, errors.New("it is broken")
			}),
		tool.New("ask_user", "Asks a person.", mercury.Read, access(mercury.AskPerson),
			func(_ context.Context, _ tool.Call, in lookArgs) (tool.Output, error) {
				return tool.Output{Question: &mercury.Question{Kind: "text", Title: in.Path}}, nil
			}),
	}
}

// mark is the canary of effects: a line a time.
func (h *house) mark(what string) error {
	f, err := os.OpenFile(filepath.Join(h.dir, "marks"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(what + "\n")
	return err
}

func (h *house) marks() []string {
	b, _ := os.ReadFile(filepath.Join(h.dir, "marks"))
	return strings.Fields(string(b))
}

// askOnce allows what is read, asks before a mark, and denies when nobody can
// be asked.
type askOnce struct{}

func (askOnce) Judge(_ context.Context, r tool.Request) mercury.Judgement {
	switch {
	case r.Effect == mercury.Read:
		return mercury.Judgement{Verdict: mercury.Allow, Rule: "reads"}
	case r.Mandate.Interactive:
		return mercury.Judgement{Verdict: mercury.Ask, Rule: "marks", Why: "it leaves a mark"}
	}
	return mercury.Judgement{Rule: "nobody", Why: "nobody can be asked"}
}

// allowAll allows everything.
type allowAll struct{}

func (allowAll) Judge(context.Context, tool.Request) mercury.Judgement {
	return mercury.Judgement{Verdict: mercury.Allow, Rule: "all"}
}

// mortal is a store whose process dies at an update: nothing is read or
// written after it.
type mortal struct {
	store.Store
	before bool
	die    context.CancelFunc
	news   chan<- struct{} // told of each update

	mu   sync.Mutex
	left int // updates until death; 0: immortal
	n    int
	dead bool
}

var errDead = errors.New("killed")

func (m *mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errDead
	}
	m.n++
	last := m.left > 0 && m.n == m.left
	if last {
		m.dead = true
	}
	m.mu.Unlock()
	if last && m.before {
		m.die()
		return errDead
	}
	err := m.Store.Update(ctx, fn)
	select {
	case m.news <- struct{}{}:
	default:
	}
	if last {
		m.die()
		return errDead
	}
	return err
}

func (m *mortal) View(ctx context.Context, fn func(store.Tx) error) error {
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return errDead
	}
	return m.Store.View(ctx, fn)
}

func (m *mortal) updates() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// args is the arguments of a scripted call.
func args(path string) json.RawMessage { return encode(lookArgs{Path: path}) }

// callOf is a scripted call.
func callOf(name, path string) llmtest.Call { return llmtest.Call{Name: name, Args: args(path)} }
