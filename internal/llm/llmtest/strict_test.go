package llmtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestTheServerIsAsStrictAsTheStrictestProvider(t *testing.T) {
	s := llmtest.Start(t, llmtest.Script{MaxBytes: 20_000, Window: 4000, Vendor: "gemini"})
	user := `{"role":"user","content":"hi"}`
	open := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	claude := func(messages string) string { return `{"model":"m","max_tokens":10,"messages":[` + messages + `]}` }
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]}`
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}}]}`
	for _, tt := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"a question", "/v1/chat/completions", open(user), 200, "ok"},
		{"a call and its result", "/v1/chat/completions", open(user + "," + call + `,{"role":"tool","tool_call_id":"a","content":"x"}`), 200, "done"},
		{"an orphan call", "/v1/chat/completions", open(user + "," + call + "," + user), 400, "has no result"},
		{"an orphan result", "/v1/chat/completions", open(user + `,{"role":"tool","tool_call_id":"a","content":"x"}`), 400, "answers no call"},
		{"users side by side", "/v1/chat/completions", open(user + "," + user), 400, "alternate"},
		{"a late system message", "/v1/chat/completions", open(user + `,{"role":"system","content":"x"}`), 400, "beginning"},
		{"no content at all", "/v1/chat/completions", open(user + `,{"role":"assistant","content":null},` + user), 400, "null"},
		{"bad arguments", "/v1/chat/completions", open(user + "," + strings.Replace(call, `"{}"`, `"{"`, 1) + `,{"role":"tool","tool_call_id":"a","content":"x"}`), 400, "not a JSON object"},
		{"invented reasoning", "/v1/chat/completions", open(user + `,{"role":"assistant","content":"x","reasoning_content":"forged"},` + user), 400, "altered"},
		{"no JSON", "/v1/chat/completions", `{"model":`, 400, "cannot be read"},
		{"options without a stream", "/v1/chat/completions", `{"model":"m","stream_options":{"include_usage":true},"messages":[` + user + `]}`, 400, "stream_options"},
		{"too many bytes", "/v1/chat/completions", open(`{"role":"user","content":"` + strings.Repeat("x", 30_000) + `"}`), 413, "maximum size"},
		{"too many tokens", "/v1/chat/completions", open(`{"role":"user","content":"` + strings.Repeat("1", 15_000) + `"}`), 400, "input token count"},
		{"a question", "/v1/messages", claude(user), 200, "ok"},
		{"no limit", "/v1/messages", open(user), 400, "max_tokens"},
		{"an orphan use", "/v1/messages", claude(user + "," + use + "," + user), 400, "has no result"},
		{"text before results", "/v1/messages", claude(user + "," + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":"x"}]}`), 400, "come first"},
		{"a forged signature", "/v1/messages", claude(user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"},{"type":"text","text":"z"}]},` + user), 400, "Invalid `signature`"},
		{"forged redacted thinking", "/v1/messages", claude(user + `,{"role":"assistant","content":[{"type":"redacted_thinking","data":"y"},{"type":"text","text":"z"}]},` + user), 400, "cannot be modified"},
		{"roles side by side", "/v1/messages", claude(user + "," + user), 400, "alternate"},
		{"an id with a dot", "/v1/messages", claude(user + "," + strings.Replace(use, `"a"`, `"a.b"`, 1) + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a.b"}]}`), 400, "pattern"},
		{"five marks", "/v1/messages", claude(`{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 5), ",") + `]}`), 400, "maximum of 4"},
		{"an empty block", "/v1/messages", claude(`{"role":"user","content":[{"type":"text","text":""}]}`), 400, "non-empty"},
	} {
		status, body := post(t, s.URL+tt.path, tt.body)
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s at %s: %d %s", tt.name, tt.path, status, body)
		}
	}
}

func TestRulesAreChosenByWhatWasSaidAndDone(t *testing.T) {
	s := llmtest.Start(t, llmtest.Script{
		Rules: []llmtest.Rule{
			{Call: 4, Reply: "the fourth"},
			{Match: "once", Times: 1, Reply: "first time"},
			{Match: "^do", Tools: []llmtest.Call{{Name: "look"}}},
			{After: "secret (\\d+)", Reply: "it said {{tool}} to {{user}}"},
			{Model: "^big$", Reply: "I am big"},
			{Match: "ask code", Do: func(n int, req llm.Request) llmtest.Rule {
				return llmtest.Rule{Reply: strings.ToUpper(llm.TextOf(req.Messages[0].Parts))}
			}},
		},
		Default: "nothing", AfterDefault: "nothing behind",
	})
	c := client(t, s, llm.OpenAIWire, time.Second)
	ask := func(model, said, tool string) string {
		t.Helper()
		req := hello()
		req.Model, req.Messages[0].Parts[0].Text = model, said
		if tool != "" {
			req.Messages = append(req.Messages,
				llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.ToolCall, ID: "a", Name: "look", Args: json.RawMessage(`{}`)}}},
				llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Kind: llm.ToolResult, ID: "a", Text: tool}}})
		}
		res, err := c.Stream(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if calls := res.Calls(); len(calls) > 0 {
			return "calls " + calls[0].Name
		}
		return res.Text()
	}
	for _, tt := range []struct{ model, said, tool, want string }{
		{"m", "once", "", "first time"},
		{"m", "once", "", "nothing"},
		{"m", "do it", "", "calls look"},
		{"m", "do it", "", "the fourth"},
		{"m", "do it", "secret 12", "it said secret 12 to do it"},
		{"m", "do it", "other", "nothing behind"},
		{"big", "x", "", "I am big"},
		{"m", "ask code", "", "ASK CODE"},
	} {
		if got := ask(tt.model, tt.said, tt.tool); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestAMisspeltScriptIsRefused(t *testing.T) {
	for name, body := range map[string]string{"a name": `{"rules":[{"mach":"x"}]}`, "a pattern": `{"rules":[{"match":"("}]}`, "no JSON": `{`} {
		path := filepath.Join(t.TempDir(), "script.json")
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := llmtest.Load(path); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}

func TestTheServerRunsAsAProgramOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "scriptedmodel")
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/scriptedmodel").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script, log := filepath.Join(dir, "script.json"), filepath.Join(dir, "log.jsonl")
	if err := os.WriteFile(script, []byte(`{"rules":[{"match":"hello","reply":"from outside"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-script", script, "-log", log)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, &llmtest.Running{URL: strings.TrimSpace(url)}, llm.AnthropicWire, 5*time.Second)
	if res, err := c.Stream(t.Context(), hello(), nil); err != nil || res.Text() != "from outside" {
		t.Fatalf("%q %v", res.Text(), err)
	}
	b, err := os.ReadFile(log)
	var rec llmtest.Recorded
	if err != nil || json.Unmarshal(bytes.TrimSpace(b), &rec) != nil || rec.N != 1 || rec.Path != "/v1/messages" || rec.Bytes != len(rec.Body) {
		t.Errorf("%v %s", err, b)
	}
	if bytes.Contains(b, []byte("canary")) {
		t.Error("the key is in the log")
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, fault := range []string{"", "500", llmtest.Silent, llmtest.ResetMid, llmtest.CutText, llmtest.Reset, llmtest.ErrorEvent} {
		for _, w := range ways {
			t.Run(fault+" "+w.name, func(t *testing.T) {
				s := llmtest.Start(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: fault, Reply: longText}}})
				req := hello()
				req.Whole = w.whole
				_, _ = client(t, s, w.wire, 50*time.Millisecond).Stream(t.Context(), req, nil)
			})
		}
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	for _, w := range ways {
		s := llmtest.Start(t, llmtest.Script{Default: longText})
		c := client(t, s, w.wire, time.Second)
		req := hello()
		req.Whole = w.whole
		addrs := map[string]bool{}
		s.Watch(func(r *http.Request) { addrs[r.RemoteAddr] = true })
		for range 5 {
			if _, err := c.Stream(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(addrs) != 1 {
			t.Errorf("%s: five requests took %d connections", w.name, len(addrs))
		}
	}
}
