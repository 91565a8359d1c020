package anthropic

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
)

// recorded answers every request with one body and keeps what was asked.
type recorded struct {
	body   string
	asked  []*http.Request
	bodies []string
}

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(req.Body)
	r.asked, r.bodies = append(r.asked, req), append(r.bodies, string(b))
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

const fine = `{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`

func text(s string) llm.Part { return llm.Part{Kind: llm.Text, Text: s} }

func ask(t *testing.T, req llm.Request) string {
	t.Helper()
	server := &recorded{body: fine}
	if _, err := New(Options{Key: "k", Transport: server}).Stream(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(server.bodies[0])) {
		t.Fatalf("no JSON: %s", server.bodies[0])
	}
	h := server.asked[0]
	if h.URL.String() != "https://api.anthropic.com/v1/messages" || h.Header.Get("X-Api-Key") != "k" || h.Header.Get("Anthropic-Version") != version {
		t.Errorf("%s %v", h.URL, h.Header)
	}
	return server.bodies[0]
}

func conversation() llm.Request {
	schema := json.RawMessage(`{"type":"object"}`)
	return llm.Request{
		Model: "claude-sonnet-5", System: []string{"Be kind.", " ", "Be brief."}, Tail: "It is noon.",
		Tools: []llm.Tool{{Name: "a", Schema: schema}, {Name: "b", Schema: schema}},
		Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{text("one")}},
			{Role: llm.Assistant, Parts: []llm.Part{
				{Kind: llm.Reasoning, Text: "t", Signature: "s+/=", Origin: "anthropic/claude-sonnet-5"},
				{Kind: llm.Reasoning, Text: "foreign", Origin: "deepseek/r"},
				{Kind: llm.ToolCall, ID: "functions.a:0", Name: "a", Args: json.RawMessage(`{"x": "\u003c"}`)},
			}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Kind: llm.ToolResult, ID: "functions.a:0", Text: "bad", IsError: true}}},
			{Role: llm.User, Parts: []llm.Part{text("two"), {Kind: llm.Image, Media: "image/png", Data: []byte("x")}}},
		},
	}
}

func TestARequestIsWrittenExactly(t *testing.T) {
	want := `{"model":"claude-sonnet-5","max_tokens":16384` +
		`,"tools":[{"name":"a","description":"","input_schema":{"type":"object"}},{"name":"b","description":"","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]` +
		`,"system":[{"type":"text","text":"Be kind."},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]` +
		`,"messages":[{"role":"user","content":[{"type":"text","text":"one","cache_control":{"type":"ephemeral"}}]}` +
		`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s+/="},{"type":"tool_use","id":"ID","name":"a","input":{"x":"<"}}]}` +
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"ID","content":"bad","is_error":true},{"type":"text","text":"two"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"<status>\nIt is noon.\n</status>"}]}]` +
		`,"stream":true}`
	want = strings.ReplaceAll(want, `"ID"`, `"`+cleanID("functions.a:0")+`"`)
	if got := ask(t, conversation()); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestThePrefixOfARequestStaysTheSameAndMarksAreFourAtMost(t *testing.T) {
	req := conversation()
	before := ask(t, req)
	for n := range 10 {
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{text("answer")}},
			llm.Message{Role: llm.User, Parts: []llm.Part{text("more")}})
		req.Tail = strings.Repeat("later ", n)
		after := ask(t, req)
		if marks := strings.Count(after, "cache_control"); marks != 4 {
			t.Errorf("%d marks", marks)
		}
		plain := func(s string) string { return strings.ReplaceAll(s, mark, "") }
		stable, _, _ := strings.Cut(plain(before), `,{"type":"text","text":"<status>`)
		stable, _, _ = strings.Cut(stable, `]}],"stream"`)
		if !strings.HasPrefix(plain(after), stable) {
			t.Errorf("the prefix changed:\n%s\n%s", before, after)
		}
		before = after
	}
}

func TestThinkingIsAskedForInEachModelsWayAndOnlyWhereItMay(t *testing.T) {
	base := conversation()
	base.Messages = base.Messages[:1]
	switched := conversation()
	switched.Messages = switched.Messages[:3] // in the middle of a turn
	switched.Model = "claude-opus-5"
	own := conversation()
	own.Messages = own.Messages[:3]
	for _, tt := range []struct {
		name, model, effort string
		req                 llm.Request
		max                 int
		want                string
	}{
		{"a new model", "claude-sonnet-5", "high", base, 0, `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`},
		{"the least effort", "claude-opus-4-7", "minimal", base, 0, `"output_config":{"effort":"low"}`},
		{"an older model", "claude-sonnet-4-5-20250929", "medium", base, 0, `"thinking":{"type":"enabled","budget_tokens":8192}`},
		{"the first of its line", "claude-sonnet-4-20250514", "low", base, 0, `"budget_tokens":2048`},
		{"a small answer", "claude-haiku-4-5", "high", base, 1500, ""},
		{"a model that does not think", "claude-3-5-haiku-latest", "high", base, 0, ""},
		{"none", "claude-sonnet-5", "none", base, 0, ""},
		{"nothing said", "claude-sonnet-5", "", base, 0, ""},
		{"another model in the middle of a turn", "claude-opus-5", "high", switched, 0, ""},
		{"the same model in the middle of a turn", "claude-sonnet-5", "high", own, 0, `adaptive`},
	} {
		tt.req.Model, tt.req.Effort, tt.req.MaxTokens = tt.model, tt.effort, tt.max
		warm := 0.5
		tt.req.Temperature = &warm
		body := ask(t, tt.req)
		thinks := strings.Contains(body, `"thinking":{`)
		if thinks != (tt.want != "") || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %s", tt.name, body)
		}
		if thinks == strings.Contains(body, `"temperature"`) {
			t.Errorf("%s: temperature and thinking exclude each other", tt.name)
		}
	}
}

func TestTheOutputLimitKeepsAnOldModelsCeiling(t *testing.T) {
	req := conversation()
	req.Model, req.MaxTokens = "claude-3-haiku-20240307", 20000
	if body := ask(t, req); !strings.Contains(body, `"max_tokens":4096`) {
		t.Error(body)
	}
}

func TestUsageIsTheWholeInput(t *testing.T) {
	stream := `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":800,"cache_creation_input_tokens":90,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":25}}

event: message_stop
data: {"type":"message_stop"}

`
	res, err := New(Options{Transport: &recorded{body: stream}}).Stream(t.Context(), conversation(), nil)
	want := llm.Usage{Input: 900, Output: 25, Cached: 800, CacheWrite: 90}
	if err != nil || res.Usage != want || res.Text() != "hi" || res.Finish != llm.Stop {
		t.Errorf("%+v %v", res, err)
	}
	cut, _, _ := strings.Cut(stream, "event: message_delta")
	res, err = New(Options{Transport: &recorded{body: cut}}).Stream(t.Context(), conversation(), nil)
	if llm.ClassOf(err) != llm.StreamCut || !res.Usage.Estimated || res.Usage.Input != 900 || res.Text() != "hi" {
		t.Errorf("cut: %+v %v", res, err)
	}
}

func TestModelsAreListed(t *testing.T) {
	names, err := New(Options{Transport: &recorded{body: `{"data":[{"id":"claude-b"},{"id":"claude-a"}]}`}}).Models(t.Context())
	if err != nil || strings.Join(names, ",") != "claude-b,claude-a" {
		t.Errorf("%v %v", names, err)
	}
}

// FuzzDecode checks that no body, however broken, panics or yields parts that
// could not be sent back.
func FuzzDecode(f *testing.F) {
	f.Add(fine)
	f.Add("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n")
	f.Add("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"x.y\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"x\"}}\n\n")
	server := &recorded{}
	c := New(Options{Transport: server})
	f.Fuzz(func(t *testing.T, body string) {
		server.body, server.asked, server.bodies = body, nil, nil
		req := llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{text("hi")}}}}
		res, err := c.Stream(t.Context(), req, nil)
		if err != nil && llm.ClassOf(err) == "" {
			t.Fatalf("an error without class: %v", err)
		}
		if err != nil {
			return
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Parts: res.Parts})
		next := llm.Message{Role: llm.User, Parts: []llm.Part{text("on")}}
		if calls := res.Calls(); len(calls) > 0 {
			next = llm.Message{Role: llm.ToolRole}
			for _, p := range calls {
				next.Parts = append(next.Parts, llm.Part{Kind: llm.ToolResult, ID: p.ID, Text: "r"})
			}
		}
		req.Messages = append(req.Messages, next)
		if err := llm.Validate(req, llm.AnthropicWire); err != nil {
			t.Fatalf("%q gives parts that break a rule: %v", body, err)
		}
	})
}
