// Package engine keeps the promise that nothing accepted is lost and nothing
// done is done twice.
//
// It is a queue, a journal and an outbox over one store. A message that was
// accepted becomes a run in the commit that accepts it; a run is in the hands
// of one process at a time, under an epoch that refuses the writes of whoever
// had it before; each finished step of it is on disk before the next begins;
// its answer leaves through the outbox, where a send is marked before it is
// tried and never repeated unless it is proven that nothing was shown.
//
// The package knows no model and no channel. It runs handlers by kind and
// hands parts of deliveries to Senders; what a turn is, and how a text reaches
// a person, is decided above.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Handler works on one claimed run. It returns what Work.Settle or
// Work.Park returned, or an error whose Cure the engine applies. A nil error
// without a settle settles the run as done. Its context ends when the run is
// cancelled, the process drains, or the run was lost to another process; then
// it returns as soon as it can.
type Handler func(ctx context.Context, w *Work) error

// A Sender shows one part of a delivery to its reader and returns the
// platform's receipt. A mercury.Transient, Invalid or Denied error is proof
// that nothing was shown: the first is tried again, the others refuse the
// delivery. After any other error nobody knows, and the part stays unknown.
type Sender interface {
	Send(ctx context.Context, d mercury.Delivery, p mercury.Part) (receipt string, err error)
}

// Options tune an Engine. A zero field means its default.
type Options struct {
	Node    string // identity of this home; runs may be pinned to it
	Version string
	Name    string // host and pid, for people
	Digest  string // of configuration, soul, skills and bots

	// Lanes are caps per process. Defaults: chat 8 (one slot of them only for
	// owners and admins), bot and cron max(2, CPUs-1), helper
	// max(1, min(CPUs-1, available RAM in GB / 2)), out 8, quiet 1.
	Lanes map[mercury.Lane]int
	// InboxCap is how many inputs may wait in one conversation; default 100.
	InboxCap int
	// Backlog is how many runs of one key may be queued; default 100.
	Backlog int
	// Only restricts this process to one conversation and what descends
	// from it.
	Only string

	// Plan says which run an input starts. It is pure. Default: a run of kind
	// "turn" in lane chat, keyed by its conversation.
	Plan func(mercury.Conversation, mercury.Input) (NewRun, error)
	// Cure says what a handler's error means. Default: by mercury.KindOf.
	Cure func(mercury.Run, error) Cure
	// Split cuts a delivery into parts the platform takes. Default: the text,
	// then each file.
	Split func(mercury.Delivery) []mercury.Part
	// Failure words a failure for the person who waits for an answer.
	Failure func(run mercury.Run, code string, err error) string
	// Addresses says where the notices of a run go. Default: the mandate's
	// destination, else the conversation itself where people read it.
	Addresses func(mercury.Conversation, mercury.Run) []string

	// Spool is a folder for the text of answers that are still streaming, so
	// that a killed process leaves what it had; empty: it is not kept.
	Spool string
	Log   *slog.Logger // default discards
}

// NewRun describes a run to be queued.
type NewRun struct {
	ID             string // made before the transaction; empty: made here
	Kind           string // names the handler
	Lane           mercury.Lane
	Key            string // runs of one key go one at a time; empty: the conversation, else none
	ConversationID string
	ParentID       string
	Priority       int
	NotBefore      time.Time
	Deadline       time.Time // kept for the handler; the engine stops nothing by it
	Detached       bool      // outlives its parent's cancellation
	Node           string
	Actor          mercury.Actor
	Mandate        mercury.Mandate
	Input          json.RawMessage
}

// Remedy is what is done about a run whose handler failed.
type Remedy string

// The remedies.
const (
	Retry   Remedy = "retry"   // again after After or a back-off; counts an attempt
	Requeue Remedy = "requeue" // again after After; counts none
	Dead    Remedy = "dead"    // give up: dead list, replayable, its person is told
	Fail    Remedy = "fail"    // end: not replayable, its person is told
)

// Cure is the engine's answer to a handler's error.
type Cure struct {
	Do    Remedy
	After time.Duration // Retry: zero means a back-off with jitter
	Code  string        // such as "provider_auth"
	// Notice is told to the person, once per run and code, while the run
	// waits for its next try.
	Notice string
	// Ask parks the run with this question instead.
	Ask *mercury.Question
}

// Placement is what became of a posted input.
type Placement struct {
	Input     mercury.Input
	RunID     string // the run that will answer it; empty for a waiting follow-up
	Duplicate bool
	Outcome   string // Started, Steered, Queued, Written or Repeated
}

// What became of an input.
const (
	Started  = "started"   // a run began with it
	Steered  = "steered"   // it joins the running turn after its current tools
	Queued   = "queued"    // it waits for a run of its own
	Written  = "written"   // a passive entry; nothing starts
	Repeated = "duplicate" // it was accepted before; nothing changed
)

// What a Work or its store operations return when a handler must stop.
var (
	// ErrParked is what Park returns and the handler passes on.
	ErrParked = errors.New("run is parked")
	// ErrMore means that an input arrived before the answer was stored: the
	// loop goes on with it.
	ErrMore = errors.New("more input arrived")
	// ErrLost means that the run is no longer this process's: stop at once
	// and write nothing.
	ErrLost = errors.New("run was lost to another owner")
	// ErrCanceled means that somebody asked for the run's end.
	ErrCanceled = errors.New("run is cancelled")
)

// An Engine runs the queue and the outbox of one store in this process.
type Engine struct {
	store store.Store
	opts  Options
}
