package ask

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

var fixture = tooltest.Fixture{
	Tool:  func(tooltest.World) tool.Tool { return User() },
	Calls: []string{`{"question":"Which one?","choices":["red","green"]}`, `{"question":"What is your name?\nJust the first."}`},
}

func TestAskUserKeepsTheContract(t *testing.T) { tooltest.Run(t, fixture) }

func FuzzArguments(f *testing.F) { tooltest.Fuzz(f, fixture) }

func TestAQuestionIsData(t *testing.T) {
	w := tooltest.NewWorld(t)
	for _, tt := range []struct {
		args, kind, title string
		choices           int
	}{
		{fixture.Calls[0], "choice", "Which one?", 2},
		{fixture.Calls[1], "text", "What is your name?", 0},
		{`{"question":"` + strings.Repeat("ü", 300) + `"}`, "text", strings.Repeat("ü", 98) + "…", 0},
	} {
		p := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, User()).Prepare(t.Context(), w.Call("ask_user", tt.args))
		if p.Run == nil {
			t.Fatalf("not run: %+v", p.Output)
		}
		out, err := p.Run(t.Context())
		if err != nil || out.Question == nil {
			t.Fatalf("no question: %+v, %v", out, err)
		}
		q := out.Question
		if q.Kind != tt.kind || q.Title != tt.title || len(q.Choices) != tt.choices || q.CallID != "call_1" || q.State != mercury.QuestionOpen || q.ID == "" {
			t.Errorf("%s: got %+v", tt.args, q)
		}
	}
}

func TestAQuestionNobodyCanAnswerIsRefused(t *testing.T) {
	w := tooltest.NewWorld(t)
	for _, args := range []string{
		`{"question":" "}`, `{"question":"q","choices":["one"]}`, `{"question":"q","choices":["a","a"]}`,
		`{"question":"` + strings.Repeat("x", 5000) + `"}`, `{"question":"q","choices":["a","b","c","d","e","f","g","h","i","j","k","l","m"]}`,
	} {
		p := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, User()).Prepare(t.Context(), w.Call("ask_user", args))
		if p.Output == nil || !p.Output.IsError {
			t.Errorf("%.60s: accepted", args)
		}
	}
}
