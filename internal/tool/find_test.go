package tool_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

func plain(name, usage string) tool.Tool {
	type none struct{}
	return tool.New(name, usage, mercury.Read,
		func(none) []mercury.Access { return []mercury.Access{{Kind: mercury.OwnState, Target: "x"}} },
		func(context.Context, tool.Call, none) (tool.Output, error) { return tool.Output{Text: name}, nil })
}

func tiered() *tool.Set {
	return tool.NewTieredSet(&tooltest.Gate{Verdict: mercury.Allow}, []tool.Tool{plain("read_file", "Read.")}, []tool.Tool{
		plain("git_commit", "Record staged changes."), plain("git_log", "Show past commits."),
		plain("move_file", "Move or rename a file."), plain("send_message", "Send text to a person."),
	})
}

func specNames(specs []tool.Spec) (names []string) {
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return names
}

func TestToolsAreFoundByWordsAndStay(t *testing.T) {
	s := tiered()
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"commit", []string{"git_commit", "git_log"}},
		{"rename something", []string{"move_file"}},
		{"send_message, move_file", []string{"move_file", "send_message"}},
		{"Git", []string{"git_commit", "git_log"}},
		{"teleport", nil},
	} {
		p := s.Prepare(t.Context(), tool.Call{ID: "c", Name: tool.FindTools, Args: []byte(`{"query":"` + tt.query + `"}`)})
		out, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(out.Loads)
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q loads %v, want %v", tt.query, got, tt.want)
		}
		if len(tt.want) == 0 && !strings.Contains(out.Text, "move_file") {
			t.Errorf("%q: it does not say what there is: %s", tt.query, out.Text)
		}
	}
}

func TestWhatIsLoadedStandsBehindTheCoreInOrder(t *testing.T) {
	s := tiered()
	core := specNames(s.Specs(nil))
	if !slices.Equal(core, []string{"find_tools", "read_file"}) {
		t.Errorf("the core is %v", core)
	}
	got := specNames(s.Specs(nil, "send_message", "read_file", "git_log", "none", "send_message"))
	if !slices.Equal(got, append(core, "send_message", "git_log")) {
		t.Errorf("got %v", got)
	}
	// A list of allowed tools that has no find_tools is sent whole.
	if got := specNames(s.Specs([]string{"read_file", "move_file"})); !slices.Equal(got, []string{"read_file", "move_file"}) {
		t.Errorf("got %v", got)
	}
	if got := specNames(s.Specs([]string{"find_tools", "move_file"}, "git_log", "move_file")); !slices.Equal(got, []string{"find_tools", "move_file"}) {
		t.Errorf("got %v", got)
	}
}

func TestFindToolsFindsNothingThatIsNotGiven(t *testing.T) {
	c := tool.Call{ID: "c", Name: tool.FindTools, Args: []byte(`{"query":"git"}`), Mandate: mercury.Mandate{Tools: []string{"find_tools", "git_log"}}}
	out, err := tiered().Prepare(t.Context(), c).Run(t.Context())
	if err != nil || !slices.Equal(out.Loads, []string{"git_log"}) {
		t.Errorf("loads %v, %v", out.Loads, err)
	}
}

func TestFindToolsConforms(t *testing.T) {
	tooltest.Run(t, tooltest.Fixture{
		Tool: func(tooltest.World) tool.Tool {
			i := slices.IndexFunc(tiered().Tools(), func(x tool.Tool) bool { return x.Spec().Name == tool.FindTools })
			return tiered().Tools()[i]
		},
		Calls: []string{`{"query":"git"}`, `{"query":"nothing of this"}`},
	})
}
