package mercury

import (
	"encoding/json"
	"strings"
	"time"
)

// Conversation is ordered, immutable entries with an inbox. A chat, a bot's
// forever thread, a fork, a helper's work: all are conversations.
type Conversation struct {
	ID        string // "channel/place"; for local ones "local/NAME"
	Kind      string // "chat", "fork", "bot", "helper"
	Title     string
	Profile   string // who answers; empty is the main agent
	ParentID  string // fork: where it came from
	ForkSeq   int64  // fork: last entry it shares with its parent
	Head      int64  // first entry the model still sees; 0 is the beginning
	LastSeq   int64  // seq of the newest entry
	Mode      string // permission mode chosen in this conversation; empty: the configured one
	ModeUntil time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

// LocalConversation turns what a person typed into a conversation id: a bare
// name is one of the local channel's.
func LocalConversation(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "local/" + name
}

// ForkMark stands in the id of a fork between the conversation it works for and
// its own name.
const ForkMark = "/~"

// ChatOf returns the conversation that a fork works for; of any other
// conversation itself.
func ChatOf(id string) string {
	chat, _, _ := strings.Cut(id, ForkMark)
	return chat
}

// ChannelOf returns the channel half of a conversation id or an address.
func ChannelOf(address string) string {
	channel, _, _ := strings.Cut(address, "/")
	return channel
}

// EntryKind is what one line of a conversation is.
type EntryKind string

const (
	UserEntry       EntryKind = "user"
	AssistantEntry  EntryKind = "assistant"
	ToolCallEntry   EntryKind = "tool_call"
	ToolResultEntry EntryKind = "tool_result"
	NoteEntry       EntryKind = "note"    // passive: visible to the model, starts nothing
	SummaryEntry    EntryKind = "summary" // stands for what came before it
	ResetEntry      EntryKind = "reset"   // hides what came before it from the model
)

// Entry is one immutable line of a conversation. Seq is dense per
// conversation and given when the entry is appended.
type Entry struct {
	ID             string
	ConversationID string
	Seq            int64
	Kind           EntryKind
	RunID          string
	Round          int    // which model call of the run
	CallID         string // tool_call, tool_result: ours, unique in the run
	Actor          Actor
	Text           string
	Data           json.RawMessage // by kind; the room that writes the kind defines it
	Hidden         bool            // kept and shown to people, left out of requests
	Taint          []string        // outside sources in it or in what it derives from
	At             time.Time
}

// InputState is where an input stands.
type InputState string

const (
	InputQueued     InputState = "queued"     // waits in the inbox
	InputPlaced     InputState = "placed"     // part of a live run
	InputDone       InputState = "done"       // answered, or a write or command that is settled
	InputUnanswered InputState = "unanswered" // ended without an answer; Reason says why
)

// Input is a durable message in a conversation's inbox. (Channel, MessageID)
// is unique for ever: what is offered twice is one input.
type Input struct {
	ID             string
	Channel        string
	MessageID      string
	ConversationID string
	Actor          Actor
	Mode           Mode
	Text           string
	Files          []File
	Digest         string // of the content; the same id with another digest is a conflict
	State          InputState
	Reason         string
	RunID          string // empty while queued
	SentAt         time.Time
	AcceptedAt     time.Time
	SettledAt      time.Time
}
