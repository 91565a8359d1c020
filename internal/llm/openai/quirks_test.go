package openai

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded answers every request with one body and keeps what was asked.
type recorded struct {
	status int
	body   string
	asked  []*http.Request
	bodies []string
}

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(req.Body)
	r.asked, r.bodies = append(r.asked, req), append(r.bodies, string(b))
	status := r.status
	if status == 0 {
		status = 200
	}
	// One byte at a time, so that no reader relies on where events are cut.
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(iotestOneByte{strings.NewReader(r.body)})}, nil
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.r.Read(p[:1])
}

func question(model string) llm.Request {
	return llm.Request{
		Model: model, System: []string{"Be brief.", "Be kind."}, Tail: "It is noon.", MaxTokens: 500, Effort: "low", Key: "cv_1",
		Tools:    []llm.Tool{{Name: "list_dir", Description: "lists a folder", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}},
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "What is in this folder?"}}}},
	}
}

func TestEachProvidersAnswerIsReadAndSentBackInItsOwnWay(t *testing.T) {
	type want struct {
		text, reasoning string
		calls           []string // name and arguments
		usage           llm.Usage
		finish          llm.Finish
		url             string
		key             string // header that carries the key
	}
	list := []string{`list_dir {"path":"."}`}
	for name, w := range map[string]want{
		"openai": {"Let me look.", "", []string{list[0], `read_file {"path":"notes.txt"}`}, llm.Usage{Input: 1200, Output: 48, Cached: 1024, Reasoning: 16}, llm.ToolCalls,
			"https://api.openai.com/v1/chat/completions", "Authorization"},
		"azure": {"Hello", "", list, llm.Usage{Input: 300, Output: 9}, llm.ToolCalls,
			"https://corp.openai.azure.com/openai/deployments/the-model/chat/completions?api-version=2024-10-21", "Api-Key"},
		"deepseek": {"Looking.", "They want a listing — 看看.", list, llm.Usage{Input: 800, Output: 60, Cached: 640, Reasoning: 31}, llm.ToolCalls,
			"https://api.deepseek.com/v1/chat/completions", "Authorization"},
		"groq": {"", "Need the listing. Call it.", list, llm.Usage{Input: 210, Output: 33, Reasoning: 12}, llm.ToolCalls,
			"https://api.groq.com/openai/v1/chat/completions", "Authorization"},
		"openrouter": {"", "I should list <files>.", list, llm.Usage{Input: 950, Output: 77, Cached: 900, CacheWrite: 20, Reasoning: 40}, llm.ToolCalls,
			"https://openrouter.ai/api/v1/chat/completions", "Authorization"},
		"xai": {"", "Thinking hard.", list, llm.Usage{Input: 400, Output: 320, Cached: 384, Reasoning: 300}, llm.ToolCalls,
			"https://api.x.ai/v1/chat/completions", "Authorization"},
		"mistral": {"Ok.", "A folder, so list.", list, llm.Usage{Input: 150, Output: 22}, llm.ToolCalls,
			"https://api.mistral.ai/v1/chat/completions", "Authorization"},
		"together": {"It is a <b>folder</b>.", "\nHm, a folder.", nil, llm.Usage{Input: 90, Output: 30, Cached: 64}, llm.Stop,
			"https://api.together.xyz/v1/chat/completions", "Authorization"},
		"zai": {"\n好的", "用户想看文件", list, llm.Usage{Input: 170, Output: 41, Cached: 43}, llm.ToolCalls,
			"https://api.z.ai/api/paas/v4/chat/completions", "Authorization"},
		"minimax": {"I will look.", "The user wants a list.", list, llm.Usage{Input: 260, Output: 38, Reasoning: 9}, llm.ToolCalls,
			"https://api.minimax.io/v1/chat/completions", "Authorization"},
		"ollama": {"", "Two calls.", []string{list[0], `read_file {"path":"a"}`}, llm.Usage{Input: 120, Output: 25}, llm.ToolCalls,
			"http://127.0.0.1:11434/v1/chat/completions", "Authorization"},
		"lmstudio": {"Go", "plan", list, llm.Usage{Estimated: true}, llm.ToolCalls,
			"http://127.0.0.1:1234/v1/chat/completions", "Authorization"},
		"litellm": {"Sure.", "Behind the proxy.", list, llm.Usage{Input: 500, Output: 30, Cached: 450, CacheWrite: 25}, llm.ToolCalls,
			"http://127.0.0.1:4000/v1/chat/completions", "Authorization"},
		"atomic": {"On it.", "", list, llm.Usage{Input: 40, Output: 12}, llm.ToolCalls,
			"http://127.0.0.1:1337/v1/chat/completions", "Authorization"},
		"gemini": {"Checking.", "", list, llm.Usage{Input: 80, Output: 60, Reasoning: 45}, llm.ToolCalls,
			"https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", "Authorization"},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", name, "stream.txt"))
			if err != nil {
				t.Fatal(err)
			}
			server := &recorded{body: string(body)}
			base := ""
			if name == "azure" {
				base = "https://corp.openai.azure.com"
			}
			model := "the-model"
			if name == "openrouter" {
				model = "anthropic/the-model"
			}
			c := New(Options{Provider: name, BaseURL: base, Key: "the-key", Transport: server})
			req := question(model)
			var text, reasoning string
			res, err := c.Stream(t.Context(), req, func(ev llm.Event) {
				switch ev.Kind {
				case llm.TextDelta:
					text += ev.Text
				case llm.ReasoningDelta:
					reasoning += ev.Text
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if res.Text() != w.text || text != w.text {
				t.Errorf("text %q, shown %q, want %q", res.Text(), text, w.text)
			}
			kept := ""
			if len(res.Parts) > 0 && res.Parts[0].Kind == llm.Reasoning {
				kept = res.Parts[0].Text
			}
			if kept != w.reasoning || reasoning != w.reasoning {
				t.Errorf("reasoning %q, shown %q, want %q", kept, reasoning, w.reasoning)
			}
			var calls []string
			for _, p := range res.Calls() {
				calls = append(calls, p.Name+" "+string(p.Args))
			}
			if strings.Join(calls, "; ") != strings.Join(w.calls, "; ") {
				t.Errorf("calls %q, want %q", calls, w.calls)
			}
			if w.usage.Estimated {
				if !res.Usage.Estimated || res.Usage.Input < 20 || res.Usage.Output < 2 {
					t.Errorf("usage %+v is no estimate", res.Usage)
				}
			} else if res.Usage != w.usage {
				t.Errorf("usage %+v, want %+v", res.Usage, w.usage)
			}
			if res.Finish != w.finish {
				t.Errorf("finish %q, want %q", res.Finish, w.finish)
			}
			if got := server.asked[0].URL.String(); got != w.url {
				t.Errorf("asked %s, want %s", got, w.url)
			}
			if got := server.asked[0].Header.Get(w.key); !strings.HasSuffix(got, "the-key") {
				t.Errorf("header %s is %q", w.key, got)
			}
			second(t, name, c, server, req, res)
		})
	}
	if n := len(Providers()); n != 15 {
		t.Errorf("%d providers in the table, 15 have a recorded answer here", n)
	}
}

// second sends the step after: the answer, results, and a steering message.
// Its bytes are a golden file, since they are what the quirks are about.
func second(t *testing.T, name string, c *Client, server *recorded, req llm.Request, res llm.Response) {
	t.Helper()
	req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Parts: res.Parts})
	if calls := res.Calls(); len(calls) > 0 {
		results := llm.Message{Role: llm.ToolRole}
		for i, call := range calls {
			p := llm.Part{Kind: llm.ToolResult, ID: call.ID, Name: call.Name, Text: "notes.txt"}
			if i > 0 {
				p.Text, p.IsError = "no such file", true
			}
			results.Parts = append(results.Parts, p)
		}
		req.Messages = append(req.Messages, results)
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "Hurry."}}})
	if err := llm.Validate(req, llm.OpenAIWire); err != nil {
		t.Fatalf("the history breaks a rule: %v", err)
	}
	if _, err := c.Stream(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(server.bodies[1])) {
		t.Fatalf("the request is no JSON: %s", server.bodies[1])
	}
	// The first request's bytes up to its changing end begin the second's.
	stable, _, _ := strings.Cut(server.bodies[0], `{"role":"user"`)
	if !strings.HasPrefix(server.bodies[1], stable) {
		t.Errorf("the prefix changed:\n%s\n%s", server.bodies[0], server.bodies[1])
	}
	got := []byte(strings.ReplaceAll(server.bodies[1], `,{"role"`, ",\n{\"role\"") + "\n")
	path := filepath.Join("testdata", name, "request.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the second request is\n%s\nwant\n%s", got, want)
	}
}

func TestAProviderIsFoundByHostThenByName(t *testing.T) {
	for _, tt := range []struct{ name, base, want string }{
		{"work", "https://api.deepseek.com/v1", "deepseek"},
		{"openai", "https://x.openai.azure.com/openai/v1", "azure"},
		{"mine", "http://localhost:11434/v1", "ollama"},
		{"mine", "http://localhost:9999/v1", "mine"},
		{"Grok", "", "xai"},
		{"z.ai", "", "zai"},
		{"x", "https://evilapi.openai.com.example.org/v1", "x"},
	} {
		if got := Lookup(tt.name, tt.base).Name; got != tt.want {
			t.Errorf("Lookup(%q, %q) = %s, want %s", tt.name, tt.base, got, tt.want)
		}
	}
}

func TestAzuresAddressesAllLeadToTheDeployment(t *testing.T) {
	for _, tt := range []struct{ base, want string }{
		{"https://c.openai.azure.com/", "https://c.openai.azure.com/openai/deployments/gpt%2F5/chat/completions?api-version=2024-10-21"},
		{"https://c.openai.azure.com/openai/deployments/five", "https://c.openai.azure.com/openai/deployments/five/chat/completions?api-version=2024-10-21"},
		{"https://c.openai.azure.com/openai/v1", "https://c.openai.azure.com/openai/v1/chat/completions"},
	} {
		if got := Lookup("azure", tt.base).endpoint(tt.base, "gpt/5"); got != tt.want {
			t.Errorf("%s leads to %s", tt.base, got)
		}
	}
}
