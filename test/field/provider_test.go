//go:build unix

package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// whole puts a server before the model's that answers in one body whatever
// was asked for, as some do.
func (h *house) whole(wire string) *house {
	h.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		delete(body, "stream")
		delete(body, "stream_options")
		b, err := json.Marshal(body)
		if err != nil {
			panic(err) // raw JSON that was just read
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		h.model.ServeHTTP(w, r)
	}))
	h.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	h.configure(wire, map[string]string{"openai": srv.URL + "/v1", "anthropic": srv.URL}[wire])
	return h
}

// ways are how a provider answers: wire, and streaming or not.
func ways(t *testing.T, each func(t *testing.T, set func(h *house) *house)) {
	for _, wire := range wires {
		t.Run(wire+" streaming", func(t *testing.T) {
			t.Parallel()
			each(t, func(h *house) *house { return h.wire(wire) })
		})
		t.Run(wire+" whole", func(t *testing.T) {
			t.Parallel()
			each(t, func(h *house) *house { return h.whole(wire) })
		})
	}
}

// Every shape of a provider's failure ends in a sentence a person can read and
// in the right state of the run.
func TestEveryProviderErrorEndsInAPlainSentence(t *testing.T) {
	t.Parallel()
	const kept = "Your message is kept; I answer when it is back."
	list := call("list_dir", map[string]string{"path": "."})
	for _, tt := range []struct {
		name  string
		rule  llmtest.Rule
		state string // of the run
		code  string
		says  []string
	}{
		{"a refused key", llmtest.Rule{Fault: "401", Message: "Incorrect API key provided: sk-canary0123456789abcdef."}, "dead", "provider_auth",
			[]string{"Incorrect API key provided", "Check the key", "mercury runs replay"}},
		{"a forbidden model", llmtest.Rule{Fault: "403", Message: "Your plan has no access."}, "dead", "provider_auth", []string{"Your plan has no access.", "mercury runs replay"}},
		{"no credit", llmtest.Rule{Fault: llmtest.QuotaUsed}, "dead", "provider_quota", []string{"exceeded your current quota", "top it up"}},
		{"payment required", llmtest.Rule{Fault: "402", Message: "Insufficient Balance"}, "dead", "provider_quota", []string{"Insufficient Balance", "top it up"}},
		{"an unknown model", llmtest.Rule{Fault: "404", Code: "model_not_found", Message: "The model does not exist."}, "dead", "provider_unknown_model", []string{"The model does not exist.", "Choose a model"}},
		{"a bad request", llmtest.Rule{Fault: "400", Message: "Unsupported thing."}, "dead", "provider_bad_request", []string{"Unsupported thing.", "/new"}},
		{"a request that is too long", llmtest.Rule{Fault: llmtest.Context}, "dead", "provider_context_length", []string{"does not fit into the model's window"}},
		{"a content filter", llmtest.Rule{Fault: llmtest.ContentFilter}, "failed", "content_filter", []string{"declined to answer (content filter)"}},
		{"empty answers", llmtest.Rule{Fault: llmtest.Empty}, "failed", "empty_answer", []string{"empty answer, twice"}},
		{"thinking only", llmtest.Rule{Fault: llmtest.ReasoningOnly}, "failed", "empty_answer", []string{"empty answer, twice"}},
		{"a rate limit", llmtest.Rule{Fault: "429"}, "queued", "provider_unreachable", []string{"it asks for a pause", kept}},
		{"a long rate limit", llmtest.Rule{Fault: "429", RetryAfter: 900}, "queued", "provider_unreachable", []string{"it asks for a pause", kept}},
		{"a server error", llmtest.Rule{Fault: "500", Message: "Internal oops"}, "queued", "provider_unreachable", []string{"Internal oops", kept}},
		{"a bad gateway", llmtest.Rule{Fault: "502"}, "queued", "provider_unreachable", []string{kept}},
		{"unavailable", llmtest.Rule{Fault: "503"}, "queued", "provider_unreachable", []string{kept}},
		{"overload", llmtest.Rule{Fault: "529", Message: "Overloaded"}, "queued", "provider_unreachable", []string{"Overloaded", kept}},
		{"a reset before the headers", llmtest.Rule{Fault: llmtest.Reset}, "queued", "provider_unreachable", []string{kept}},
		{"a reset in the middle", llmtest.Rule{Fault: llmtest.ResetMid, Reply: "half a text"}, "queued", "provider_unreachable", []string{"the connection broke off", kept}},
		{"a text cut short", llmtest.Rule{Fault: llmtest.CutText, Reply: "half a text"}, "queued", "provider_unreachable", []string{kept}},
		{"arguments cut short", llmtest.Rule{Fault: llmtest.CutArgs, Tools: []llmtest.Call{list}}, "queued", "provider_unreachable", []string{kept}},
		{"no end marker", llmtest.Rule{Fault: llmtest.NoFinish, Reply: "half a text"}, "queued", "provider_unreachable", []string{kept}},
		{"an error inside the answer", llmtest.Rule{Fault: llmtest.ErrorEvent, Reply: "half a text"}, "queued", "provider_unreachable", []string{kept}},
		{"what is no JSON", llmtest.Rule{Fault: llmtest.BadJSON, Reply: "half a text"}, "queued", "provider_unreachable", []string{"its answer could not be read", kept}},
		{"a web page", llmtest.Rule{Fault: llmtest.Page}, "queued", "provider_unreachable", []string{"its answer could not be read", kept}},
		{"silence", llmtest.Rule{Fault: llmtest.Hang}, "queued", "provider_unreachable", []string{"no answer in time", kept}},
		{"silence behind the headers", llmtest.Rule{Fault: llmtest.Silent}, "queued", "provider_unreachable", []string{"no answer in time", kept}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ways(t, func(t *testing.T, set func(*house) *house) {
				tt.rule.Any = true
				h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{tt.rule}})
				if strings.HasPrefix(tt.name, "silence") {
					h.silence = "500ms"
				}
				set(h).start()
				h.bridge.Push("room", "hello")
				said := h.showed("room", 1)
				for _, words := range tt.says {
					if !strings.Contains(said[0], words) {
						t.Errorf("said %q, want %q in it", said[0], words)
					}
				}
				if strings.Contains(said[0], "canary") {
					t.Errorf("the key was shown: %q", said[0])
				}
				plain(t, said[0])
				var run api.Run
				h.until("the run to be "+tt.state, func() bool {
					runs := h.runs("relay/room")
					if len(runs) == 1 {
						run = runs[0]
					}
					return run.State == tt.state
				})
				if run.Code != tt.code {
					t.Errorf("code %q, want %q", run.Code, tt.code)
				}
				if got := h.shown("room"); len(got) != 1 {
					t.Errorf("told %d times: %q", len(got), got)
				}
				h.sound()
			})
		})
	}
}

// plain fails the test if a sentence holds what is for a log.
func plain(t *testing.T, said string) {
	t.Helper()
	for _, word := range []string{"goroutine", "0x", "%!", "<nil>", "context deadline", "EOF", "dial tcp", "llm:", "<!doctype", "json:", "\x00"} {
		if strings.Contains(said, word) {
			t.Errorf("a person was told %q, with %q in it", said, word)
		}
	}
}

func TestF91_ArgumentsThatAreNoJSONGoBackToTheModelAndNotToTheFallback(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, set func(*house) *house) {
		h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
			{Match: "go", Tools: []llmtest.Call{{Name: "run_command", Raw: `{"command": "ls`}}},
			{After: ".", Reply: "I see: {{tool}}"},
		}})
		h.more = "fallbacks: [scripted/two]\n"
		set(h).start()
		h.say("talk", "go", "follow-up")
		if run := h.quiet("local/talk", 1)[0]; run.State != "done" {
			t.Errorf("run is %s: %s", run.State, run.Error)
		}
		for _, r := range h.model.Requests() {
			if r.Request.Model != "one" {
				t.Errorf("request %d went to %s", r.N, r.Request.Model)
			}
		}
		if n := len(h.model.Requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		h.sound()
	})
}

func TestF92_ThinkingWithoutAnAnswerIsNudgedOnceAndThenSaid(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, set func(*house) *house) {
		h := set(newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
			say("more", "More."),
			{Match: "go", Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."})}, Times: 1},
			{Any: true, Fault: llmtest.ReasoningOnly},
		}})).start()
		h.say("talk", "go", "follow-up")
		run := h.quiet("local/talk", 1)[0]
		if run.State != "failed" || run.Code != "empty_answer" || !strings.Contains(run.Error, "list_dir") {
			t.Errorf("run is %s (%s): %q", run.State, run.Code, run.Error)
		}
		nudges := 0
		for _, e := range h.entries("local/talk") {
			if strings.Contains(e.Text, "Your last answer was empty") {
				nudges++
			}
		}
		if nudges != 1 {
			t.Errorf("nudged %d times", nudges)
		}
		h.say("talk", "more", "follow-up")
		if runs := h.quiet("local/talk", 2); runs[1].State != "done" {
			t.Errorf("the turn after it is %s: %s", runs[1].State, runs[1].Error)
		}
		h.sound()
	})
}

func TestF94_AnAnswerInNoUsualPlaceIsFoundOrItsLackIsSaid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, message, says string }{
		{"content as an empty list", `{"role":"assistant","content":[]}`, "empty answer"},
		{"content as a list of parts", `{"role":"assistant","content":[{"type":"text","text":"In parts."}]}`, "In parts."},
		{"text in a field for reasoning alone", `{"role":"assistant","content":null,"reasoning":"Only thought."}`, "empty answer"},
		{"no content at all", `{"role":"assistant"}`, "empty answer"},
		{"a refusal", `{"role":"assistant","content":null,"refusal":"I will not."}`, "I will not."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"one","choices":[{"index":0,"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, tt.message)
			}))
			t.Cleanup(srv.Close)
			h.configure("openai", srv.URL+"/v1")
			h.start()
			h.bridge.Push("room", "hello")
			if said := h.showed("room", 1)[0]; !strings.Contains(said, tt.says) {
				t.Errorf("said %q, want %q in it", said, tt.says)
			}
		})
	}
}

func TestF95_AnEmptyAnswerAfterToolsClosesTheTurnWithWords(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."}), call("read_file", map[string]string{"path": "a"}), call("find_files", map[string]string{"pattern": "*"})}, Times: 1},
		{Any: true, Fault: llmtest.Empty},
	}}).start()
	h.bridge.Push("room", "go")
	said := h.showed("room", 1)[0]
	if !strings.Contains(said, "empty answer") || !strings.Contains(said, "list_dir") {
		t.Errorf("said %q", said)
	}
	if run := h.quiet("relay/room", 1)[0]; run.State != "failed" {
		t.Errorf("run is %s", run.State)
	}
	if n := len(h.model.Requests()); n > 6 {
		t.Errorf("%d requests", n)
	}
	h.sound()
}

func TestF97_ACutConnectionIsTriedAgainAndBuriesNothing(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, set func(*house) *house) {
		h := set(newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: llmtest.ResetMid, Reply: "half a text", Times: 2}}, Default: "Whole."})).start()
		h.bridge.Push("room", "hello")
		h.showed("room", 1)
		if run := h.quiet("relay/room", 1)[0]; run.State != "done" || run.Attempts != 0 {
			t.Errorf("run is %s after %d attempts", run.State, run.Attempts)
		}
		if got := h.shown("room"); !slices.Equal(got, []string{"Whole."}) {
			t.Errorf("shown: %q", got)
		}
	})
}

func TestF52_TheSameCallForEverIsStopped(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."})}}}}).start()
	h.bridge.Push("room", "go")
	if said := h.showed("room", 1)[0]; !strings.Contains(said, "I called list_dir 3 times") {
		t.Errorf("said %q", said)
	}
	if n := len(h.model.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestF55_TheSameFailingCallIsStoppedWithItsReason(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Tools: []llmtest.Call{{Name: "read_file", Args: json.RawMessage(`{"pth":"a"}`)}}}}}).start()
	h.bridge.Push("room", "go")
	if said := h.showed("room", 1)[0]; !strings.Contains(said, "it failed each time") || !strings.Contains(said, "path") {
		t.Errorf("said %q", said)
	}
	if n := len(h.model.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestF61_TheOutputAskedForFitsBesideTheInput(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, set func(*house) *house) {
		h := newHouse(t, llmtest.Script{})
		set(h)
		b, err := os.ReadFile(h.home.Config())
		must(t, err)
		h.write(h.home.Config(), strings.Replace(string(b), `api_key: "k"`, `api_key: "k", context_window: 32768, max_output: 32768`, 1))
		h.start()
		h.say("talk", strings.Repeat("A sentence of some length. ", 3000), "follow-up")
		if run := h.quiet("local/talk", 1)[0]; run.State != "done" {
			t.Fatalf("run is %s: %s", run.State, run.Error)
		}
		for _, r := range h.model.Requests() {
			var body struct {
				Max       int `json:"max_tokens"`
				Completed int `json:"max_completion_tokens"`
			}
			must(t, json.Unmarshal(r.Body, &body))
			if out := max(body.Max, body.Completed); out+r.Bytes/5 > 32768 {
				t.Errorf("asks for %d tokens beside %d bytes", out, r.Bytes)
			}
		}
	})
}

func TestF64_ARefusedKeyIsSaidOnceAndNotKnockedAt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Fault: "401", Message: "No such key."}}}).start()
	h.bridge.Push("room", "hello")
	run := h.quiet("relay/room", 1)[0]
	said := h.showed("room", 1)
	if len(said) != 1 || run.State != "dead" || len(h.model.Requests()) != 1 {
		t.Errorf("said %q, run %s, %d requests", said, run.State, len(h.model.Requests()))
	}
	// The key is mended; the old question is answered without being put again.
	must(t, h.model.Use(llmtest.Script{Default: "So: {{user}}"}))
	h.stop()
	h.start()
	if code, out := h.run("runs", "replay", run.ID); code != 0 {
		t.Fatalf("runs replay left with %d: %s", code, out)
	}
	if got := h.showed("room", 2); !strings.HasPrefix(got[1], "So: hello") {
		t.Errorf("shown: %q", got)
	}
	if got := h.texts("relay/room", mercury.UserEntry); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("in the conversation: %q", got)
	}
	h.sound()
}

func TestAFallbackThatAnswersSaysSo(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, set func(*house) *house) {
		h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Model: "^one$", Any: true, Fault: "503"}}, Default: "From two."})
		h.more = "fallbacks: [scripted/two]\n"
		set(h).start()
		for range 2 {
			h.showedLast("room", "hello", "From two.")
		}
		h.quiet("relay/room", 2)
		told := 0
		for _, text := range h.shown("room") {
			if strings.Contains(text, "scripted/two answered instead") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times: %q", told, h.shown("room"))
		}
		h.sound()
	})
}
