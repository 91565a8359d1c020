package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/testenv"
)

const token = "correct-horse"

// house is the API over a real store and a running engine, whose turns answer
// with the text they were asked, after waiting for release if it is set.
type house struct {
	*httptest.Server
	engine  *engine.Engine
	release chan struct{}
}

func open(t *testing.T) *house {
	t.Helper()
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return over(t, s)
}

// over is the same house on another store.
func over(t *testing.T, s store.Store) *house {
	t.Helper()
	e := engine.New(s, engine.Options{InboxCap: 2})
	h := &house{engine: e}
	e.Handle("turn", func(ctx context.Context, w *engine.Work) error {
		if h.release != nil {
			select {
			case <-h.release:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := w.Run().ConversationID
		return w.Settle(ctx, engine.Outcome{
			Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, Text: "heard"}},
			Answer:  []mercury.Delivery{{Address: c, ConversationID: c, Text: "heard", Kind: mercury.AnswerDelivery}},
		}, nil)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	h.Server = httptest.NewServer(api.New(e, intake.New(e, intake.Options{}), token, api.Options{Version: "test"}))
	t.Cleanup(func() { h.Server.CloseClientConnections(); h.Server.Close(); cancel(); <-done; s.Close() })
	return h
}

func (h *house) client() *client.Client {
	return client.New(strings.TrimPrefix(h.URL, "http://"), token)
}

// do sends a raw request and returns the status and the body.
func (h *house) do(t *testing.T, method, path, body string, header map[string]string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, h.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		} else if v == "" {
			req.Header.Del(k)
		} else {
			req.Header.Set(k, v)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestEveryRouteButHealthRefusesWithoutTheToken(t *testing.T) {
	h := open(t)
	_, spec, _ := h.do(t, "GET", "/api/openapi.json", "", nil)
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(spec), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 12 {
		t.Fatalf("openapi %q with %d paths: %v", doc.OpenAPI, len(doc.Paths), err)
	}
	doc.Paths["/api/events"] = map[string]any{"get": nil}
	doc.Paths["/api/openapi.json"] = map[string]any{"get": nil}
	doc.Paths["/api/nothing"] = map[string]any{"get": nil}
	param := regexp.MustCompile(`\{[^}]+\}`)
	for path, methods := range doc.Paths {
		for method := range methods {
			for _, bad := range []string{"", "Bearer wrong", "Basic " + token, "Bearer", token} {
				code, _, head := h.do(t, strings.ToUpper(method), param.ReplaceAllString(path, "x"), "{}", map[string]string{"Authorization": bad})
				if path == "/api/health" {
					if code != 200 {
						t.Errorf("health: %d", code)
					}
				} else if code != 401 || head.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s %s with %q: %d %s", method, path, bad, code, head.Get("Content-Type"))
				}
			}
		}
	}
}

func TestATokenInTheAddressIsNoToken(t *testing.T) {
	h := open(t)
	for _, path := range []string{"/api/status?token=" + token, "/api/status?access_token=" + token, "/api/status?gatewayUrl=ws://evil.example"} {
		if code, _, _ := h.do(t, "GET", path, "", map[string]string{"Authorization": ""}); code != 401 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestOtherHostsAndOriginsAreRefused(t *testing.T) {
	h := open(t)
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"loopback", nil, 200},
		{"localhost", map[string]string{"Host": "localhost:6174"}, 200},
		{"IPv6 loopback", map[string]string{"Host": "[::1]:6174"}, 200},
		{"a name that was rebound", map[string]string{"Host": "evil.example"}, 403},
		{"a name that begins like ours", map[string]string{"Host": "localhost.evil.example"}, 403},
		{"another origin", map[string]string{"Origin": "https://evil.example"}, 403},
		{"the null origin", map[string]string{"Origin": "null"}, 403},
		{"a cross-site request", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		{"its own origin", map[string]string{"Origin": h.URL}, 200},
	} {
		if code, body, _ := h.do(t, "GET", "/api/status", "", tt.header); code != tt.want {
			t.Errorf("%s: %d %s", tt.name, code, body)
		}
	}
	code, _, _ := h.do(t, "POST", "/api/conversations/c/messages", `{"text":"x"}`, map[string]string{"Sec-Fetch-Site": "cross-site"})
	if code != 403 {
		t.Errorf("a cross-site write: %d", code)
	}
}

func TestMalformedRequestsGetProblemDetails(t *testing.T) {
	h := open(t)
	_, body, _ := h.do(t, "POST", "/api/conversations/c/messages", `{"text":1,"mood":"good"}`, nil)
	if p := (client.Error{}); json.Unmarshal([]byte(body), &p) != nil || !strings.Contains(p.Detail, "body.text: expected string") || !strings.Contains(p.Detail, "body.mood") {
		t.Errorf("the detail does not say what is wrong where: %s", body)
	}
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"no such route", "GET", "/api/nothing", "", 404},
		{"another method", "DELETE", "/api/status", "", 405},
		{"no JSON", "POST", "/api/conversations/c/messages", "{", 400},
		{"a list", "POST", "/api/conversations/c/messages", "[]", 422},
		{"no body", "POST", "/api/conversations/c/messages", "", 400},
		{"no text", "POST", "/api/conversations/c/messages", "{}", 422},
		{"a text that is a number", "POST", "/api/conversations/c/messages", `{"text":1}`, 422},
		{"an unknown field", "POST", "/api/conversations/c/messages", `{"text":"x","mood":"good"}`, 422},
		{"an unknown mode", "POST", "/api/conversations/c/messages", `{"text":"x","mode":"shout"}`, 422},
		{"an empty text", "POST", "/api/conversations/c/messages", `{"text":" "}`, 422},
		{"an oversize text", "POST", "/api/conversations/c/messages", `{"text":"` + strings.Repeat("x", intake.MaxText+1) + `"}`, 422},
		{"an oversize body", "POST", "/api/conversations/c/messages", `{"text":"` + strings.Repeat("x", 3*intake.MaxText) + `"}`, 413},
		{"a foreign conversation that is not there", "POST", "/api/conversations/telegram%2F1/messages", `{"text":"x"}`, 404},
		{"a conversation that is not there", "GET", "/api/conversations/none", "", 404},
		{"entries of none", "GET", "/api/conversations/none/entries", "", 404},
		{"a run that is not there", "GET", "/api/runs/run_x", "", 404},
		{"cancel of none", "POST", "/api/runs/run_x/cancel", "{}", 404},
		{"replay of none", "POST", "/api/runs/run_x/replay", "{}", 404},
		{"resend of none", "POST", "/api/deliveries/dl_x/resend", "{}", 404},
		{"an answer to none", "POST", "/api/questions/qu_x/answer", `{"answer":"no"}`, 404},
		{"a limit over the limit", "GET", "/api/runs?limit=5000", "", 422},
		{"a state that is none", "GET", "/api/runs?state=happy", "", 422},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, body, head := h.do(t, tt.method, tt.path, tt.body, nil)
			if code != tt.want {
				t.Fatalf("%d %.200s, want %d", code, body, tt.want)
			}
			var p struct {
				Status        int
				Title, Detail string
			}
			if head.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(body), &p) != nil || p.Status != code || p.Title == "" || p.Detail == "" {
				t.Errorf("not problem details: %s %.200s", head.Get("Content-Type"), body)
			}
			if strings.Contains(body, ".go:") || strings.Contains(body, "goroutine") {
				t.Errorf("internals: %.300s", body)
			}
		})
	}
}

// eventually asks until the answer is right.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: it did not come", what)
}

func TestAMessageIsOneMessageHoweverOftenItIsSent(t *testing.T) {
	h := open(t)
	c := h.client()
	m := client.Message{Text: "hello", RequestID: "r1"}
	first, err := c.Send(t.Context(), "talk", m)
	if err != nil || first.Duplicate || first.RunID == nil || first.InputID == "" {
		t.Fatalf("first: %+v %v", first, err)
	}
	again, err := c.Send(t.Context(), "talk", m)
	if err != nil || !again.Duplicate || again.InputID != first.InputID {
		t.Errorf("again: %+v %v", again, err)
	}
	eventually(t, "the answer", func() bool {
		r, err := c.Run(t.Context(), *first.RunID)
		return err == nil && r.State == "done" && r.ConversationID == "local/talk" && r.Lane == "chat"
	})
	es, err := c.Entries(t.Context(), "talk", 0)
	if err != nil || len(es) != 2 || es[0].Kind != "user" || es[0].InputID != first.InputID || es[1].Kind != "assistant" || es[1].Text != "heard" {
		t.Errorf("entries: %+v %v", es, err)
	}
	var refused *client.Error
	_, err = c.Send(t.Context(), "talk", client.Message{Text: "other", RequestID: "r1"})
	if !asError(err, &refused) || refused.Status != 409 {
		t.Errorf("other content under the same id: %v", err)
	}
}

func asError(err error, target **client.Error) bool {
	e, ok := err.(*client.Error)
	*target = e
	return ok
}

func TestAWaitingFollowUpHasNoRunAndAFullInboxSays429(t *testing.T) {
	h := open(t)
	h.release = make(chan struct{})
	c := h.client()
	first, err := c.Send(t.Context(), "busy", client.Message{Text: "one"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run in hand", func() bool {
		r, err := c.Run(t.Context(), *first.RunID)
		return err == nil && r.State == "running"
	})
	for i := range 2 {
		s, err := c.Send(t.Context(), "busy", client.Message{Text: fmt.Sprint("later ", i)})
		if err != nil || s.RunID != nil || s.Outcome != "queued" {
			t.Fatalf("follow-up %d: %+v %v", i, s, err)
		}
	}
	var full *client.Error
	if _, err := c.Send(t.Context(), "busy", client.Message{Text: "too many"}); !asError(err, &full) || full.Status != 429 {
		t.Errorf("a full inbox: %v", err)
	}
	conversation, err := c.Conversation(t.Context(), "busy")
	if err != nil || conversation.Waiting != 2 || conversation.RunID != *first.RunID {
		t.Errorf("%+v %v", conversation, err)
	}
	close(h.release)
	eventually(t, "all answered", func() bool {
		conversation, err := c.Conversation(t.Context(), "busy")
		return err == nil && conversation.Waiting == 0 && conversation.RunID == ""
	})
}

func TestACommandIsAnsweredAtOnceWhileATurnRuns(t *testing.T) {
	h := open(t)
	h.release = make(chan struct{})
	defer close(h.release)
	c := h.client()
	if _, err := c.Send(t.Context(), "busy", client.Message{Text: "work"}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Send(t.Context(), "busy", client.Message{Text: "/status"})
	if err != nil || s.Outcome != "command" || s.Reply == "" {
		t.Errorf("%+v %v", s, err)
	}
}

func TestCancelEndsARunOnceAndSaysSo(t *testing.T) {
	h := open(t)
	h.release = make(chan struct{})
	defer close(h.release)
	c := h.client()
	s, err := c.Send(t.Context(), "c", client.Message{Text: "work"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(t.Context(), *s.RunID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() bool {
		r, err := c.Run(t.Context(), *s.RunID)
		return err == nil && r.State == "stopped"
	})
	var late *client.Error
	if _, err := c.Cancel(t.Context(), *s.RunID); !asError(err, &late) || late.Status != 409 {
		t.Errorf("a second cancel: %v", err)
	}
	replayed, err := c.Replay(t.Context(), *s.RunID)
	if err != nil || replayed.ReplayOf != *s.RunID {
		t.Errorf("replay: %+v %v", replayed, err)
	}
}

func TestTheEventStreamShowsWhatHappensAndResumes(t *testing.T) {
	h := open(t)
	c := h.client()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ready := make(chan struct{})
	events := make(chan client.Event, 100)
	go func() {
		for ev, err := range c.Events(ctx, "local/e", "", func() { close(ready) }) {
			if err != nil {
				return
			}
			events <- ev
		}
	}()
	<-ready
	if _, err := c.Send(ctx, "e", client.Message{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(ctx, "other", client.Message{Text: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	seen, last := map[string]bool{}, ""
	for !seen["entry"] || !seen["run"] || !seen["answer"] {
		select {
		case ev := <-events:
			if ev.ConversationID != "local/e" {
				t.Errorf("an event of %s", ev.ConversationID)
			}
			seen[ev.Type] = true
			var e api.Entry
			if ev.Type == "entry" && json.Unmarshal(ev.Data, &e) == nil && e.Kind == "assistant" {
				seen["answer"], last = true, ev.ID
			}
		case <-ctx.Done():
			t.Fatalf("saw only %v", seen)
		}
	}
	// Whoever comes back with a known id misses nothing and hears nothing twice.
	if _, err := c.Send(ctx, "e", client.Message{Text: "/status"}); err != nil {
		t.Fatal(err)
	}
	for ev, err := range c.Events(ctx, "local/e", last, nil) {
		if err != nil || ev.Type == "reset" || ev.ID == last {
			t.Fatalf("%+v %v", ev, err)
		}
		var e api.Entry
		if ev.Type == "entry" && json.Unmarshal(ev.Data, &e) == nil && e.Text == "[/status]" {
			break
		}
	}
	// An id that nobody knows gets a reset.
	for ev, err := range c.Events(ctx, "", "from-another-life-7", nil) {
		if err != nil || ev.Type != "reset" {
			t.Errorf("%+v %v", ev, err)
		}
		break
	}
}

func TestTheStreamIsServerSentEventsWithIds(t *testing.T) {
	h := open(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Last-Event-ID", "unknown")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	in := bufio.NewReader(res.Body)
	var lines []string
	for range 5 {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	if lines[0] != ": listening" || !strings.HasPrefix(lines[2], "id: ") || lines[3] != "event: reset" || !strings.HasPrefix(lines[4], "data: {") {
		t.Errorf("%q", lines)
	}
}

// What is shown at once must not wait for the next sign of life because what
// follows belongs to somebody else.
func TestAnEventIsShownAtOnceThoughOthersFollowIt(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a sign of life comes every fifteen
	defer cancel()
	begun := time.Now()
	go func() { // until the stream has begun to listen
		for ctx.Err() == nil {
			h.engine.Bus().Publish(engine.Event{Type: "delta", ConversationID: "local/a", RunID: "run_1"})
			for range 20 {
				h.engine.Bus().Publish(engine.Event{Type: "delta", ConversationID: "local/b"})
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	for ev, err := range h.client().Events(ctx, "local/a", "", nil) {
		if took := time.Since(begun); err != nil || ev.RunID != "run_1" || took > 8*time.Second {
			t.Errorf("after %s: %+v, %v", took, ev, err)
		}
		return
	}
	t.Error("nothing was shown")
}

func TestListsHavePagesThatJoin(t *testing.T) {
	h := open(t)
	c := h.client()
	for i := range 5 {
		if _, err := c.Send(t.Context(), fmt.Sprint("c", i), client.Message{Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "five runs", func() bool {
		_, body, _ := h.do(t, "GET", "/api/runs?state=done", "", nil)
		return strings.Count(body, `"state":"done"`) == 5
	})
	seen := map[string]bool{}
	after := ""
	for pages := 0; pages < 10; pages++ {
		_, body, _ := h.do(t, "GET", "/api/runs?limit=2&after="+after, "", nil)
		var page struct {
			Items []api.Run
			Next  string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			if seen[r.ID] {
				t.Errorf("%s twice", r.ID)
			}
			seen[r.ID] = true
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d runs over all pages", len(seen))
	}
}

// What is read under a snapshot must not want a lock, which PostgreSQL refuses
// there: every reading route is asked once on it.
func TestEveryReadingRouteAnswersOnPostgreSQL(t *testing.T) {
	s, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := over(t, s)
	c := h.client()
	sent, err := c.Send(t.Context(), "talk", client.Message{Text: "hello", RequestID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the answer", func() bool {
		r, err := c.Run(t.Context(), *sent.RunID)
		return err == nil && r.State == "done"
	})
	if s, err := c.Send(t.Context(), "talk", client.Message{Text: "/status"}); err != nil || s.Reply == "" {
		t.Errorf("/status: %+v %v", s, err)
	}
	for _, path := range []string{"/api/health", "/api/status", "/api/conversations", "/api/conversations/talk", "/api/conversations/talk/entries",
		"/api/conversations/talk/entries?last=true", "/api/runs", "/api/runs/" + *sent.RunID, "/api/deliveries", "/api/questions", "/api/questions?all=true", "/api/commands"} {
		if code, body, _ := h.do(t, "GET", path, "", nil); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
