//go:build unix

// Package field keeps what broke elsewhere from breaking here: each test is a
// case that people who run agents have reported, with the behaviour that is
// right. docs/guarantees.md lists them all.
//
// The house runs whole, between the real wires: a scripted model server on one
// side, a bridge that shows messages on the other. Both outlive it, so what
// they saw is what the world saw. Where a kill is the point, the program runs
// as a process of its own.
package field

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver under "sqlite"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// patience bounds every wait, on a machine whose cores are taken.
const patience = 2 * time.Minute

// glance is the pause between two looks at a condition.
const glance = 10 * time.Millisecond

// A house is one home, the two ends of its wires, and its life in this process
// or in one of its own.
type house struct {
	t         *testing.T
	model     *llmtest.Running
	bridge    *relaytest.Server
	door      *door // before the bridge
	home      config.Home
	workspace string
	more      string   // added to the configuration
	silence   string   // how long the model may say nothing
	problems  []string // of the next life in this process

	addr   string // of its API
	client *client.Client
	end    context.CancelFunc // of the life in this process; nil: none
	gone   chan error
	life   *process // of its own; nil: none
	binary string   // of such a life; empty: the program
}

// newHouse makes a home around a script of the model. It starts nothing.
func newHouse(t *testing.T, script llmtest.Script) *house {
	t.Helper()
	h := &house{t: t, model: llmtest.Start(t, script), bridge: &relaytest.Server{}, silence: "20s"}
	h.door = &door{to: h.bridge}
	h.door.open(t)
	dir := t.TempDir()
	h.workspace = filepath.Join(dir, "workspace")
	for _, d := range []string{h.workspace, filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	home, err := config.HomeAt(filepath.Join(dir, "home"))
	if err != nil {
		t.Fatal(err)
	}
	h.home = home
	h.configure("openai", h.model.URL+"/v1")
	t.Cleanup(h.leave)
	return h
}

// configure writes mercury.yaml for a model behind the given wire and address.
func (h *house) configure(wire, address string) {
	h.t.Helper()
	h.write(h.home.Config(), fmt.Sprintf(`model: scripted/one
workspace: %q
web: { listen: "127.0.0.1:0" }
permissions: { mode: ask }
providers:
  scripted: { api: %s, base_url: %q, api_key: "k", idle_timeout: %s, header_timeout: %s }
channels:
  relay: { url: %q, owners: [ann], members: [ben] }
%s`, h.workspace, wire, address, h.silence, h.silence, h.door.url(), h.more))
}

// add appends to the configuration.
func (h *house) add(more string) *house {
	h.t.Helper()
	h.more += more
	b, err := os.ReadFile(h.home.Config())
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(h.home.Config(), string(b)+more)
	return h
}

func (h *house) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// options are those of a life in this process.
func (h *house) options() daemon.Options {
	h.t.Helper()
	c, err := config.Load(config.Source{Home: h.home, Getenv: func(string) string { return "" }})
	if err != nil {
		h.t.Fatalf("load configuration: %v", err)
	}
	o := daemon.Options{Home: h.home, Config: c, Version: "test", Problems: h.problems}
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(h.t.Output(), nil))
	}
	return o
}

// start begins a life in this process.
func (h *house) start() *house {
	h.t.Helper()
	d, err := daemon.Open(h.t.Context(), h.options())
	if err != nil {
		h.t.Fatalf("open house: %v", err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(h.t.Context()))
	h.end, h.gone = end, make(chan error, 1)
	h.addr, h.client = d.Addr(), client.New(d.Addr(), d.Token())
	go func() { h.gone <- d.Run(ctx) }()
	return h
}

// stop ends the life in this process and waits until the home is free.
func (h *house) stop() {
	h.t.Helper()
	if h.end == nil {
		return
	}
	h.end()
	h.end = nil
	select {
	case err := <-h.gone:
		if err != nil {
			h.t.Errorf("house: %v", err)
		}
	case <-time.After(patience):
		h.t.Fatal("the house does not stop")
	}
}

// leave ends whatever life there is.
func (h *house) leave() {
	h.stop()
	if h.life != nil {
		h.life.kill()
	}
}

// kept uses the store while nobody lives in the house.
func (h *house) kept(fn func(store.Tx) error) {
	h.t.Helper()
	ctx := context.WithoutCancel(h.t.Context())
	s, err := sqlite.Open(ctx, h.home.Dir(), sqlite.Options{})
	if err != nil {
		h.t.Fatalf("open store: %v", err)
	}
	defer s.Close()
	if err := s.Update(ctx, fn); err != nil {
		h.t.Fatal(err)
	}
}

// hurry lets a waiting run be tried again at the next start rather than later.
func (h *house) hurry(runID string) {
	h.t.Helper()
	h.kept(func(tx store.Tx) error {
		r, err := tx.LockRun(runID)
		if err != nil {
			return err
		}
		r.NotBefore = time.Time{}
		return tx.SaveRun(r)
	})
}

// say posts a message through the API.
func (h *house) say(conversation, text, mode string) client.Sent {
	h.t.Helper()
	sent, err := h.client.Send(h.t.Context(), conversation, client.Message{Text: text, Mode: mode})
	if err != nil {
		h.t.Fatalf("say %q: %v", text, err)
	}
	return sent
}

// until waits for a condition.
func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	if !within(patience, ok) {
		h.t.Fatalf("waited in vain for %s\n%s", what, h.dump())
	}
}

func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); ; {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		<-time.After(glance)
	}
}

// runs are the runs of a conversation, oldest first.
func (h *house) runs(conversation string) []api.Run {
	page, err := h.client.Runs(h.t.Context(), url.Values{"conversation": {conversation}})
	if err != nil {
		return nil
	}
	slices.Reverse(page.Items)
	return page.Items
}

// quiet waits until a conversation has been worked off: n runs, none live, no
// delivery on its way.
func (h *house) quiet(conversation string, n int) []api.Run {
	h.t.Helper()
	var runs []api.Run
	h.until(fmt.Sprintf("the end of %d runs in %s", n, conversation), func() bool {
		runs = h.runs(conversation)
		live := slices.ContainsFunc(runs, func(r api.Run) bool { return mercury.RunState(r.State).Live() })
		return len(runs) >= n && !live && h.sent(conversation)
	})
	return runs
}

// sent reports whether nothing of a conversation is on its way out.
func (h *house) sent(conversation string) bool {
	page, err := h.client.Deliveries(h.t.Context(), url.Values{"conversation": {conversation}, "state": {"pending,sending"}})
	return err == nil && len(page.Items) == 0
}

func (h *house) deliveries(conversation string, states ...string) []api.Delivery {
	page, err := h.client.Deliveries(h.t.Context(), url.Values{"conversation": {conversation}, "state": {strings.Join(states, ",")}})
	if err != nil {
		return nil
	}
	slices.Reverse(page.Items)
	return page.Items
}

func (h *house) entries(conversation string) []api.Entry {
	list, err := h.client.Entries(h.t.Context(), conversation, 0)
	if err != nil {
		return nil
	}
	return list
}

// texts are the entries of one kind that are not hidden.
func (h *house) texts(conversation string, kind mercury.EntryKind) []string {
	var texts []string
	for _, e := range h.entries(conversation) {
		if e.Kind == string(kind) && !e.Hidden {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// question waits until a conversation has an open one.
func (h *house) question(conversation string) api.Question {
	h.t.Helper()
	var found api.Question
	h.until("a question in "+conversation, func() bool {
		page, err := h.client.Questions(h.t.Context(), false)
		if err != nil {
			return false
		}
		for _, q := range page.Items {
			if q.ConversationID == conversation {
				found = q
			}
		}
		return found.ID != ""
	})
	return found
}

func (h *house) answer(q api.Question, answer string) {
	h.t.Helper()
	if _, err := h.client.Answer(h.t.Context(), q.ID, answer); err != nil {
		h.t.Fatalf("answer %q: %v", q.Title, err)
	}
}

// shown are the texts the bridge showed in a place.
func (h *house) shown(place string) []string {
	var texts []string
	for _, s := range h.bridge.Sent() {
		if s.Shown && s.Conversation == place {
			texts = append(texts, s.Text)
		}
	}
	return texts
}

// showed waits until the bridge has shown n messages in a place.
func (h *house) showed(place string, n int) []string {
	h.t.Helper()
	h.until(fmt.Sprintf("%d messages in %s", n, place), func() bool { return len(h.shown(place)) >= n })
	return h.shown(place)
}

// asked waits until the model has had n requests.
func (h *house) asked(n int) {
	h.t.Helper()
	h.until(fmt.Sprintf("request %d of the model", n), func() bool { return len(h.model.Requests()) >= n })
}

// taken waits until the bridge was told that an update is stored.
func (h *house) taken(update string) {
	h.t.Helper()
	h.until("update "+update+" to be taken", func() bool { return slices.Contains(h.bridge.Cursors(), update) })
}

// sound checks that the strict server took every request.
func (h *house) sound() {
	h.t.Helper()
	for _, text := range h.model.Refusals() {
		h.t.Errorf("the model server refused a request: %s", text)
	}
}

// dump is what the house knows, for a failing test.
func (h *house) dump() string {
	var b strings.Builder
	for _, r := range h.model.Requests() {
		fmt.Fprintf(&b, "request %d fault=%q refused=%q\n", r.N, r.Fault, r.Refused)
	}
	if h.client == nil {
		return b.String()
	}
	page, err := h.client.Conversations(h.t.Context(), nil)
	fmt.Fprintf(&b, "conversations: %v\n", err)
	for _, c := range page.Items {
		for _, e := range h.entries(c.ID) {
			fmt.Fprintf(&b, "%s %d %s %s %q %q\n", c.ID, e.Seq, e.Kind, e.RunID, e.Text, e.Result)
		}
		for _, r := range h.runs(c.ID) {
			fmt.Fprintf(&b, "%s run %s %s %s %q\n", c.ID, r.ID, r.State, r.Code, r.Error)
		}
		for _, d := range h.deliveries(c.ID) {
			fmt.Fprintf(&b, "%s delivery %s %s %s %q\n", c.ID, d.ID, d.Kind, d.State, d.Text)
		}
	}
	for _, s := range h.bridge.Sent() {
		fmt.Fprintf(&b, "bridge %+v\n", s)
	}
	return b.String()
}

// A door stands before a server and can be shut: then connections are refused.
type door struct {
	to   http.Handler
	addr string
	srv  *httptest.Server

	mu   sync.Mutex
	hook func(http.ResponseWriter, *http.Request) bool // true: it has answered
}

func (d *door) url() string { return "http://" + d.addr }

// open listens, again at the same address once there was one.
func (d *door) open(t *testing.T) {
	t.Helper()
	if d.addr == "" {
		d.addr = testenv.Address(t)
	}
	l, err := testenv.ListenAt(d.addr)
	if err != nil {
		t.Fatal(err)
	}
	d.srv = httptest.NewUnstartedServer(d)
	d.srv.Listener.Close()
	d.srv.Listener = l
	// A connection that is kept for later may be used in the moment in which the
	// door shuts, and what becomes of that request nobody knows.
	d.srv.Config.SetKeepAlivesEnabled(false)
	d.srv.Start()
	t.Cleanup(d.shut)
}

func (d *door) shut() {
	d.srv.CloseClientConnections()
	d.srv.Close()
}

// on sets what happens to requests before the server sees them.
func (d *door) on(hook func(http.ResponseWriter, *http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	if hook == nil || !hook(w, r) {
		d.to.ServeHTTP(w, r)
	}
}

// say is a rule that answers a match with a text.
func say(match, reply string) llmtest.Rule { return llmtest.Rule{Match: match, Reply: reply} }

// call is a tool call of the model.
func call(tool string, args map[string]string) llmtest.Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // maps of strings
	}
	return llmtest.Call{Name: tool, Args: b}
}

func command(text string) llmtest.Call {
	return call("run_command", map[string]string{"command": text})
}

// refusal is the API's refusal in an error.
func refusal(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return e
}

// refusalOf is refusal for a call that also returns something.
func refusalOf[T any](_ T, err error) *client.Error {
	var e *client.Error
	errors.As(err, &e)
	return e
}

type runOf = api.Run

// file is the content of a file of the workspace; empty when there is none.
func (h *house) file(name string) string {
	b, err := os.ReadFile(filepath.Join(h.workspace, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Error(err)
	}
	return string(b)
}

// twin is another home with the same configuration, model and bridge.
func (h *house) twin() *house {
	h.t.Helper()
	home, err := config.HomeAt(filepath.Join(h.t.TempDir(), "home"))
	if err != nil {
		h.t.Fatal(err)
	}
	two := *h
	two.home, two.client, two.end, two.life = home, nil, nil, nil
	if err := os.Mkdir(home.Dir(), 0o700); err != nil {
		h.t.Fatal(err)
	}
	b, err := os.ReadFile(h.home.Config())
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(home.Config(), string(b))
	h.t.Cleanup(two.leave)
	return &two
}

// wires are the ways to ask a model.
var wires = []string{"openai", "anthropic"}

// wire makes the house ask its model in another way.
func (h *house) wire(name string) *house {
	h.t.Helper()
	h.configure(name, map[string]string{"openai": h.model.URL + "/v1", "anthropic": h.model.URL}[name])
	return h
}

func text(s string) client.Message { return client.Message{Text: s} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scribble writes into a file.
func scribble(t *testing.T, path string, at int64, words string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(words), at)
	must(t, errors.Join(err, f.Close()))
}

// integrity is what SQLite says of a file.
func integrity(t *testing.T, path string) (said string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&said))
	return said
}
