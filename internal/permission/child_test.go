package permission

import (
	"reflect"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAChildHasNothingThatItsParentLacks(t *testing.T) {
	scope := func(path string, rights string) mercury.Scope {
		s := mercury.Scope{Path: path}
		for _, r := range rights {
			s.Read, s.Write, s.Delete = s.Read || r == 'r', s.Write || r == 'w', s.Delete || r == 'd'
		}
		return s
	}
	parent := mercury.Mandate{
		Mode: ModeAllowAll, Interactive: true, Destination: "telegram/1", Workspace: "/a",
		Tools:  []string{"read_file", "git_*", "!git_push"},
		Scopes: []mercury.Scope{scope("/a", "rw"), scope("/a/secret", "r"), scope("/b", "r")},
	}
	for _, tt := range []struct {
		name string
		wish mercury.Mandate
		want mercury.Mandate
	}{
		{
			"everything", mercury.Mandate{Mode: ModeAllowAll, Interactive: true, Destination: "telegram/1"},
			mercury.Mandate{Mode: ModeAsk, Interactive: true, Destination: "telegram/1", Workspace: "/a", Tools: parent.Tools, Scopes: parent.Scopes},
		},
		{
			"more than there is",
			mercury.Mandate{Mode: ModeGuided, Destination: "telegram/2", Tools: []string{"run_command", "git_log", "*"}, Scopes: []mercury.Scope{scope("/", "rwd"), scope("/ab", "r"), scope("/b/x", "rw")}},
			mercury.Mandate{Mode: ModeAsk, Workspace: "/a", Tools: []string{"!git_push", "git_log", "read_file", "git_*"}, Scopes: []mercury.Scope{scope("/b/x", "r")}},
		},
		{
			"nothing in common", mercury.Mandate{Tools: []string{"run_command"}, Scopes: []mercury.Scope{}},
			mercury.Mandate{Mode: ModeAsk, Workspace: "/a", Tools: []string{}},
		},
		{
			"a folder with a narrower one inside", mercury.Mandate{Tools: []string{}, Scopes: []mercury.Scope{scope("/a", "rw")}},
			mercury.Mandate{Mode: ModeAsk, Workspace: "/a", Tools: []string{}, Scopes: []mercury.Scope{scope("/a", "rw"), scope("/a/secret", "r")}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Child(parent, tt.wish); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestAnEmptyIntersectionGivesNoTool(t *testing.T) {
	child := Child(mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Tools: []string{"!a"}}, mercury.Mandate{
		Actor: mercury.Actor{Role: mercury.HelperRole}, Tools: []string{"a"},
	})
	gate := New(Options{})
	for _, tool := range []string{"a", "b"} {
		if j := gate.Judge(t.Context(), Question{Mandate: child, Tool: tool}); j.Verdict != mercury.Deny {
			t.Errorf("%s: %v with %q", tool, j.Verdict, child.Tools)
		}
	}
}
