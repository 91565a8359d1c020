package store

import (
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// The tiers of a memory. Active and durable ones are conscious: they are
// looked at first. A subconscious one rests until something recalls it.
const (
	TierActive       = "active"       // bound to a time, such as a goal
	TierDurable      = "durable"      // holds until something contradicts it
	TierSubconscious = "subconscious" // not seen for long
)

// The states of a memory.
const (
	MemoryLive       = "live"
	MemorySuperseded = "superseded" // lost against Rival; kept, never recalled
	MemoryForgotten  = "forgotten"  // a person said so; can be restored
)

// Memory is one structured fact about somebody, with what it rests on.
type Memory struct {
	ID         string
	Scope      string // whose it is; see the memory room
	Kind       string // one of the ten types
	Summary    string
	Detail     string // what did not fit into the summary
	Tier       string
	State      string
	Confidence float64 // how sure it is, 0 to 1
	Importance float64 // how much it matters, 0 to 1
	Durability float64 // how long it will hold, 0 to 1
	Evidence   int     // observations that agree
	Learned    string  // "inferred", "direct" (said in so many words) or "manual" (by hand)
	Sources    []MemorySource
	Taint      []string // outside sources it derives from
	Rival      string   // the memory that contradicts this one, or won over it
	Actor      mercury.Actor
	RunID      string // that made it
	CreatedAt  time.Time
	SeenAt     time.Time // said again, or used
	ChangedAt  time.Time
}

// MemorySource is one observation behind a memory.
type MemorySource struct {
	EntryID string    `json:"entry,omitempty"`
	RunID   string    `json:"run,omitempty"`
	Said    string    `json:"said,omitempty"` // its words, where they differ from the summary
	At      time.Time `json:"at"`
}

// MemoryFilter selects memories; zero fields select all.
type MemoryFilter struct {
	Scope  string
	Kinds  []string
	Tiers  []string
	States []string // default live ones
	Page
}

// MemoryCount counts the memories of one kind, tier and state.
type MemoryCount struct {
	Kind, Tier, State string
	N                 int
}

// MemoryQuery asks for memories by words. Each word is given by its forms, as
// package words makes them; any of them counts.
type MemoryQuery struct {
	Scope        string
	Subconscious bool // which layer
	Words        [][]string
	Limit        int // default 20
}

// EntryQuery asks for entries that hold all of the words.
type EntryQuery struct {
	Conversation string // only of this one
	Words        [][]string
	Before       int64 // older than this hit; 0: from the newest
	Limit        int   // at most 1,000
}

// EntryHit is an entry found by its words. N goes into EntryQuery.Before for
// what is older.
type EntryHit struct {
	N              int64
	ConversationID string
	Seq            int64
}

// Memories keeps what is known. What a query by words returns is looked up in
// the rows themselves, so that what was forgotten cannot come back.
type Memories interface {
	InsertMemory(m Memory) error // ErrExists
	SaveMemory(m Memory) error
	Memory(id string) (Memory, error)
	// Memories lists newest first.
	Memories(f MemoryFilter) ([]Memory, string, error)
	// BestMemories returns the live, conscious memories of the kinds seen
	// since then that weigh most: by importance, durability, confidence and
	// evidence.
	BestMemories(scope string, kinds []string, since time.Time, limit int) ([]Memory, error)
	// StaleMemories returns live, conscious memories not seen since then.
	StaleMemories(scope string, since time.Time, limit int) ([]Memory, error)
	CountMemories(scope string) ([]MemoryCount, error)
	MemoryScopes() ([]string, error)
	// ClearMemories deletes all of a scope for good, and what could undo them.
	ClearMemories(scope string) (int, error)

	// MemoriesWith returns live memories of a scope and layer that hold any of
	// the words: those first that hold the rarest and the most. Of a word that
	// very many hold only those made last are looked at, so that the time
	// taken does not grow with what is known.
	MemoriesWith(q MemoryQuery) ([]Memory, error)
	// EntriesWith returns entries by their words, newest first.
	EntriesWith(q EntryQuery) ([]EntryHit, error)
	// IndexEntries makes at most limit further entries findable and reports
	// whether there are more. It needs an Update.
	IndexEntries(limit int) (more bool, err error)

	// TalkCost is what a conversation has used, by purpose.
	TalkCost(conversationID string) ([]UsageSum, error)
}
