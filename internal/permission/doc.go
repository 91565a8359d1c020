// Package permission answers one question in one place: may this actor do
// that? A Gate judges the accesses a tool call states before anything happens,
// in a fixed order of stages, and returns a verdict with the rule that made
// it; for commands and URLs it also returns exactly what may then be run or
// dialled. The same code screens texts for secrets.
//
// It promises that what nobody allowed is denied: a missing rule, a missing
// stage and the zero value all deny. It looks at the file system and resolves
// names where a decision needs it, and changes nothing. Asking people, keeping
// grants, running commands and opening files are left to others.
package permission

import "github.com/mercury-agent/mercury/internal/mercury"

// finding is what one stage says about one access.
type finding struct {
	verdict mercury.Verdict
	rule    string // stable name, such as "path.outside"
	why     string // for the person who is asked
	always  string // narrowest lasting rule, if one is offered
}

func allow(rule, why string) finding { return finding{verdict: mercury.Allow, rule: rule, why: why} }
func ask(rule, why string) finding   { return finding{verdict: mercury.Ask, rule: rule, why: why} }
func deny(rule, why string) finding  { return finding{verdict: mercury.Deny, rule: rule, why: why} }
