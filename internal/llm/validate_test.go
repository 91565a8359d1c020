package llm_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
)

func said(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func text(s string) llm.Part { return llm.Part{Kind: llm.Text, Text: s} }

func call(id string) llm.Part {
	return llm.Part{Kind: llm.ToolCall, ID: id, Name: "look", Args: json.RawMessage(`{}`)}
}

func result(id string) llm.Part { return llm.Part{Kind: llm.ToolResult, ID: id, Text: "ok"} }

func TestRequestsThatAProviderWouldRefuse(t *testing.T) {
	user := said(llm.User, text("hi"))
	bad := call("a")
	bad.Args = json.RawMessage(`[1]`)
	cut := call("a")
	cut.Cut = true
	named := call("a")
	named.Name = "functions.look"
	pic := llm.Part{Kind: llm.Image, Media: "image/png", Data: []byte("x")}
	big := pic
	big.Data = make([]byte, llm.MaxImageBytes+1)
	for _, tt := range []struct {
		name string
		wire llm.Wire
		list []llm.Message
		want string // part of the error; empty accepts
	}{
		{"a question", "", []llm.Message{user}, ""},
		{"a picture", "", []llm.Message{said(llm.User, pic)}, ""},
		{"two calls and their results in another order", "", []llm.Message{user, said(llm.Assistant, text("x"), call("a"), call("b")), said(llm.ToolRole, result("b"), result("a"))}, ""},
		{"a steer behind results", "", []llm.Message{user, said(llm.Assistant, call("a")), said(llm.ToolRole, result("a")), user}, ""},
		{"two messages of the user", "", []llm.Message{user, user}, ""},
		{"nothing", "", nil, "no messages"},
		{"an assistant first", "", []llm.Message{said(llm.Assistant, text("x")), user}, "must be the user's"},
		{"an assistant last", "", []llm.Message{user, said(llm.Assistant, text("x"))}, "the last message"},
		{"two assistants", "", []llm.Message{user, said(llm.Assistant, text("x")), said(llm.Assistant, text("y")), user}, "follows another assistant"},
		{"a call without a result", "", []llm.Message{user, said(llm.Assistant, call("a"))}, "has no result"},
		{"a call answered too late", "", []llm.Message{user, said(llm.Assistant, call("a")), user, said(llm.ToolRole, result("a"))}, "has no result"},
		{"half of the results", "", []llm.Message{user, said(llm.Assistant, call("a"), call("b")), said(llm.ToolRole, result("a"))}, "call b has no result"},
		{"an orphan result", "", []llm.Message{user, said(llm.ToolRole, result("a"))}, "answers no call"},
		{"another's result", "", []llm.Message{user, said(llm.Assistant, call("a")), said(llm.ToolRole, result("z"))}, "belongs to no call"},
		{"a result twice", "", []llm.Message{user, said(llm.Assistant, call("a")), said(llm.ToolRole, result("a"), result("a"))}, "its second"},
		{"an id twice", "", []llm.Message{user, said(llm.Assistant, call("a")), said(llm.ToolRole, result("a")), said(llm.Assistant, call("a")), said(llm.ToolRole, result("a"))}, "used twice"},
		{"arguments that are a list", "", []llm.Message{user, said(llm.Assistant, bad), said(llm.ToolRole, result("a"))}, "not a JSON object"},
		{"a cut call", "", []llm.Message{user, said(llm.Assistant, cut), said(llm.ToolRole, result("a"))}, "was cut"},
		{"a name with a dot", "", []llm.Message{user, said(llm.Assistant, named), said(llm.ToolRole, result("a"))}, "does not match"},
		{"blank text", "", []llm.Message{said(llm.User, text(" \n"))}, "blank"},
		{"thinking without more", "", []llm.Message{user, said(llm.Assistant, llm.Part{Kind: llm.Reasoning, Text: "x"}), user}, "neither text nor call"},
		{"thinking at the end", llm.AnthropicWire, []llm.Message{user, said(llm.Assistant, text("x"), llm.Part{Kind: llm.Reasoning, Text: "x"}), user}, "last part is thinking"},
		{"a huge picture", "", []llm.Message{said(llm.User, big)}, "limit"},
		{"a picture of a model's", "", []llm.Message{user, said(llm.Assistant, pic), user}, "does not belong"},
		{"a made-up role", "", []llm.Message{user, said("system", text("x"))}, "unknown role"},
	} {
		wires := []llm.Wire{llm.OpenAIWire, llm.AnthropicWire}
		if tt.wire != "" {
			wires = []llm.Wire{tt.wire}
		}
		for _, wire := range wires {
			err := llm.Validate(llm.Request{Messages: tt.list}, wire)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s, %s: %v", tt.name, wire, err)
			}
		}
	}
}

func TestToolsThatAProviderWouldRefuse(t *testing.T) {
	ok := json.RawMessage(`{"type":"object"}`)
	for _, tt := range []struct {
		tools []llm.Tool
		want  string
	}{
		{[]llm.Tool{{Name: "a", Schema: ok}, {Name: "b", Schema: ok}}, ""},
		{[]llm.Tool{{Name: "a", Schema: ok}, {Name: "a", Schema: ok}}, "twice"},
		{[]llm.Tool{{Name: "mcp:a", Schema: ok}}, "does not match"},
		{[]llm.Tool{{Name: strings.Repeat("a", 65), Schema: ok}}, "does not match"},
		{[]llm.Tool{{Name: "a", Schema: json.RawMessage(`{"type":"string"}`)}}, "not of type object"},
		{[]llm.Tool{{Name: "a"}}, "not of type object"},
	} {
		err := llm.Validate(llm.Request{Tools: tt.tools, Messages: []llm.Message{said(llm.User, text("x"))}}, llm.OpenAIWire)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: %v, want %q", tt.tools, err, tt.want)
		}
	}
}

func TestPartsSurviveJSON(t *testing.T) {
	parts := []llm.Part{
		{Kind: llm.Reasoning, Text: "a<b>\u2028", Signature: "+/=", Raw: `[ {"k" : "<&>\u2028"} ]`, Origin: "p/m"},
		{Kind: llm.ToolCall, ID: "x", Name: "look", Args: json.RawMessage(`{"a":1}`), BadArgs: "{\"a\n"},
		{Kind: llm.Image, Media: "image/png", Data: []byte{0, 255}},
	}
	b, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	var back []llm.Part
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(parts, back) {
		t.Errorf("%v\n%+v\n%+v", err, parts, back)
	}
}

func TestAnInventedNameBecomesOneThatEveryWireTakes(t *testing.T) {
	for _, name := range []string{"", "functions.look", "файл", strings.Repeat("x", 99), "a b"} {
		if got := llm.CleanName(name); !llm.ValidName(got) {
			t.Errorf("CleanName(%q) = %q", name, got)
		}
	}
	if got := llm.CleanName("read_file"); got != "read_file" {
		t.Errorf("a good name became %q", got)
	}
}
