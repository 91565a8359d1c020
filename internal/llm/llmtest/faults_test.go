package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/anthropic"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/llm/openai"
)

// way is one of the four ways to ask.
type way struct {
	name  string
	wire  llm.Wire
	whole bool
}

var ways = []way{
	{"openai stream", llm.OpenAIWire, false},
	{"openai whole", llm.OpenAIWire, true},
	{"anthropic stream", llm.AnthropicWire, false},
	{"anthropic whole", llm.AnthropicWire, true},
}

// client returns a client of s with a transport that the test closes.
func client(t *testing.T, s *llmtest.Running, wire llm.Wire, idle time.Duration) llm.Client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	if wire == llm.AnthropicWire {
		return anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "sk-canary-secret-0123456789", Transport: transport, First: idle, Idle: idle})
	}
	return openai.New(openai.Options{Provider: "scripted", BaseURL: s.URL + "/v1", Key: "sk-canary-secret-0123456789", Transport: transport, First: idle, Idle: idle})
}

func hello() llm.Request {
	return llm.Request{
		Model:    "scripted-1",
		System:   []string{"You are helpful."},
		Tail:     "It is Tuesday.",
		Tools:    []llm.Tool{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "hello"}}}},
	}
}

const longText = "one two three four five six seven eight"

func TestEachFaultIsClassedAndWhatArrivedIsKept(t *testing.T) {
	look := []llmtest.Call{{Name: "look", Args: json.RawMessage(`{"path":"a/quite/long/path/that/takes/more/than/one/piece/of/arguments"}`)}}
	for _, tt := range []struct {
		name    string
		rule    llmtest.Rule
		stream  llm.Class // what a streamed answer's failure is classed as
		whole   llm.Class
		after   time.Duration
		partial bool // a stream keeps the beginning of longText
	}{
		{"a refused key", llmtest.Rule{Fault: "401", Message: "Incorrect API key provided: sk-canary-secret-0123456789"}, llm.Auth, llm.Auth, 0, false},
		{"a forbidden model", llmtest.Rule{Fault: "403"}, llm.Auth, llm.Auth, 0, false},
		{"a rate limit with Retry-After", llmtest.Rule{Fault: "429", RetryAfter: 7}, llm.RateLimit, llm.RateLimit, 7 * time.Second, false},
		{"a rate limit without", llmtest.Rule{Fault: "429"}, llm.RateLimit, llm.RateLimit, 0, false},
		{"a used-up quota", llmtest.Rule{Fault: llmtest.QuotaUsed}, llm.Quota, llm.Quota, 0, false},
		{"a server error", llmtest.Rule{Fault: "500"}, llm.Unavailable, llm.Unavailable, 0, false},
		{"overload", llmtest.Rule{Fault: "529", RetryAfter: 1.5}, llm.Unavailable, llm.Unavailable, 1500 * time.Millisecond, false},
		{"a web page", llmtest.Rule{Fault: llmtest.Page}, llm.Malformed, llm.Malformed, 0, false},
		{"a reset before the headers", llmtest.Rule{Fault: llmtest.Reset}, llm.Unavailable, llm.Unavailable, 0, false},
		{"a reset in the text", llmtest.Rule{Fault: llmtest.ResetMid, Reply: longText}, llm.StreamCut, llm.StreamCut, 0, true},
		{"a clean end in the text", llmtest.Rule{Fault: llmtest.CutText, Reply: longText}, llm.StreamCut, llm.StreamCut, 0, true},
		{"a clean end in the arguments", llmtest.Rule{Fault: llmtest.CutArgs, Reply: longText, Tools: look}, llm.StreamCut, llm.StreamCut, 0, true},
		{"no end marker", llmtest.Rule{Fault: llmtest.NoFinish, Reply: longText}, llm.StreamCut, llm.StreamCut, 0, true},
		{"an error inside the answer", llmtest.Rule{Fault: llmtest.ErrorEvent, Reply: longText}, llm.Unavailable, llm.Unavailable, 0, true},
		{"an event that is no JSON", llmtest.Rule{Fault: llmtest.BadJSON, Reply: longText}, llm.Malformed, llm.Malformed, 0, true},
		{"an empty answer", llmtest.Rule{Fault: llmtest.Empty}, llm.Empty, llm.Empty, 0, false},
		{"thinking only", llmtest.Rule{Fault: llmtest.ReasoningOnly}, llm.Empty, llm.Empty, 0, false},
		{"a content filter", llmtest.Rule{Fault: llmtest.ContentFilter}, llm.ContentFiltered, llm.ContentFiltered, 0, false},
		{"silence before the headers", llmtest.Rule{Fault: llmtest.Hang}, llm.TimeoutIdle, llm.TimeoutIdle, 0, false},
		{"silence behind the headers", llmtest.Rule{Fault: llmtest.Silent}, llm.TimeoutIdle, llm.TimeoutIdle, 0, false},
		{"silence between tokens", llmtest.Rule{TokenMS: 60_000, Reply: longText}, llm.TimeoutIdle, "", 0, true},
	} {
		for _, w := range ways {
			t.Run(tt.name+", "+w.name, func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{tt.rule}})
				req := hello()
				req.Whole = w.whole
				idle := 10 * time.Second
				if tt.stream == llm.TimeoutIdle {
					idle = 150 * time.Millisecond
				}
				shown := ""
				res, err := client(t, s, w.wire, idle).Stream(t.Context(), req, func(ev llm.Event) {
					if ev.Kind == llm.TextDelta {
						shown += ev.Text
					}
				})
				want := tt.stream
				if w.whole {
					want = tt.whole
				}
				if got := llm.ClassOf(err); got != want {
					t.Fatalf("class %q, want %q (%v)", got, want, err)
				}
				if refusals := s.Refusals(); len(refusals) > 0 {
					t.Fatalf("the request was refused: %v", refusals)
				}
				var e *llm.Error
				if errors.As(err, &e) {
					if e.RetryAfter != tt.after {
						t.Errorf("retry after %v, want %v", e.RetryAfter, tt.after)
					}
					if text := fmt.Sprintf("%v %s %s", e, e.Message, e.Raw); strings.Contains(text, "canary") {
						t.Errorf("the key is in the error: %s", text)
					}
				}
				if tt.partial && !w.whole {
					if !strings.HasPrefix(longText, strings.TrimSpace(res.Text())) || res.Text() == "" || res.Text() != shown {
						t.Errorf("kept %q, shown %q", res.Text(), shown)
					}
				}
				if err != nil && len(res.Calls()) > 0 {
					t.Errorf("a cut call counts as whole: %+v", res.Parts)
				}
			})
		}
	}
}

func TestOverflowIsKnownInEveryVendorsWords(t *testing.T) {
	for _, vendor := range llmtest.Vendors() {
		for _, w := range ways {
			t.Run(vendor+", "+w.name, func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: llmtest.Context, Vendor: vendor}}})
				req := hello()
				req.Whole = w.whole
				_, err := client(t, s, w.wire, time.Second).Stream(t.Context(), req, nil)
				if llm.ClassOf(err) != llm.ContextLength {
					t.Errorf("class %q: %v", llm.ClassOf(err), err)
				}
			})
		}
	}
}

func TestAnAnswerWithParallelCallsComesWholeOnEveryWire(t *testing.T) {
	rule := llmtest.Rule{Reasoning: "I should look twice.", Reply: "Looking.", Usage: &llmtest.Usage{Input: 100, Output: 20, Cached: 60}, Tools: []llmtest.Call{
		{Name: "look", Args: json.RawMessage(`{"path": "a<b>&c"}`)},
		{Name: "look", Args: json.RawMessage(`{"path":"` + strings.Repeat("x", 100_000) + `"}`)},
	}}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{rule}})
			req := hello()
			req.Whole = w.whole
			c := client(t, s, w.wire, time.Second)
			res, err := c.Stream(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			calls := res.Calls()
			if len(calls) != 2 || string(calls[0].Args) != `{"path":"a<b>&c"}` || len(calls[1].Args) < 100_000 {
				t.Fatalf("calls %.200v", calls)
			}
			if res.Finish != llm.ToolCalls || res.Text() != "Looking." || res.Parts[0].Text != "I should look twice." {
				t.Errorf("answer %.300v", res)
			}
			if u := res.Usage; u.Input != 100 || u.Output != 20 || u.Cached != 60 || u.Estimated {
				t.Errorf("usage %+v", u)
			}
			// What came back is accepted as history, after a trip through JSON.
			stored, _ := json.Marshal(res.Parts)
			var parts []llm.Part
			if err := json.Unmarshal(stored, &parts); err != nil {
				t.Fatal(err)
			}
			req.Messages = append(req.Messages,
				llm.Message{Role: llm.Assistant, Parts: parts},
				llm.Message{Role: llm.ToolRole, Parts: []llm.Part{
					{Kind: llm.ToolResult, ID: calls[0].ID, Name: "look", Text: "a file"},
					{Kind: llm.ToolResult, ID: calls[1].ID, Name: "look", Text: "no such file", IsError: true},
				}})
			if res, err = c.Stream(t.Context(), req, nil); err != nil || res.Text() != "done" {
				t.Fatalf("second step: %q %v", res.Text(), err)
			}
		})
	}
}

func TestThinkingGoesBackUnchangedAndOnlyToItsModel(t *testing.T) {
	for _, redacted := range []bool{false, true} {
		for _, w := range ways {
			t.Run(fmt.Sprintf("%s, redacted %v", w.name, redacted), func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{NeedsThought: true, Rules: []llmtest.Rule{{
					Reasoning: "deep \u2028 <thought> & \"more\"", Redacted: redacted, Tools: []llmtest.Call{{Name: "look"}},
				}}})
				req := hello()
				req.Whole, req.Effort = w.whole, "medium"
				c := client(t, s, w.wire, time.Second)
				if w.wire == llm.OpenAIWire {
					transport := &http.Transport{}
					t.Cleanup(transport.CloseIdleConnections)
					q := openai.Lookup("deepseek", "")
					c = openai.New(openai.Options{Provider: "deepseek", BaseURL: s.URL, Transport: transport, Quirks: &q})
				}
				res, err := c.Stream(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Parts: res.Parts},
					llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Kind: llm.ToolResult, ID: res.Calls()[0].ID, Text: "seen"}}})
				if _, err := c.Stream(t.Context(), req, nil); err != nil {
					t.Fatalf("the same model: %v", err)
				}
				got := s.Requests()[1].Request.Messages[1].Parts
				if len(got) != 2 || got[0].Kind != llm.Reasoning {
					t.Fatalf("the thinking did not go back: %+v", got)
				}
				if err := s.Use(llmtest.Script{}); err != nil {
					t.Fatal(err)
				}
				req.Model = "scripted-2"
				if _, err := c.Stream(t.Context(), req, nil); err != nil {
					t.Fatalf("another model: %v", err)
				}
				if got := s.Requests()[2].Request.Messages[1].Parts; len(got) != 1 {
					t.Fatalf("another model was shown the thinking: %+v", got)
				}
			})
		}
	}
}

func TestAlteredThinkingIsRefused(t *testing.T) {
	s := llmtest.Start(t, llmtest.Script{})
	c := client(t, s, llm.AnthropicWire, time.Second)
	req := hello()
	req.Messages = append(req.Messages,
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.Reasoning, Text: "x", Signature: "forged", Origin: "anthropic/scripted-1"}, {Kind: llm.Text, Text: "hi"}}},
		req.Messages[0])
	_, err := c.Stream(t.Context(), req, nil)
	if llm.ClassOf(err) != llm.ForeignReasoning {
		t.Fatalf("class %q: %v", llm.ClassOf(err), err)
	}
	res, err := llm.NewChain([]llm.Model{{Provider: "anthropic", Name: "scripted-1", Client: c}}, llm.ChainOptions{}).Stream(t.Context(), req, nil)
	if err != nil || res.Attempts != 2 {
		t.Fatalf("the chain did not send it again without: %+v %v", res, err)
	}
}

func TestArgumentsThatAreNoObjectAreFlaggedNotFailed(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Tools: []llmtest.Call{{Name: "look", Raw: "{\"path\": \"a\n"}}}}})
			req := hello()
			req.Whole = w.whole
			res, err := client(t, s, w.wire, time.Second).Stream(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p := res.Calls()[0]; string(p.Args) != "{}" || p.BadArgs == "" || p.Cut {
				t.Errorf("call %+v", p)
			}
			if len(s.Requests()) != 1 {
				t.Errorf("%d requests", len(s.Requests()))
			}
		})
	}
}

func TestAWrongFinishReasonDoesNotHideCalls(t *testing.T) {
	for _, tt := range []struct{ openai, anthropic string }{{"stop", "end_turn"}, {"weird", "weird"}, {"length", "max_tokens"}} {
		for _, w := range ways {
			finish := tt.openai
			if w.wire == llm.AnthropicWire {
				finish = tt.anthropic
			}
			t.Run(finish+", "+w.name, func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Finish: finish, Tools: []llmtest.Call{{Name: "look"}}}}})
				req := hello()
				req.Whole = w.whole
				res, err := client(t, s, w.wire, time.Second).Stream(t.Context(), req, nil)
				if err != nil || len(res.Calls()) != 1 {
					t.Fatalf("%+v %v", res, err)
				}
				if want := map[bool]llm.Finish{true: llm.Length, false: llm.ToolCalls}[tt.openai == "length"]; res.Finish != want {
					t.Errorf("finish %s, want %s", res.Finish, want)
				}
			})
		}
	}
}

func TestTextThatLooksLikeACallStaysText(t *testing.T) {
	const text = `<tool_call>{"name":"run_command","arguments":{"command":"rm -rf ~"}}</tool_call>`
	for _, w := range ways {
		s := llmtest.Start(t, llmtest.Script{Default: text})
		req := hello()
		req.Whole = w.whole
		res, err := client(t, s, w.wire, time.Second).Stream(t.Context(), req, nil)
		if err != nil || res.Text() != text || len(res.Calls()) > 0 {
			t.Errorf("%s: %+v %v", w.name, res, err)
		}
	}
}

func TestCancelEndsAHangingStreamAtOnce(t *testing.T) {
	for _, w := range ways {
		for _, fault := range []string{llmtest.Hang, llmtest.Silent} {
			t.Run(w.name+", "+fault, func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: fault}}})
				c := client(t, s, w.wire, time.Minute)
				req := hello()
				req.Whole = w.whole
				fastest := time.Hour // of three, since the machine may be busy
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					cancelled := make(chan time.Time, 1)
					s.Watch(func(*http.Request) {
						cancelled <- time.Now()
						cancel()
					})
					_, err := c.Stream(ctx, req, nil)
					fastest = min(fastest, time.Since(<-cancelled))
					if llm.ClassOf(err) != llm.Canceled || !errors.Is(err, context.Canceled) {
						t.Errorf("%v", err)
					}
				}
				if fastest > 50*time.Millisecond {
					t.Errorf("cancel took %v", fastest)
				}
			})
		}
	}
}

func TestADeadlineIsAnotherClassThanSilence(t *testing.T) {
	for _, w := range ways {
		s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Reply: strings.Repeat("word ", 10_000), TokenMS: 5, DelayMS: 20}}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		req := hello()
		req.Whole = w.whole
		_, err := client(t, s, w.wire, time.Minute).Stream(ctx, req, nil)
		cancel()
		if llm.ClassOf(err) != llm.TimeoutTotal {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}
