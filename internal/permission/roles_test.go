package permission

import (
	"slices"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestWhatTheBuiltInRolesMayDo(t *testing.T) {
	roles := DefaultRoles()
	roles["guest"] = Role{May: []mercury.Permission{"tasks.*"}}
	for _, tt := range []struct {
		role mercury.Role
		p    mercury.Permission
		want bool
	}{
		{mercury.Owner, mercury.Answer, true}, {mercury.Admin, mercury.Answer, false}, {mercury.Admin, mercury.SetConfig, true},
		{mercury.Member, mercury.MayPrompt, true}, {mercury.Member, mercury.GetConfig, false}, {mercury.Member, mercury.Answer, false},
		{mercury.Stranger, mercury.MayPrompt, false}, {"nobody", mercury.MayPrompt, false}, {"", mercury.MayPrompt, false},
		{"guest", mercury.ListTasks, true}, {"guest", mercury.MayPrompt, false},
	} {
		if got := roles.May(tt.role, tt.p); got != tt.want {
			t.Errorf("%s may %s: %v, want %v", tt.role, tt.p, got, tt.want)
		}
	}
}

func TestARoleHasTheToolsItsPatternsName(t *testing.T) {
	all := []string{"ask_user", "git_log", "git_push", "read_file", "run_command"}
	for _, tt := range []struct{ patterns, want []string }{
		{nil, nil},
		{[]string{}, all},
		{[]string{"*"}, all},
		{[]string{"git_*", "!git_push"}, []string{"git_log"}},
		{[]string{"!run_command"}, []string{"ask_user", "git_log", "git_push", "read_file"}},
		{[]string{"nothing"}, []string{}},
	} {
		got := Roles{"r": {Tools: tt.patterns}}.Tools("r", all)
		if !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("%v: %v, want %v", tt.patterns, got, tt.want)
		}
	}
}
