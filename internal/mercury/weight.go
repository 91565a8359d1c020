package mercury

import "slices"

// weights are the roles whose words count most first.
var weights = []Role{Owner, Admin, Schedule, BotRole, HelperRole, Member, Stranger}

// Below reports whether words of a weigh less than the rights of b: in a
// request of b they are text from outside. An owner's or admin's never are.
func (a Actor) Below(b Actor) bool {
	return a.Role != "" && a.Role != b.Role && !a.Trusted() && a.Role.weight() > b.Role.weight()
}

func (r Role) weight() int {
	if i := slices.Index(weights, r); i >= 0 {
		return i
	}
	return len(weights) - 2 // a role somebody defined is a member's
}

// Source names a person as a source of outside text.
func (a Actor) Source() string { return "person:" + a.Channel + "/" + a.ID }
