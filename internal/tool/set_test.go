package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

type echoInput struct {
	Text  string   `json:"text"`
	Times int      `json:"times,omitempty"`
	Loud  bool     `json:"loud,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

// echo is a tool that says its text, or does what the text tells it.
func echo(name string, effect mercury.Effect) tool.Tool {
	return tool.New(name, "Say text.", effect,
		func(in echoInput) []mercury.Access {
			if in.Text == "panic early" {
				panic("early")
			}
			return []mercury.Access{{Kind: mercury.OwnState, Target: in.Text}}
		},
		func(ctx context.Context, _ tool.Call, in echoInput) (tool.Output, error) {
			switch in.Text {
			case "panic":
				panic("late")
			case "fail":
				return tool.Output{}, &mercury.Error{Kind: mercury.Invalid, Help: "Say something else.", Err: errors.New("cannot say that")}
			case "wait":
				<-ctx.Done()
				return tool.Output{}, errors.New("interrupted")
			}
			return tool.Output{Text: strings.Repeat(in.Text, max(in.Times, 1))}, nil
		})
}

func prepare(t *testing.T, g tool.Gate, c tool.Call) tool.Prepared {
	t.Helper()
	return tool.NewSet(g, echo("say", mercury.Once)).Prepare(t.Context(), c)
}

func TestEveryCallPassesTheGate(t *testing.T) {
	for _, tt := range []struct {
		verdict                  mercury.Verdict
		output, question, mayRun bool
	}{
		{mercury.Deny, true, false, false},
		{mercury.Ask, false, true, false},
		{mercury.Allow, false, false, true},
		{mercury.Verdict(99), true, false, false},
	} {
		g := &tooltest.Gate{Verdict: tt.verdict, Why: "because."}
		c := tool.Call{ID: "c1", RunID: "r1", ConversationID: "local/x", Name: "say", Args: json.RawMessage(`{"text":"hi"}`), Taint: []string{"web"}}
		p := prepare(t, g, c)
		if (p.Output != nil) != tt.output || (p.Question != nil) != tt.question || (p.Run != nil) != tt.mayRun {
			t.Errorf("%v: got %+v", tt.verdict, p)
		}
		r := g.Asked[0]
		if len(g.Asked) != 1 || r.Tool != "say" || r.CallID != "c1" || r.RunID != "r1" || r.Hash != tool.Hash(p.Accesses) || r.Taint[0] != "web" || r.Effect != mercury.Once {
			t.Errorf("the gate was asked %+v", g.Asked)
		}
		if tt.output && p.Output.Text != "Not permitted: because." {
			t.Errorf("the model is told %q", p.Output.Text)
		}
	}
}

func TestAQuestionShowsTheExactThing(t *testing.T) {
	g := &tooltest.Gate{Verdict: mercury.Ask, Why: "no rule allows it"}
	p := prepare(t, g, tool.Call{ID: "c1", RunID: "r1", Name: "say", Args: json.RawMessage(`{"text":"rm\r\u202etxt\u200b"}`)})
	q := p.Question
	if q.Kind != "approval" || q.CallID != "c1" || q.RunID != "r1" || q.Hash != tool.Hash(p.Accesses) || q.Hash == "" || q.State != mercury.QuestionOpen {
		t.Errorf("got %+v", q)
	}
	if want := `use rm\x0d\u202etxt\u200b`; q.Body != want || q.Title != want+" (no rule allows it)" {
		t.Errorf("body %q, title %q", q.Body, q.Title)
	}
	if q.Choices[len(q.Choices)-1].Value != mercury.AnswerNo || slices.ContainsFunc(q.Choices, func(c mercury.Choice) bool { return c.Value == mercury.AnswerAlways }) {
		t.Errorf("choices %v", q.Choices)
	}
}

func TestAnApprovalFitsExactlyWhatWasAskedAbout(t *testing.T) {
	c := tool.Call{ID: "c1", Name: "say", Args: json.RawMessage(`{"text":"hi"}`)}
	q := prepare(t, &tooltest.Gate{Verdict: mercury.Ask}, c).Question
	for _, tt := range []struct {
		name, args, approved string
		verdict              mercury.Verdict
		runs                 bool
	}{
		{"the same call", `{"text":"hi"}`, q.Hash, mercury.Ask, true},
		{"the same call, written otherwise", ` {"text" : "hi"} `, q.Hash, mercury.Ask, true},
		{"another call", `{"text":"ho"}`, q.Hash, mercury.Ask, false},
		{"no approval", `{"text":"hi"}`, "", mercury.Ask, false},
		{"a denial since then", `{"text":"hi"}`, q.Hash, mercury.Deny, false},
	} {
		c.Args, c.Approved = json.RawMessage(tt.args), tt.approved
		if p := prepare(t, &tooltest.Gate{Verdict: tt.verdict}, c); (p.Run != nil) != tt.runs {
			t.Errorf("%s: runs %v", tt.name, p.Run != nil)
		}
	}
}

// resolver is a gate that resolves commands.
type resolver struct{ tooltest.Gate }

func (r *resolver) JudgeCommand(ctx context.Context, q tool.Request) (mercury.Judgement, *tool.Command) {
	j := r.Judge(ctx, q)
	j.Always = "run git status"
	return j, &tool.Command{Path: "/usr/bin/git"}
}

func TestAGateMayResolveTheCommand(t *testing.T) {
	var got *tool.Command
	run := tool.New("run", "Run.", mercury.Once,
		func(echoInput) []mercury.Access { return nil },
		func(_ context.Context, c tool.Call, _ echoInput) (tool.Output, error) {
			got = c.Exec
			return tool.Output{Text: "ok"}, nil
		})
	set := tool.NewSet(&resolver{tooltest.Gate{Verdict: mercury.Allow}}, run)
	p := set.Prepare(t.Context(), tool.Call{Name: "run", Args: json.RawMessage(`{"text":""}`)})
	if _, err := p.Run(t.Context()); err != nil || got == nil || got.Path != "/usr/bin/git" {
		t.Errorf("ran %+v, %v", got, err)
	}
	set = tool.NewSet(&resolver{tooltest.Gate{Verdict: mercury.Ask}}, run)
	q := set.Prepare(t.Context(), tool.Call{Name: "run", Args: json.RawMessage(`{"text":""}`)}).Question
	if q.Always != "run git status" || q.Choices[3].Value != mercury.AnswerAlways {
		t.Errorf("got %+v", q)
	}
	// A caller cannot bring a command of its own.
	set = tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, run)
	p = set.Prepare(t.Context(), tool.Call{Name: "run", Args: json.RawMessage(`{"text":""}`), Exec: &tool.Command{Path: "/bin/rm"}})
	if _, err := p.Run(t.Context()); err != nil || got != nil {
		t.Errorf("ran %+v, %v", got, err)
	}
}

func TestAMandateNarrowsTheTools(t *testing.T) {
	g := &tooltest.Gate{Verdict: mercury.Allow}
	set := tool.NewSet(g, echo("say", mercury.Read), echo("shout", mercury.Read))
	c := tool.Call{Name: "shout", Args: json.RawMessage(`{"text":"x"}`), Mandate: mercury.Mandate{Tools: []string{"say"}}}
	if p := set.Prepare(t.Context(), c); p.Run != nil || !strings.Contains(p.Output.Text, "There is no tool") || strings.Contains(p.Output.Text, "or shout") {
		t.Errorf("got %+v", p)
	}
	c.Mandate.Tools = []string{}
	if p := set.Prepare(t.Context(), c); p.Run != nil {
		t.Error("an empty list allows all")
	}
	c.Mandate.Tools = nil
	if p := set.Prepare(t.Context(), c); p.Run == nil {
		t.Errorf("got %+v", p.Output)
	}
	if p := set.Prepare(t.Context(), tool.Call{Name: "shoot"}); p.Output.Text != `There is no tool "shoot" here. Did you mean shout?` {
		t.Errorf("got %q", p.Output.Text)
	}
	if len(g.Asked) != 1 {
		t.Errorf("the gate was asked %d times", len(g.Asked))
	}
}

func TestSpecsAreSortedAndStable(t *testing.T) {
	a := tool.NewSet(nil, echo("b", mercury.Read), echo("c", mercury.Read), echo("a", mercury.Read))
	b := tool.NewSet(nil, echo("c", mercury.Read), echo("a", mercury.Read), echo("b", mercury.Read))
	x, _ := json.Marshal(a.Specs(nil))
	y, _ := json.Marshal(b.Specs(nil))
	if string(x) != string(y) || !strings.HasPrefix(string(x), `[{"name":"a"`) {
		t.Errorf("%s\n%s", x, y)
	}
	if got := a.Specs([]string{"c", "a", "none"}); len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("got %v", got)
	}
}

func TestArgumentsAreCheckedInWordsAModelCanUse(t *testing.T) {
	g := &tooltest.Gate{Verdict: mercury.Allow}
	for _, tt := range []struct{ args, want string }{
		{``, `say: arguments do not fit: "text" is missing`},
		{`{"txt":"x"}`, `say: arguments do not fit: "text" is missing; there is no "txt", did you mean "text"?`},
		{`{"text":1}`, `say: arguments do not fit: "text" must be a string, not the number 1`},
		{`{"text":"x","times":"many"}`, `say: arguments do not fit: "times" must be an integer, not a string`},
		{`{"text":"x","times":1.5}`, `say: arguments do not fit: "times" must be an integer, not the number 1.5`},
		{`{"text":"x","tags":"a"}`, `say: arguments do not fit: "tags" must be an array, not a string`},
		{`{"text":"x","tags":[1]}`, `/properties/tags/items`},
		{`{"text":null}`, `"text" must be a string, not null`},
		{`{"text":"x"`, `say: arguments are not valid JSON: unexpected EOF`},
		{`{"text":"x"} {}`, `more than one value`},
		{`["x"]`, `say: arguments must be a JSON object, not an array`},
		{`{"text":"panic early"}`, `say: internal error: early`},
	} {
		p := prepare(t, g, tool.Call{Name: "say", Args: json.RawMessage(tt.args)})
		if p.Output == nil || !p.Output.IsError || !strings.Contains(p.Output.Text, tt.want) {
			t.Errorf("%s: got %+v, want %q", tt.args, p.Output, tt.want)
		}
	}
	if len(g.Asked) != 0 {
		t.Error("the gate was asked about calls that cannot be made")
	}
}

func TestWhatNobodyCanMisreadIsForgiven(t *testing.T) {
	for _, args := range []string{
		`{"text":"x","times":"2"}`, `{"text":"x","times":2.0}`, `{"text":"x","times":2,"loud":"true","tags":null}`, ` {"text":"x","times":2e0} `,
	} {
		p := prepare(t, &tooltest.Gate{Verdict: mercury.Allow}, tool.Call{Name: "say", Args: json.RawMessage(args)})
		if p.Run == nil {
			t.Errorf("%s: %+v", args, p.Output)
			continue
		}
		if out, err := p.Run(t.Context()); err != nil || out.Text != "xx" {
			t.Errorf("%s: got %q, %v", args, out.Text, err)
		}
	}
}

func TestAFailureIsAnAnswerAndCancellationIsNot(t *testing.T) {
	g := &tooltest.Gate{Verdict: mercury.Allow}
	for _, tt := range []struct{ text, want string }{
		{"fail", "say: cannot say that. Say something else."},
		{"panic", "say: internal error: late"},
	} {
		p := prepare(t, g, tool.Call{Name: "say", Args: json.RawMessage(`{"text":"` + tt.text + `"}`)})
		out, err := p.Run(t.Context())
		if err != nil || !out.IsError || !strings.HasPrefix(out.Text, tt.want) {
			t.Errorf("%s: got %q, %v", tt.text, out.Text, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := prepare(t, g, tool.Call{Name: "say", Args: json.RawMessage(`{"text":"wait"}`)})
	if _, err := p.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLargeResultsAreCutAndKept(t *testing.T) {
	w := tooltest.NewWorld(t)
	g := &tooltest.Gate{Verdict: mercury.Allow}
	for _, tt := range []struct{ name, text string }{
		{"many bytes", strings.Repeat("0123456789", 6000)},
		{"many short lines", strings.Repeat("x\n", 2500)},
		{"wide runes", strings.Repeat("ü€😀", 9000)},
		{"bytes that are no text", strings.Repeat("\x00\xff\x1b[1mz", 9000)},
		{"one long line at the end", "a\n" + strings.Repeat("y", 70000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := tool.NewSet(g, tool.New("big", "Say much.", mercury.Read,
				func(struct{}) []mercury.Access { return nil },
				func(context.Context, tool.Call, struct{}) (tool.Output, error) {
					return tool.Output{Text: tt.text}, nil
				}))
			p := set.Prepare(t.Context(), w.Call("big", `{}`))
			out, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tooltest.Bounded(t, out)
			if out.Truncated == "" || !strings.Contains(out.Text, out.Truncated) || !strings.Contains(out.Text, "read_file") {
				t.Errorf("nothing says where the rest is: %.100q", out.Text)
			}
			whole, err := os.ReadFile(out.Truncated)
			if err != nil || string(whole) != tool.Clean(tt.text) {
				t.Errorf("the whole is not kept: %d bytes, %v", len(whole), err)
			}
		})
	}
	set := tool.NewSet(g, echo("say", mercury.Read))
	c := w.Call("say", `{"text":"0123456789","times":6000}`)
	c.Outputs = ""
	out, err := set.Prepare(t.Context(), c).Run(t.Context())
	if err != nil || out.Truncated != "" || !strings.Contains(out.Text, "the rest was not kept") {
		t.Errorf("without a folder: %.60q, %v", out.Truncated, err)
	}
	c.Outputs = "/dev/null/x"
	if out, err = set.Prepare(t.Context(), c).Run(t.Context()); err != nil || !strings.Contains(out.Text, "could not be kept") {
		t.Errorf("where nothing can be written: %v", err)
	}
}

func TestWhatFitsIsLeftAlone(t *testing.T) {
	w := tooltest.NewWorld(t)
	set := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, echo("say", mercury.Read))
	for _, text := range []string{"", "x", strings.Repeat("x\n", 2000), strings.Repeat("y", tool.MaxBytes)} {
		args, _ := json.Marshal(map[string]string{"text": text})
		out, err := set.Prepare(t.Context(), w.Call("say", string(args))).Run(t.Context())
		if err != nil || out.Text != text || out.Truncated != "" {
			t.Errorf("%d bytes became %d, %q, %v", len(text), len(out.Text), out.Truncated, err)
		}
	}
}

func TestACallsIdCannotLeadItsOutputElsewhere(t *testing.T) {
	w := tooltest.NewWorld(t)
	c := w.Call("say", `{"text":"0123456789","times":6000}`)
	c.ID = "../../evil/\x00x"
	set := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, echo("say", mercury.Read))
	out, err := set.Prepare(t.Context(), c).Run(t.Context())
	if err != nil || !strings.HasPrefix(out.Truncated, w.Outputs+"/say-") || strings.Contains(out.Truncated, "..") {
		t.Errorf("went to %q, %v", out.Truncated, err)
	}
}
