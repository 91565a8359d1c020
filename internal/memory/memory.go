// Package memory is what Mercury knows about the people it works for: small
// structured facts, each with what it rests on, and how the right few of them
// reach a request.
//
// A memory belongs to one scope, which follows from where and with whom a talk
// takes place and from nothing anybody says. What is known in one scope is
// never looked up in another.
//
// Memories are admitted, merged and weighed against what contradicts them by
// fixed rules without a model (Remember); a model is asked only to find them
// in what was said (Lesson). Conscious memories are looked at first; what
// nobody needed for a month rests in the subconscious layer until something
// recalls it (Recall). Nothing is deleted but by a person's word: what loses
// against a newer fact stays, with a link, and is never recalled.
//
// Everything here works inside a transaction that the caller opens. Nothing
// runs by itself.
package memory

import (
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// The kinds of memory.
const (
	Identity     = "identity"
	Preference   = "preference"
	Goal         = "goal"
	Project      = "project"
	Habit        = "habit"
	Decision     = "decision"
	Constraint   = "constraint"
	Relationship = "relationship"
	Episode      = "episode"
	Reflection   = "reflection"
)

// Kinds are the ten kinds, in the order in which they are shown.
var Kinds = []string{Identity, Preference, Goal, Project, Habit, Decision, Constraint, Relationship, Episode, Reflection}

// How a memory came to be.
const (
	Inferred = "inferred" // read out of what was said
	Direct   = "direct"   // said in so many words
	Manual   = "manual"   // written by hand
)

// MetaPrefix begins the names of the single facts that memory keeps.
const MetaPrefix = "memory/"

// OwnerScope is the scope of the owner, wherever they talk alone with Mercury.
const OwnerScope = "owner"

// ScopeOf says whose memories count in a conversation, empty for none. The
// transport has set the actor and the conversation; no text changes them.
//
// Where others read along, the place has memories of its own: what somebody
// told Mercury alone is not brought up before others.
func ScopeOf(a mercury.Actor, conversation string) string {
	switch {
	case a.Role == mercury.Stranger || a.Role == mercury.HelperRole || a.Role == "":
		return ""
	case a.Role == mercury.BotRole:
		return BotScope(a.ID)
	case !Private(a, conversation):
		return "place/" + conversation
	case a.Role == mercury.Owner || a.Role == mercury.Schedule:
		return OwnerScope
	}
	return "person/" + a.Channel + "/" + a.ID
}

// BotScope is a bot's own scope.
func BotScope(id string) string { return "bot/" + id }

// Private reports whether nobody but the actor reads a conversation: one of
// this machine, or a talk whose place is the person.
func Private(a mercury.Actor, conversation string) bool {
	channel, place, _ := strings.Cut(conversation, "/")
	return conversation == "" || channel == "local" || a.ID != "" && place == a.ID && (a.Channel == "" || a.Channel == channel)
}
