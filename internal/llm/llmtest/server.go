package llmtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// Recorded is one request as it arrived.
type Recorded struct {
	N       int             `json:"n"`
	Time    float64         `json:"t"` // seconds since 1970
	Path    string          `json:"path"`
	Bytes   int             `json:"bytes"`
	Refused string          `json:"refused,omitempty"` // the rule it broke
	Fault   string          `json:"fault,omitempty"`
	Body    json.RawMessage `json:"body"`
	Request llm.Request     `json:"-"` // what it says, as far as it could be read
}

// Server is the scripted server, an http.Handler.
type Server struct {
	script Script

	mu       sync.Mutex
	log      io.Writer
	used     map[int]int
	requests []Recorded
	thoughts map[string]string // reasoning given out, by the calls it came with
	given    map[string]bool   // all reasoning given out
	last     []byte            // body of the request before, for the cache count
	watch    func(*http.Request)
}

// NewServer returns a Server of script. Each request is written to log as a
// line of JSON before it is answered; log may be nil.
func NewServer(script Script, log io.Writer) (*Server, error) {
	if err := script.check(); err != nil {
		return nil, err
	}
	return &Server{script: script, log: log, used: map[int]int{}, thoughts: map[string]string{}, given: map[string]bool{}}, nil
}

// Requests returns what has arrived so far.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Recorded(nil), s.requests...)
}

// Refusals returns the rules that requests have broken so far.
func (s *Server) Refusals() []string {
	var list []string
	for _, r := range s.Requests() {
		if r.Refused != "" {
			list = append(list, fmt.Sprintf("request %d: %s", r.N, r.Refused))
		}
	}
	return list
}

// Use replaces the script; counts of rules begin anew.
func (s *Server) Use(script Script) error {
	if err := script.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.used = script, map[int]int{}
	return nil
}

// Watch calls see with each request before it is answered.
func (s *Server) Watch(see func(*http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = see
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.watch != nil {
		s.watch(r)
	}
	s.mu.Unlock()
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object":"list","data":[{"id":"scripted-1","object":"model"}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	wire := llm.OpenAIWire
	if strings.HasSuffix(r.URL.Path, "/messages") {
		wire = llm.AnthropicWire
	}
	s.answer(w, r, wire, body)
}

// talk is one request while it is answered.
type talk struct {
	w      http.ResponseWriter
	r      *http.Request
	wire   llm.Wire
	rule   Rule
	n      int
	req    llm.Request
	stream bool
	usage  bool // stream_options asks for it
	body   []byte
	cached int // bytes shared with the request before
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, wire llm.Wire, body []byte) {
	p := parse(wire, body)
	refused := p.problem
	if s.scriptNow().Lax {
		refused = ""
	} else if refused == "" {
		if err := llm.Validate(p.req, wire); err != nil {
			refused = err.Error()
		}
	}
	if refused == "" && !s.scriptNow().Lax {
		refused = s.thoughtProblem(p)
	}
	t := &talk{w: w, r: r, wire: wire, req: p.req, stream: p.stream, usage: p.usage, body: body}
	s.take(t, refused)
	script := s.scriptNow()
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key") + r.Header.Get("Api-Key")
	switch {
	case script.Key != "" && key != script.Key:
		t.fail(401, "invalid_api_key", "Incorrect API key provided: "+key+".", 0)
	case script.MaxBytes > 0 && len(body) > script.MaxBytes:
		t.fail(413, "request_too_large", "Request exceeds the maximum size", 0)
	case refused != "":
		t.fail(400, "invalid_request_error", refused, 0)
	case script.Window > 0 && llm.EstimateRequest(p.req) > script.Window:
		t.plain(Overflow(script.Vendor))
	default:
		s.play(t)
	}
}

func (s *Server) scriptNow() Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.script
}

// take records a request and chooses its rule.
func (s *Server) take(t *talk, refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.n = len(s.requests) + 1
	for t.cached < len(s.last) && t.cached < len(t.body) && s.last[t.cached] == t.body[t.cached] {
		t.cached++
	}
	s.last = t.body
	if refused == "" {
		t.rule = s.pick(t)
	}
	rec := Recorded{N: t.n, Time: float64(time.Now().UnixMicro()) / 1e6, Path: t.r.URL.Path, Bytes: len(t.body), Refused: refused, Fault: t.rule.Fault, Body: t.body, Request: t.req}
	if !json.Valid(t.body) {
		rec.Body, _ = json.Marshal(string(t.body))
	}
	s.requests = append(s.requests, rec)
	if s.log != nil {
		lines := json.NewEncoder(s.log)
		lines.SetEscapeHTML(false) // the bytes as they came
		_ = lines.Encode(rec)      // a log that cannot be written shows in the test that reads it
	}
}

// Said returns the last thing a person said in req, and the tool results
// behind it; behind is false when there are none.
func Said(req llm.Request) (user, tool string, behind bool) {
	for _, m := range req.Messages {
		switch m.Role {
		case llm.User:
			user, tool, behind = llm.TextOf(m.Parts), "", false
		case llm.ToolRole:
			var texts []string
			for _, p := range m.Parts {
				texts = append(texts, p.Text)
			}
			tool, behind = strings.Join(texts, "\n"), true
		}
	}
	return user, tool, behind
}

func (s *Server) pick(t *talk) Rule {
	user, tool, behind := Said(t.req)
	for i, r := range s.script.Rules {
		if r.Times > 0 && s.used[i] >= r.Times || r.Call > 0 && r.Call != t.n {
			continue
		}
		if !matches("(?is)"+r.Match, user) || !matches("(?i)"+r.Model, t.req.Model) {
			continue
		}
		if r.After != "" && (!behind || !matches("(?s)"+r.After, tool)) {
			continue
		}
		if r.After == "" && behind && !r.Any && r.Call == 0 {
			continue
		}
		s.used[i]++
		return r
	}
	r := Rule{Reply: s.script.Default}
	if behind {
		r.Reply = s.script.AfterDefault
	}
	if r.Reply == "" {
		r.Reply = map[bool]string{false: "ok", true: "done"}[behind]
	}
	return r
}

func matches(pattern, text string) bool {
	ok, _ := regexp.MatchString(pattern, text)
	return ok
}

// play answers by the rule.
func (s *Server) play(t *talk) {
	if t.rule.Do != nil {
		t.rule = t.rule.Do(t.n, t.req)
	}
	r := &t.rule
	user, tool, _ := Said(t.req)
	r.Reply = strings.NewReplacer("{{user}}", user, "{{tool}}", tool).Replace(r.Reply)
	if !t.wait(time.Duration(r.DelayMS) * time.Millisecond) {
		return
	}
	if status, err := strconv.Atoi(r.Fault); err == nil && status >= 400 && status < 600 {
		t.fail(status, r.Code, r.Message, r.RetryAfter)
		return
	}
	switch r.Fault {
	case Hang:
		t.wait(t.hang())
		return
	case Reset:
		t.reset()
		return
	case Context:
		t.plain(Overflow(r.Vendor))
		return
	case QuotaUsed:
		t.fail(429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.", 0)
		return
	case Page:
		t.plain(200, "<!doctype html><title>Sign in</title>")
		return
	case Empty, ContentFilter:
		r.Reply, r.Tools, r.Reasoning = "", nil, ""
	case ReasoningOnly:
		r.Reply, r.Tools = "", nil
		if r.Reasoning == "" {
			r.Reasoning = "Let me think about that."
		}
	}
	for i := range r.Tools {
		if r.Tools[i].ID == "" {
			calls := append([]Call(nil), r.Tools...)
			calls[i].ID = fmt.Sprintf("call_%d_%d_%d", len(t.req.Messages), t.n, i)
			r.Tools = calls
		}
	}
	s.remember(t)
	if t.wire == llm.AnthropicWire {
		t.anthropic()
	} else {
		t.openai()
	}
}

// thoughtKey names an assistant's message by its calls, whose ids the program
// under test may have changed.
func thoughtKey(names, args []string) string {
	return strings.Join(names, ",") + "|" + strings.Join(args, ",")
}

func (s *Server) remember(t *talk) {
	if t.rule.Reasoning == "" {
		return
	}
	var names, args []string
	for _, c := range t.rule.Tools {
		names, args = append(names, c.Name), append(args, c.text())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[t.rule.Reasoning] = true
	if len(names) > 0 {
		s.thoughts[thoughtKey(names, args)] = t.rule.Reasoning
	}
}

// thoughtProblem checks that reasoning came back as it was given.
func (s *Server) thoughtProblem(p parsed) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range p.req.Messages {
		var names, args []string
		thought := ""
		for _, part := range m.Parts {
			switch part.Kind {
			case llm.Reasoning:
				thought += part.Text
			case llm.ToolCall:
				names, args = append(names, part.Name), append(args, string(part.Args))
			}
		}
		if p.wire == llm.OpenAIWire && thought != "" && !s.given[thought] {
			return fmt.Sprintf("messages.%d: reasoning_content was altered or is another model's; thinking blocks cannot be modified", i)
		}
		want := s.thoughts[thoughtKey(names, args)]
		if s.script.NeedsThought && len(names) > 0 && want != "" && thought != want {
			return fmt.Sprintf("messages.%d: the reasoning_content in the thinking mode must be passed back to the API", i)
		}
	}
	return ""
}

func (c Call) text() string {
	if c.Raw != "" {
		return c.Raw
	}
	if len(c.Args) == 0 {
		return "{}"
	}
	return string(c.Args)
}

// sign is the signature of a thinking text by a model. Needing no memory, it
// is the same after a restart of the server.
func sign(model, text string) string {
	sum := sha256.Sum256([]byte("scripted\x00" + model + "\x00" + text))
	return base64.StdEncoding.EncodeToString(sum[:])
}
