package openai

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
)

// picky refuses requests that hold one of its words, once each is named.
type picky struct {
	refuses []string
	bodies  []string
}

func (p *picky) RoundTrip(req *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(req.Body)
	p.bodies = append(p.bodies, string(b))
	for _, word := range p.refuses {
		if strings.Contains(string(b), `"`+word+`":`) {
			return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"Unsupported parameter: '` + word + `' is not supported with this model.","type":"invalid_request_error","param":"` + word + `","code":"unsupported_parameter"}}`))}, nil
		}
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`))}, nil
}

func TestARefusedOptionIsLeftOutFromThenOn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refuses []string
		has     string
	}{
		{"stream options", []string{"stream_options"}, `"stream":true`},
		{"the old name of the limit", []string{"max_tokens"}, `"max_completion_tokens":500`},
		{"three at once", []string{"stream_options", "max_tokens", "reasoning_effort"}, `"max_completion_tokens":500`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := &picky{refuses: tt.refuses}
			c := New(Options{Provider: "home", BaseURL: "http://127.0.0.1:9/v1", Transport: server, Quirks: &Quirks{Effort: EffortField}})
			for range 2 {
				res, err := c.Stream(t.Context(), question("m"), nil)
				if err != nil || res.Text() != "hi" {
					t.Fatalf("%q %v", res.Text(), err)
				}
			}
			if n := len(server.bodies); n != len(tt.refuses)+2 {
				t.Errorf("%d requests", n)
			}
			if last := server.bodies[len(server.bodies)-1]; !strings.Contains(last, tt.has) {
				t.Errorf("%s is missing in %s", tt.has, last)
			}
		})
	}
	t.Run("both names of the limit", func(t *testing.T) {
		server := &picky{refuses: []string{"max_tokens", "max_completion_tokens"}}
		c := New(Options{BaseURL: "http://127.0.0.1:9/v1", Transport: server})
		if res, err := c.Stream(t.Context(), question("m"), nil); err != nil || res.Text() != "hi" {
			t.Fatalf("%q %v", res.Text(), err)
		}
	})
	t.Run("what cannot be left out is an error", func(t *testing.T) {
		server := &picky{refuses: []string{"messages"}}
		c := New(Options{BaseURL: "http://127.0.0.1:9/v1", Transport: server})
		if _, err := c.Stream(t.Context(), question("m"), nil); llm.ClassOf(err) != llm.BadRequest || len(server.bodies) != 1 {
			t.Fatalf("%d requests, %v", len(server.bodies), err)
		}
	})
}

func TestAValueThatIsRefusedIsNotTakenForAFieldThatIs(t *testing.T) {
	server := &recorded{status: 400, body: `{"error":{"message":"max_tokens is too large: 99999. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}`}
	c := New(Options{BaseURL: "http://127.0.0.1:9/v1", Transport: server})
	for n := 1; n <= 2; n++ {
		_, err := c.Stream(t.Context(), question("m"), nil)
		if llm.ClassOf(err) != llm.BadRequest || len(server.bodies) != n || !strings.Contains(server.bodies[n-1], `"max_tokens":500`) {
			t.Fatalf("%v, %d requests, %s", err, len(server.bodies), server.bodies[n-1])
		}
	}
}

func TestDeepSeekGetsAnEmptyFieldForCallsOfAnotherModel(t *testing.T) {
	for provider, want := range map[string]bool{"deepseek": true, "xai": false, "openai": false} {
		c := New(Options{Provider: provider})
		req := question("m")
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.Reasoning, Text: "foreign", Origin: "x/y"}, {Kind: llm.ToolCall, ID: "a", Name: "list_dir"}}},
			llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Kind: llm.ToolResult, ID: "a", Text: "r"}}})
		body := string(c.encode(req))
		if strings.Contains(body, `"reasoning_content":""`) != want || strings.Contains(body, "foreign") {
			t.Errorf("%s: %s", provider, body)
		}
	}
}

func TestErrorsInsideAnAnswerAreClassed(t *testing.T) {
	for _, tt := range []struct {
		provider, body string
		want           llm.Class
	}{
		{"minimax", `{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, llm.Quota},
		{"minimax", `{"base_resp":{"status_code":1004,"status_msg":"login fail"}}`, llm.Auth},
		{"openrouter", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"error\"}],\"error\":{\"code\":429,\"message\":\"Rate limit\"}}\n\n", llm.RateLimit},
		{"openrouter", "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\",\"error\":{\"code\":502,\"message\":\"upstream\"}}]}\n\n", llm.Unavailable},
		{"lmstudio", "event: error\ndata: {\"error\":{\"message\":\"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens\"}}\n\n", llm.ContextLength},
		{"zai", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"network_error\"}]}\n\ndata: [DONE]\n\n", llm.Unavailable},
		{"zai", "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"sensitive\"}]}\n\ndata: [DONE]\n\n", llm.ContentFiltered},
		{"gemini", `[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]`, llm.Unavailable},
		{"groq", "data: {\"choices\":[],\"x_groq\":{\"error\":\"Internal\"}}\n\n", llm.Unavailable},
		{"home", "", llm.StreamCut},
		{"home", "\n\n: alive\n\n", llm.StreamCut},
		{"home", "data: [DONE]\n\n", llm.Empty},
		{"home", "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n", llm.Empty},
		{"home", "<html><title>Login</title>", llm.Malformed},
	} {
		c := New(Options{Provider: tt.provider, BaseURL: "http://127.0.0.1:9/v1", Transport: &recorded{body: tt.body}})
		_, err := c.Stream(t.Context(), question("m"), nil)
		if llm.ClassOf(err) != tt.want {
			t.Errorf("%s, %.60q: %v, want %s", tt.provider, tt.body, err, tt.want)
		}
	}
}

func TestAnswersWithoutTheirUsualEndAreStillAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"no [DONE]":         "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
		"no finish reason":  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		"no last line end":  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}",
		"a body, no stream": `{"choices":[{"index":0,"message":{"content":[{"type":"text","text":"hi"}]},"finish_reason":"stop"}]}`,
		"garbage behind":    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"broken\n\n",
		"a null of a list":  "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\",\"tool_calls\":null,\"reasoning\":null},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
		"an odd type":       "data: {\"id\":7,\"model\":null,\"choices\":[{\"index\":0,\"logprobs\":1,\"delta\":{\"role\":5,\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":\"none\"}\n\n",
	} {
		c := New(Options{Provider: "home", BaseURL: "http://127.0.0.1:9/v1", Transport: &recorded{body: body}})
		if res, err := c.Stream(t.Context(), question("m"), nil); err != nil || res.Text() != "hi" || res.Finish != llm.Stop {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
}

func TestModelListsOfEveryShapeAreRead(t *testing.T) {
	for _, body := range []string{
		`{"object":"list","data":[{"id":"a"},{"id":"models/b"}]}`,
		`{"models":[{"name":"a"},{"name":"models/b"}]}`,
		`[{"id":"a"},{"id":"b"}]`,
	} {
		c := New(Options{BaseURL: "http://127.0.0.1:9/v1", Transport: &recorded{body: body}})
		names, err := c.Models(t.Context())
		if err != nil || strings.Join(names, ",") != "a,b" {
			t.Errorf("%s: %v %v", body, names, err)
		}
	}
	c := New(Options{BaseURL: "http://127.0.0.1:9/v1", Transport: &recorded{status: 401}})
	if _, err := c.Models(t.Context()); llm.ClassOf(err) != llm.Auth {
		t.Errorf("%v", err)
	}
}

func (r *recorded) reset(body string) { r.body, r.asked, r.bodies = body, nil, nil }

// FuzzDecode checks that no body, however broken, panics or yields parts that
// could not be sent back.
func FuzzDecode(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/stream.txt")
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`{"choices":[{"index":0,"message":{"content":"x","tool_calls":[{"function":{"arguments":{"a":1}}}]},"finish_reason":"stop"}]}`)
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"id\":5}]}}]}\n\n")
	server := &recorded{}
	q := Lookup("minimax", "")
	c := New(Options{Provider: "minimax", BaseURL: "http://127.0.0.1:9/v1", Transport: server, Quirks: &q})
	f.Fuzz(func(t *testing.T, body string) {
		server.reset(body)
		req := question("m")
		res, err := c.Stream(t.Context(), req, nil)
		if err != nil && llm.ClassOf(err) == "" {
			t.Fatalf("an error without class: %v", err)
		}
		if err != nil {
			return
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Parts: res.Parts})
		next := llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "on"}}}
		if calls := res.Calls(); len(calls) > 0 {
			next = llm.Message{Role: llm.ToolRole}
			for _, p := range calls {
				next.Parts = append(next.Parts, llm.Part{Kind: llm.ToolResult, ID: p.ID, Text: "r"})
			}
		}
		req.Messages = append(req.Messages, next)
		if err := llm.Validate(req, llm.OpenAIWire); err != nil {
			t.Fatalf("%q gives parts that break a rule: %v", body, err)
		}
	})
}
