package permission

import (
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Role is what the people who have it may do, and how much.
type Role struct {
	May         []mercury.Permission // a star at the end stands for all that begin so
	Tools       []string             // patterns of tools, "!" denies; nil: every tool
	PerMinute   int                  // messages; 0: no limit of its own
	DailyTokens int64                // 0: no cap
}

// Roles are the roles of a house by name.
type Roles map[mercury.Role]Role

// DefaultRoles are the roles that exist without being configured. An admin may
// everything but decide in the owner's place; a member may talk, and end and
// begin anew what is their own; a stranger may nothing.
func DefaultRoles() Roles {
	admin := slices.DeleteFunc(mercury.Permissions(), func(p mercury.Permission) bool { return p == mercury.Answer })
	return Roles{
		mercury.Owner:    {May: []mercury.Permission{"*"}},
		mercury.Admin:    {May: admin},
		mercury.Member:   {May: []mercury.Permission{mercury.MayPrompt, mercury.MayStop, mercury.MayReset}, PerMinute: 10},
		mercury.Stranger: {},
	}
}

// May reports whether a role has a permission. The owner has all, whatever is
// configured; a role nobody defined has none.
func (r Roles) May(role mercury.Role, p mercury.Permission) bool {
	return role == mercury.Owner || slices.ContainsFunc(r[role].May, func(have mercury.Permission) bool { return have.Covers(p) })
}

// Tools returns the names among all that a role may use; nil is every one.
func (r Roles) Tools(role mercury.Role, all []string) []string {
	patterns := r[role].Tools
	if patterns == nil {
		return nil
	}
	given := []string{}
	for _, name := range all {
		allowed, any := false, false
		for _, p := range patterns {
			if denied, ok := strings.CutPrefix(p, "!"); ok {
				if matches([]string{denied}, name) {
					allowed, any = false, true
					break
				}
				continue
			}
			any = true
			allowed = allowed || matches([]string{p}, name)
		}
		// A list of denials alone gives all the rest.
		if allowed || !any {
			given = append(given, name)
		}
	}
	return given
}
