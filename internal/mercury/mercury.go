// Package mercury holds the words the whole program speaks: conversations,
// entries, inputs, runs, deliveries, questions, actors, accesses, errors.
// They are values. Nothing here does I/O, and nothing here imports another
// room; everyone else imports this one.
package mercury

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// NewID returns a fresh identifier: prefix, underscore, and a UUIDv7 (RFC 9562
// §5.7) in lower-case hex without hyphens. Identifiers made later sort later,
// to the millisecond. Prefixes are short and fixed per word: "run", "in",
// "dl", "en", "qu", "cv".
func NewID(prefix string) string {
	var b [16]byte
	rand.Read(b[:])
	ms := uint64(time.Now().UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return prefix + "_" + hex.EncodeToString(b[:])
}

// Lane is a concurrency class. Runs of one lane share a cap per process, so a
// flood in one never delays another.
type Lane string

// The lanes. Chat answers people and keeps one slot for owners and admins;
// Quiet is for learning and compaction and never blocks a chat.
const (
	Chat   Lane = "chat"
	Bot    Lane = "bot"
	Cron   Lane = "cron"
	Helper Lane = "helper"
	Out    Lane = "out"
	Quiet  Lane = "quiet"
)

// Role says what kind of actor acts.
type Role string

// The roles, from most to least trusted. A role someone defined themselves is
// any other string and has the rights the configuration gives it.
const (
	Owner      Role = "owner"
	Admin      Role = "admin"
	Member     Role = "member"
	BotRole    Role = "bot"
	HelperRole Role = "helper"
	Schedule   Role = "schedule"
	Stranger   Role = "stranger"
)

// Actor is whose turn it is and where it came from. The transport sets it;
// no text ever changes it.
type Actor struct {
	Role    Role   `json:"role"`
	ID      string `json:"id,omitempty"`      // the person or bot on its channel
	Name    string `json:"name,omitempty"`    // how people call them
	Channel string `json:"channel,omitempty"` // "local", "telegram", …
}

// Trusted reports whether a is the owner or an admin.
func (a Actor) Trusted() bool { return a.Role == Owner || a.Role == Admin }

// Message is what a channel hands over: something a person said, not yet
// accepted.
type Message struct {
	Channel      string    // name of the channel
	ID           string    // unique on that channel; redelivery repeats it
	Conversation string    // "channel/place", such as "telegram/12345" or "local/default"
	Sender       Actor     //
	Text         string    //
	Files        []File    // already stored where the path says
	Mode         Mode      // empty: the channel's usual one
	ReplyTo      string    // id of the message it answers, if any
	Direct       bool      // a private talk, or addressed to Mercury by name
	At           time.Time // when the platform says it was written
}

// File is a file that came with a message or leaves with a delivery.
type File struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type,omitempty"` // media type
	Size int64  `json:"size,omitempty"` // bytes
}

// Mode says how an input joins a conversation that is busy.
type Mode string

const (
	// Steer joins the running turn after its current tools.
	Steer Mode = "steer"
	// FollowUp waits for the running turn to end, then has a run of its own.
	FollowUp Mode = "follow-up"
	// Write is a passive entry: visible to the model, it starts nothing.
	Write Mode = "write"
)

// Effect says whether a tool call may happen again.
type Effect string

const (
	// Read may run again: it leaves no mark on the world.
	Read Effect = "read"
	// Once is never run again. It is journaled as started before it happens;
	// a started call found after a crash is unknown and the model is told so.
	Once Effect = "once"
)
