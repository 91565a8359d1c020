package store

import (
	"encoding/json"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Page bounds a list. After is the cursor a former page returned; zero Limit
// means 100, at most 1,000.
type Page struct {
	After string
	Limit int
}

// Conversations keeps conversations and their entries.
type Conversations interface {
	// LockConversation returns the conversation under its lock; it is the
	// first lock of any transaction that places, appends or settles.
	LockConversation(id string) (mercury.Conversation, error)
	Conversation(id string) (mercury.Conversation, error)
	// InsertConversation fails with ErrExists if the id is taken. Two
	// processes that insert the same id at once: one gets ErrExists.
	InsertConversation(c mercury.Conversation) error
	// SaveConversation writes everything but id, LastSeq and CreatedAt.
	SaveConversation(c mercury.Conversation) error
	// Conversations lists newest activity first.
	Conversations(p Page) ([]mercury.Conversation, string, error)

	// Append gives entries their Seq, dense and in order, and writes them.
	// The conversation's lock must be held. It fills ID, Seq and At where
	// empty and returns what it wrote.
	Append(conversationID string, entries ...mercury.Entry) ([]mercury.Entry, error)
	// Entries returns entries with seq > after, oldest first; limit 0 means
	// all. A fork's include its parent's up to the fork.
	Entries(conversationID string, after int64, limit int) ([]mercury.Entry, error)
	// EntriesBefore returns the newest limit entries with seq < before,
	// oldest first; before 0 means from the end.
	EntriesBefore(conversationID string, before int64, limit int) ([]mercury.Entry, error)
	Entry(id string) (mercury.Entry, error)
}

// Inputs keeps the inbox. Rows are never deleted: they are what makes a
// redelivery one input.
type Inputs interface {
	// InsertInput fails with ErrExists when (Channel, MessageID) is known;
	// then FindInput returns the row.
	InsertInput(in mercury.Input) error
	FindInput(channel, messageID string) (mercury.Input, error)
	Input(id string) (mercury.Input, error)
	// QueuedInputs returns a conversation's waiting inputs in arrival order.
	QueuedInputs(conversationID string) ([]mercury.Input, error)
	// RunInputs returns the inputs placed into a run, in arrival order.
	RunInputs(runID string) ([]mercury.Input, error)
	SaveInput(in mercury.Input) error // State, Reason, RunID, SettledAt, Mode
	CountQueued(conversationID string) (int, error)
	// InputAfter reports whether a person's input was accepted in the
	// conversation after t (writes do not count).
	InputAfter(conversationID string, t time.Time) (bool, error)
}

// RunFilter selects runs; zero fields select all.
type RunFilter struct {
	ConversationID string
	ParentID       string
	Key            string
	Kind           string
	Lane           mercury.Lane
	States         []mercury.RunState
	Page
}

// LaneDepth counts what stands in a lane.
type LaneDepth struct{ Queued, Running, Waiting int }

// Runs keeps the queue. A unique index allows one live run (queued, running,
// waiting) per conversation, another one running or waiting run per key.
type Runs interface {
	InsertRun(r mercury.Run) error // ErrExists: the conversation has a live run
	Run(id string) (mercury.Run, error)
	LockRun(id string) (mercury.Run, error)
	// LiveRun returns the conversation's live run, under its lock.
	LiveRun(conversationID string) (mercury.Run, error)
	SaveRun(r mercury.Run) error
	Runs(f RunFilter) ([]mercury.Run, string, error) // newest first
	Children(parentID string) ([]mercury.Run, error)
	// Claim takes the next run that owner may have in lane: queued, due, key
	// not held and not busy, pinned to node or to none; woken ones first,
	// then by priority, then by age. It sets state running, Owner, Epoch+1,
	// StartedAt if zero. trustedOnly restricts it to runs of owners and
	// admins. ErrNotFound: nothing to do.
	Claim(c Claim) (mercury.Run, error)
	// Depths counts live runs by lane.
	Depths() (map[mercury.Lane]LaneDepth, error)
	// CountQueuedKey counts queued runs of a key, for backlog caps.
	CountQueuedKey(key string) (int, error)
	// Orphans returns running runs whose owner's lease ended before now.
	Orphans(now time.Time, limit int) ([]mercury.Run, error)
	// NextDue is the earliest NotBefore of a queued run, or Until of a parked
	// one, after now.
	NextDue(now time.Time) (time.Time, bool, error)
	// Overdue returns parked runs whose Until has come.
	Overdue(now time.Time, limit int) ([]mercury.Run, error)
	// PruneRuns deletes the steps of a key's ended runs beyond the newest
	// keep, and those runs' rows beyond ten times that; never inputs or
	// entries.
	PruneRuns(key string, keep int) error
}

// Claim says who wants a run.
type Claim struct {
	Owner       string
	Node        string
	Lane        mercury.Lane
	TrustedOnly bool
	Only        string // with a conversation id: nothing but its runs and their descendants
	// Kinds are the kinds of run that the claimer can do; the others stay for
	// a process that can. Empty: all.
	Kinds []string
}

// Steps keeps the journal.
type Steps interface {
	// PutStep inserts the step or overwrites its row.
	PutStep(s mercury.Step) error
	Step(runID string, round int, callID string) (mercury.Step, error)
	Steps(runID string) ([]mercury.Step, error) // by round, then start
	// StartedSteps lists steps of a run left started under an epoch older
	// than the given one.
	StartedSteps(runID string, epoch int64) ([]mercury.Step, error)
}

// Questions keeps what persons were asked.
type Questions interface {
	InsertQuestion(q mercury.Question) error
	Question(id string) (mercury.Question, error)
	LockQuestion(id string) (mercury.Question, error)
	SaveQuestion(q mercury.Question) error
	OpenQuestions(conversationID string) ([]mercury.Question, error) // empty: all
	RunQuestions(runID string) ([]mercury.Question, error)
	QuestionsList(p Page) ([]mercury.Question, string, error)
	// ExpiredQuestions returns open questions whose time is over.
	ExpiredQuestions(now time.Time, limit int) ([]mercury.Question, error)
	NextExpiry() (time.Time, bool, error)
}

// DeliveryFilter selects deliveries; zero fields select all.
type DeliveryFilter struct {
	Address        string
	ConversationID string
	RunID          string
	States         []mercury.DeliveryState
	Page
}

// Deliveries keeps the outbox.
type Deliveries interface {
	InsertDelivery(d mercury.Delivery) error // ErrExists: (Address, RequestID) is known
	FindDelivery(address, requestID string) (mercury.Delivery, error)
	Delivery(id string) (mercury.Delivery, error)
	LockDelivery(id string) (mercury.Delivery, error)
	SaveDelivery(d mercury.Delivery) error // parts included
	Deliveries(f DeliveryFilter) ([]mercury.Delivery, string, error)
	// NextDelivery returns, locked, the delivery to work on next among the
	// channels given: pending and due, oldest first, none whose address has
	// an older one pending or sending.
	NextDelivery(channels []string, now time.Time) (mercury.Delivery, error)
	// HeldAnswers returns a conversation's held and pending answer
	// deliveries, oldest first.
	HeldAnswers(conversationID string) ([]mercury.Delivery, error)
	// RecentAnswers returns the newest answer deliveries of a conversation,
	// newest first.
	RecentAnswers(conversationID string, limit int) ([]mercury.Delivery, error)
	// SendingBy returns deliveries with a part marked sending by owner; an
	// empty owner means by any process whose lease is over.
	SendingBy(owner string, now time.Time) ([]mercury.Delivery, error)
	NextDeliveryDue(channels []string, now time.Time) (time.Time, bool, error)
	CountDeliveries() (map[mercury.DeliveryState]int, error)
}

// Hold keeps runs of a key from being claimed until it ends by itself; the
// zero Until is someone's hold without an end.
type Hold struct {
	Key    string
	Until  time.Time
	Reason string
	By     string
}

// Holds keeps holds. "lane/NAME" and "*" are keys too.
type Holds interface {
	PutHold(h Hold) error
	DeleteHold(key string) error
	Holds() ([]Hold, error)
	NextHoldEnd(now time.Time) (time.Time, bool, error)
}

// Process is one running Mercury.
type Process struct {
	ID         string
	Node       string // identity of its home
	Name       string // host and pid, for people
	Version    string
	Digest     string // of configuration, soul, skills, bots
	StartedAt  time.Time
	LeaseUntil time.Time
}

// Lease is a right only one process has at a time, such as polling Telegram.
type Lease struct {
	Name  string
	Owner string
	Epoch int64
	Until time.Time
}

// Processes keeps who is alive, by the database's clock.
type Processes interface {
	PutProcess(p Process) error
	// Renew moves the process's lease to now plus d. ErrStale: it was
	// declared dead meanwhile and must not go on as if it were alive.
	Renew(id string, d time.Duration) error
	DeleteProcess(id string) error
	Processes() ([]Process, error)
	// TakeLease gives owner the lease if it is free, over or its own; else
	// ErrStale with who has it.
	TakeLease(name, owner string, d time.Duration) (Lease, error)
	DropLease(name, owner string) error
}

// ChannelState is what a channel must remember: its place, and until when its
// platform wants to be left alone.
type ChannelState struct {
	Name   string
	Cursor string
	Epoch  int64 // of the lease it was written under
	Data   json.RawMessage
}

// Channels keeps channel cursors.
type Channels interface {
	ChannelState(name string) (ChannelState, error)
	// SaveChannelState refuses with ErrStale under an older epoch.
	SaveChannelState(s ChannelState) error
}

// Usage row of the ledger: one call of a model. Reserved is committed before
// the call and settled by what the provider reports; one that stays reserved
// after a crash counts as estimated.
type LedgerRow struct {
	ID             string
	RunID          string
	ConversationID string
	Profile        string
	Purpose        string // "turn", "compact", "learn", …
	Provider       string
	Model          string
	State          string // "reserved", "settled"
	Usage          mercury.Usage
	At             time.Time
}

// UsageSum is usage by one group.
type UsageSum struct {
	Group string
	Calls int64
	Usage mercury.Usage
}

// Ledger keeps what models cost.
type Ledger interface {
	PutLedger(row LedgerRow) error
	// SumUsage sums rows of [from, to) by "model", "source" (provider/model),
	// "conversation", "day", "profile", "purpose" or "" (one group); by "conversation source",
	// "profile source" and "purpose source" too, whose groups are both, with a
	// space between. Days are those of zone.
	SumUsage(by string, from, to time.Time, zone *time.Location) ([]UsageSum, error)
	// FirstReserved is the time of the oldest row of [from, to) that is still
	// reserved; false when none is.
	FirstReserved(from, to time.Time) (time.Time, bool, error)
}

// Grant is a right a person gave.
type Grant struct {
	ID        string
	Actor     mercury.Actor // whom it is for
	Rule      string        // canonical, as shown
	RunID     string        // only that run
	Once      bool
	GivenBy   mercury.Actor
	Via       string // question id
	CreatedAt time.Time
	ExpiresAt time.Time // zero: until revoked
	RevokedAt time.Time
}

// AuditRow is one decision or act, kept for people.
type AuditRow struct {
	ID      string
	At      time.Time
	Actor   mercury.Actor
	Act     string // "judge", "answer", "grant", "revoke", "cancel", "resend", …
	Subject string // run, question, delivery id
	Verdict string
	Rule    string
	Detail  string
}

// Rights keeps grants and the audit.
type Rights interface {
	InsertGrant(g Grant) error
	Grants(now time.Time) ([]Grant, error) // live ones
	RevokeGrant(id string, at time.Time) error
	// UseGrant marks a once-grant used; ErrStale if it was used already.
	UseGrant(id string, at time.Time) error
	Audit(row AuditRow) error
	AuditRows(p Page) ([]AuditRow, string, error)
}

// Meta keeps single facts: schema, incarnation, boot counter.
type Meta interface {
	MetaValue(key string) (string, error)
	SetMeta(key, value string) error
}
