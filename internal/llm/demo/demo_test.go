package demo_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/demo"
	"github.com/mercury-agent/mercury/internal/llm/openai"
)

// start serves the model and returns a real client of it.
func start(t *testing.T, o demo.Options) *openai.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.Serve(ctx, l) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return openai.New(openai.Options{Provider: "demo", BaseURL: "http://" + l.Addr().String() + "/v1", Transport: transport})
}

func tools() []llm.Tool {
	var list []llm.Tool
	for _, name := range []string{"read_file", "write_file", "edit_file", "list_dir", "find_files", "search_text", "run_command", "ask_user"} {
		list = append(list, llm.Tool{Name: name, Description: name, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	return list
}

func TestEachRequestUsesItsToolsAndEndsInAnAnswer(t *testing.T) {
	quick := demo.Options{Pause: time.Microsecond, Slow: time.Microsecond}
	for _, tt := range []struct {
		says    string
		results []string // of the tools, in order
		calls   []string
		answer  string
	}{
		{"what is in this folder?", []string{"notes.txt\nsrc/"}, []string{`list_dir {"path":"."}`}, "notes.txt\nsrc/"},
		{"read notes.txt", []string{"Shopping"}, []string{`read_file {"path":"notes.txt"}`}, "notes.txt says"},
		{"What does docs/a.md say?", []string{"x"}, []string{`read_file {"path":"docs/a.md"}`}, "docs/a.md says"},
		{"fix the typo in notes.txt", []string{demo.Notes, "edited"}, []string{`read_file {"path":"notes.txt"}`, `edit_file {"new_string":"tomatoes","old_string":"tomatos","path":"notes.txt"}`}, "now says “tomatoes”"},
		{"fix the typo in notes.txt.", []string{demo.Notes, "error: denied by the owner"}, []string{`read_file {"path":"notes.txt"}`, `edit_file {"new_string":"tomatoes","old_string":"tomatos","path":"notes.txt"}`}, "I was not allowed to change notes.txt"},
		{`change "red" to "blue green" in colours.txt`, []string{"ok"}, []string{`edit_file {"new_string":"blue green","old_string":"red","path":"colours.txt"}`}, "Done"},
		{"run date", []string{"Tue"}, []string{`run_command {"command":"date","timeout_seconds":60}`}, "Tue"},
		{"remember that the bread is in the oven", []string{"error: no such file", "written"}, []string{`read_file {"path":"notes.md"}`, `write_file {"content":"# Notes\n\n- the bread is in the oven\n","path":"notes.md"}`}, "Noted"},
		{"note: buy milk", []string{"1\t# Notes\n2\t\n3\t- a", "written"}, []string{`read_file {"path":"notes.md"}`, `write_file {"content":"# Notes\n\n- a\n- buy milk\n","path":"notes.md"}`}, "buy milk"},
		{"search for main.go in src", []string{"src/a:1"}, []string{`search_text {"path":"src","pattern":"main\\.go"}`}, "src/a:1"},
		{"ask me something", []string{"tea"}, []string{`ask_user {"choices":["tea","coffee"],"question":"Tea or coffee?"}`}, "You said: tea"},
		{"count slowly to 12", nil, nil, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."},
		{"hello", nil, nil, "Hello!"},
		{"blargh", nil, nil, "I know only a few things"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			c := start(t, quick)
			req := llm.Request{Model: demo.Model, System: []string{"You are Mercury."}, Tail: "It is noon.", Tools: tools(),
				Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: tt.says}}}}}
			var calls []string
			for step := 0; ; step++ {
				if err := llm.Validate(req, llm.OpenAIWire); err != nil {
					t.Fatal(err)
				}
				res, err := c.Stream(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				if step == 0 && !strings.Contains(res.Text(), "demonstration model") {
					t.Errorf("the first answer hides what it is: %q", res.Text())
				}
				if len(res.Calls()) == 0 {
					if !strings.Contains(res.Text(), tt.answer) {
						t.Errorf("answer %q, want %q in it", res.Text(), tt.answer)
					}
					break
				}
				call := res.Calls()[0]
				calls = append(calls, call.Name+" "+string(call.Args))
				if step >= len(tt.results) {
					t.Fatalf("one call too many: %s", calls)
				}
				req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Parts: res.Parts},
					llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Kind: llm.ToolResult, ID: call.ID, Text: tt.results[step]}}})
			}
			if strings.Join(calls, "\n") != strings.Join(tt.calls, "\n") {
				t.Errorf("calls\n%s\nwant\n%s", strings.Join(calls, "\n"), strings.Join(tt.calls, "\n"))
			}
		})
	}
}

func TestAnInterruptedCountGoesOnBehindWhatWasKept(t *testing.T) {
	c := start(t, demo.Options{Pause: time.Microsecond, Slow: time.Microsecond})
	req := llm.Request{Model: demo.Model, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "count slowly to 12"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.Text, Text: "Slowly, then: 1, 2, 3, 4, 5, 1"}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "[The answer above was interrupted. Go on.]"}}},
	}}
	res, err := c.Stream(t.Context(), req, nil)
	if err != nil || !strings.Contains(res.Text(), "I go on: 6, 7, 8, 9, 10, 11, 12.") {
		t.Errorf("%q %v", res.Text(), err)
	}
}

func TestTheTourIsFiveLinesThatTheModelUnderstands(t *testing.T) {
	c := start(t, demo.Options{Pause: time.Microsecond, Slow: time.Microsecond})
	lines := demo.Tour()
	if len(lines) != 5 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		res, err := c.Stream(t.Context(), llm.Request{Model: demo.Model, Tools: tools(), Whole: true,
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: line.Type}}}}}, nil)
		if err != nil || strings.Contains(res.Text(), "I know only") || strings.Contains(res.Text(), "Try one of these") {
			t.Errorf("%s: %q %v", line.Type, res.Text(), err)
		}
	}
}
