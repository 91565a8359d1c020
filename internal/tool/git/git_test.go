package git

import (
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/shell"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

var calls = map[string][]string{
	"git_status": {`{}`},
	"git_diff":   {`{}`, `{"staged":true}`, `{"revision":"HEAD~1","path":"notes.txt"}`},
	"git_log":    {`{}`, `{"count":3,"path":"sub"}`},
	"git_show":   {`{}`, `{"revision":"HEAD:notes.txt"}`},
	"git_branch": {`{}`},
	"git_add":    {`{"paths":["notes.txt"]}`},
	"git_commit": {`{"message":"one"}`, `{"message":"two\n\nwhy","all":true}`},
	"git_push":   {`{}`, `{"remote":"fork","branch":"x","set_upstream":true}`},
}

func named(name string) tool.Tool {
	all := Tools(shell.Options{})
	return all[slices.IndexFunc(all, func(x tool.Tool) bool { return x.Spec().Name == name })]
}

func TestToolsKeepTheContract(t *testing.T) {
	if n := len(Tools(shell.Options{})); n != len(calls) {
		t.Errorf("there are %d tools", n)
	}
	for name, args := range calls {
		t.Run(name, func(t *testing.T) {
			tooltest.Run(t, tooltest.Fixture{Calls: args, Tool: func(tooltest.World) tool.Tool { return named(name) }})
		})
	}
}

func TestWhatIsAskedForBecomesAnArgumentVector(t *testing.T) {
	w := tooltest.NewWorld(t)
	for _, tt := range []struct{ name, args, want string }{
		{"git_diff", `{"staged":true,"revision":"HEAD","path":"a b"}`, "git|diff|--staged|HEAD|--|a b"},
		{"git_log", `{"count":9999}`, "git|log|--date=iso|--max-count=500|--"},
		{"git_add", `{"paths":["-rf","x"]}`, "git|add|--|-rf|x"},
		{"git_commit", `{"message":"--amend"}`, "git|commit|--message=--amend"},
		{"git_push", `{}`, "git|push|origin|HEAD"},
	} {
		as, err := named(tt.name).Accesses(t.Context(), w.Call(tt.name, tt.args))
		if err != nil || len(as) != 1 || as[0].Kind != mercury.RunCommand || strings.Join(as[0].Argv, "|") != tt.want || as[0].Dir != w.Workspace {
			t.Errorf("%s %s: %+v, %v", tt.name, tt.args, as, err)
		}
	}
	for _, tt := range []struct{ name, args string }{
		{"git_diff", `{"revision":"--output=/tmp/x"}`}, {"git_push", `{"remote":"--receive-pack=evil"}`}, {"git_push", `{"branch":"+main"}`},
		{"git_add", `{"paths":[]}`}, {"git_commit", `{"message":" "}`},
	} {
		if _, err := named(tt.name).Accesses(t.Context(), w.Call(tt.name, tt.args)); err == nil {
			t.Errorf("%s %s is taken", tt.name, tt.args)
		}
	}
}
