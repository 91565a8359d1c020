//go:build unix

// Package trust tries to make Mercury betray its owner. A whole house runs
// between a scripted model that obeys whoever speaks last and a bridge where
// owners, members and strangers write. The tests look from outside, at files,
// connections, messages, logs and rows, for what must never be there.
package trust

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/test/house"
)

// The test program is the fence's helper as well, as Mercury is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Subcommand {
		os.Exit(sandbox.Main(os.Args[2:]))
	}
	os.Exit(house.Main(m))
}

// patience bounds every wait, on a machine whose cores are taken.
const patience = 20 * time.Second

// A home is one Mercury with the two ends of its wires.
type home struct {
	t         *testing.T
	model     *llmtest.Running
	bridge    *relaytest.Server
	door      *httptest.Server // before the bridge
	files     config.Home
	root      string // holds home, workspace and what lies outside of it
	workspace string
	log       *diary
	client    *client.Client
	engine    *engine.Engine
	token     string
	helper    string // what starts fenced commands; empty: there is no fence
	end       context.CancelFunc
	gone      chan error
}

// A diary is a log that is read while it is written.
type diary struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.Write(p)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.String()
}

// newHome makes a home with a model behind a script. more is added to its
// configuration; nothing runs yet.
func newHome(t *testing.T, script llmtest.Script, mode, more string) *home {
	t.Helper()
	h := &home{t: t, model: llmtest.Start(t, script), bridge: &relaytest.Server{}, log: &diary{}, root: t.TempDir()}
	h.door = httptest.NewServer(h.bridge)
	t.Cleanup(func() { h.door.CloseClientConnections(); h.door.Close() })
	h.workspace = filepath.Join(h.root, "proj")
	for _, dir := range []string{h.workspace, filepath.Join(h.root, "home", ".mercury")} {
		must(t, os.MkdirAll(dir, 0o700))
	}
	files, err := config.HomeAt(filepath.Join(h.root, "home", ".mercury"))
	must(t, err)
	h.files = files
	relay := "url: " + quote(h.door.URL) + ", owners: [ann], members: [ben]"
	if !strings.Contains(more, "channels:") {
		more += "channels: { relay: { " + relay + " } }\n"
	}
	more = strings.NewReplacer("RELAY", relay, "MODEL", quote(h.model.URL+"/v1")).Replace(more)
	if !strings.Contains(more, "providers:") {
		more += "providers: { scripted: { api: openai, base_url: " + quote(h.model.URL+"/v1") + ", api_key: k } }\n"
	}
	h.write(files.Config(), fmt.Sprintf("model: scripted/one\nworkspace: %q\nweb: { listen: \"127.0.0.1:0\" }\npermissions: { mode: %s }\n%s", h.workspace, mode, more))
	t.Cleanup(h.stop)
	return h
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

func (h *home) write(path, text string) {
	h.t.Helper()
	must(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(h.t, os.WriteFile(path, []byte(text), 0o600))
}

// start begins a life in this process.
func (h *home) start() *home {
	h.t.Helper()
	c, err := config.Load(config.Source{Home: h.files, Getenv: func(string) string { return "" }})
	must(h.t, err)
	d, err := daemon.Open(h.t.Context(), daemon.Options{Home: h.files, Config: c, Version: "test", Helper: h.helper,
		Log: slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	must(h.t, err)
	ctx, end := context.WithCancel(context.WithoutCancel(h.t.Context()))
	h.end, h.gone, h.token = end, make(chan error, 1), d.Token()
	h.client = client.New(d.Addr(), d.Token())
	h.engine = d.Engine()
	go func() { h.gone <- d.Run(ctx) }()
	return h
}

func (h *home) stop() {
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
		h.t.Error("the house does not stop")
	}
}

func (h *home) until(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			var model []string
			for _, r := range h.model.Requests() {
				model = append(model, fmt.Sprintf("request %d refused %q: %s", r.N, r.Refused, r.Body))
			}
			h.t.Fatalf("waited in vain for %s\nlog: %s\nbridge: %+v\n%s", what, h.log, h.bridge.Sent(), strings.Join(model, "\n"))
		}
	}
}

func (h *home) runs(conversation string) []api.Run {
	page, err := h.client.Runs(h.t.Context(), url.Values{"conversation": {conversation}})
	if err != nil {
		return nil
	}
	slices.Reverse(page.Items)
	return page.Items
}

func (h *home) entries(conversation string) []api.Entry {
	list, err := h.client.Entries(h.t.Context(), conversation, 0)
	if err != nil {
		return nil
	}
	return list
}

func (h *home) open() []api.Question {
	page, err := h.client.Questions(h.t.Context(), false)
	if err != nil {
		return nil
	}
	return page.Items
}

// talk is what came of saying something: the questions that were asked and
// the run.
type talk struct {
	questions []api.Question
	run       api.Run
}

// send posts a text as the owner.
func (h *home) send(conversation, text string) {
	h.t.Helper()
	if _, err := h.client.Send(h.t.Context(), conversation, client.Message{Text: text}); err != nil {
		h.t.Fatalf("say %q: %v", text, err)
	}
}

// say sends a text as the owner and answers every question with answer until
// the run has ended.
func (h *home) say(conversation, text, answer string) talk {
	h.t.Helper()
	n := len(h.runs(conversation))
	if _, err := h.client.Send(h.t.Context(), conversation, client.Message{Text: text}); err != nil {
		h.t.Fatalf("say %q: %v", text, err)
	}
	return h.through(conversation, n+1, answer)
}

// through answers what is asked until a conversation has had n runs and none
// is live.
func (h *home) through(conversation string, n int, answer string) talk {
	h.t.Helper()
	var k talk
	h.until("the end of "+conversation, func() bool {
		for _, q := range h.open() {
			if q.ConversationID != conversation {
				continue
			}
			k.questions = append(k.questions, q)
			// Someone may have answered on the bridge meanwhile.
			if _, err := h.client.Answer(h.t.Context(), q.ID, answer); err != nil && !strings.Contains(err.Error(), "already") {
				h.t.Fatalf("answer %q to %q: %v", answer, q.Title, err)
			}
		}
		runs := h.runs(conversation)
		if len(runs) < n || mercury.RunState(runs[len(runs)-1].State).Live() {
			return false
		}
		k.run = runs[len(runs)-1]
		return true
	})
	return k
}

// sayWith says a text as the owner and answers each question, by its title and
// body, as choose says. It returns what was asked.
func (h *home) sayWith(conversation, text string, choose func(question string) string) (asked []string) {
	h.t.Helper()
	n := len(h.runs(conversation))
	if _, err := h.client.Send(h.t.Context(), conversation, client.Message{Text: text}); err != nil {
		h.t.Fatalf("say %q: %v", text, err)
	}
	h.until("the end of "+conversation, func() bool {
		for _, q := range h.open() {
			if q.ConversationID == conversation {
				shown := q.Title + "\n" + q.Body
				asked = append(asked, shown)
				if _, err := h.client.Answer(h.t.Context(), q.ID, choose(shown)); err != nil {
					h.t.Fatalf("answer %q: %v", q.Title, err)
				}
			}
		}
		runs := h.runs(conversation)
		return len(runs) > n && !mercury.RunState(runs[len(runs)-1].State).Live()
	})
	return asked
}

// grants counts the standing rights that people gave.
func (h *home) grants() (n int) {
	h.t.Helper()
	must(h.t, h.engine.View(h.t.Context(), func(tx store.Tx) error {
		list, err := tx.Grants(tx.Now())
		for _, g := range list {
			if !g.Once {
				n++
			}
		}
		return err
	}))
	return n
}

// seen is everything a conversation holds, as one text.
func (h *home) seen(conversation string) string {
	b, err := json.Marshal(h.entries(conversation))
	must(h.t, err)
	return string(b)
}

// call is a tool call of the model.
func call(tool string, args any) llmtest.Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // maps of plain values
	}
	return llmtest.Call{Name: tool, Args: b}
}

type args map[string]any

// get fetches a path of the API and returns the whole answer.
func (h *home) get(path string) string {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://"+h.address()+path, nil)
	must(h.t, err)
	r.Header.Set("Authorization", "Bearer "+h.token)
	res, err := http.DefaultClient.Do(r)
	must(h.t, err)
	defer res.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	must(h.t, err)
	for name, values := range res.Header {
		fmt.Fprintf(&b, "\n%s: %s", name, strings.Join(values, ", "))
	}
	return b.String()
}

func (h *home) address() string {
	st, err := h.client.Status(h.t.Context())
	must(h.t, err)
	return st.Listen
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
