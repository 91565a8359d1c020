package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

var errSurface = errors.ErrUnsupported

// New returns an engine over s. It starts nothing.
func New(s store.Store, o Options) *Engine { return &Engine{store: s, opts: o} }

// Handle names the handler of a kind of run. Call it before Run.
func (e *Engine) Handle(kind string, h Handler) {}

// Sender names who shows deliveries to addresses of channel; nil removes it.
func (e *Engine) Sender(channel string, s Sender) {}

// Run works the queue and the outbox until ctx ends, then drains for at most
// ten seconds.
func (e *Engine) Run(ctx context.Context) error { return errSurface }

// Update runs fn in one durable transaction. point names it for crash tests.
func (e *Engine) Update(ctx context.Context, point string, fn func(*Tx) error) error {
	return errSurface
}

// View runs fn on a consistent snapshot.
func (e *Engine) View(ctx context.Context, fn func(store.Tx) error) error {
	return e.store.View(ctx, fn)
}

// Bus returns the lossy stream of what happens.
func (e *Engine) Bus() *Bus { return nil }

// Replay starts a dead or stopped run again.
func (e *Engine) Replay(ctx context.Context, runID string, by mercury.Actor) (mercury.Run, error) {
	return mercury.Run{}, errSurface
}

// Resend sends again, on a person's word, what was unknown, refused or held.
func (e *Engine) Resend(ctx context.Context, deliveryID string, by mercury.Actor) (mercury.Delivery, error) {
	return mercury.Delivery{}, errSurface
}

// Status describes the engine now.
func (e *Engine) Status(ctx context.Context) (Status, error) { return Status{}, errSurface }

// Status is the engine at one moment.
type Status struct {
	State      string // "working", "idle", "draining", "degraded"
	Degraded   string // why, for a person
	Lanes      map[mercury.Lane]LaneStatus
	Deliveries map[mercury.DeliveryState]int
	Questions  int           // open
	Latency    time.Duration // of the scheduler, recent average
	Worst      time.Duration // since the start
	Processes  []store.Process
	Holds      []store.Hold
}

// LaneStatus is one lane.
type LaneStatus struct {
	store.LaneDepth
	Here int // in hand of this process
	Cap  int
}

// A Tx is one transaction of the store with the engine's rules on top.
type Tx struct {
	store.Tx
	e *Engine
}

// Post places an input.
func (t *Tx) Post(in mercury.Input) (Placement, error) { return Placement{}, errSurface }

// Enqueue queues a run.
func (t *Tx) Enqueue(n NewRun) (mercury.Run, error) { return mercury.Run{}, errSurface }

// Append appends entries to a conversation.
func (t *Tx) Append(conversationID string, es ...mercury.Entry) ([]mercury.Entry, error) {
	return nil, errSurface
}

// Emit stores a delivery; the bool reports that it was stored before.
func (t *Tx) Emit(d mercury.Delivery) (mercury.Delivery, bool, error) { return d, false, errSurface }

// Answer settles a question.
func (t *Tx) Answer(questionID, answer string, by mercury.Actor, via string) (mercury.Question, error) {
	return mercury.Question{}, errSurface
}

// Cancel asks for the end of a run and its children.
func (t *Tx) Cancel(runID, reason string, by mercury.Actor) error { return errSurface }

// Withdraw takes back the waiting inputs of a conversation.
func (t *Tx) Withdraw(conversationID, reason string) (int, error) { return 0, errSurface }

// Hold keeps runs of a key from starting until then; zero: until Release.
func (t *Tx) Hold(key string, until time.Time, reason, by string) error { return errSurface }

// Release ends a hold.
func (t *Tx) Release(key string) error { return errSurface }

// A Work is one claimed run in hand.
type Work struct{ e *Engine }

// Run returns the run as last seen.
func (w *Work) Run() mercury.Run { return mercury.Run{} }

// Journal returns the steps so far, by round.
func (w *Work) Journal() []mercury.Step { return nil }

// Do runs one step unless the journal has its outcome.
func (w *Work) Do(ctx context.Context, c StepCall, fn func(context.Context) (StepResult, error)) (mercury.Step, error) {
	return mercury.Step{}, errSurface
}

// Steers places waiting steers and writes.
func (w *Work) Steers(ctx context.Context) ([]mercury.Entry, error) { return nil, errSurface }

// Park frees the slot until what p names has come.
func (w *Work) Park(ctx context.Context, p Park, fn func(*Tx) error) error { return errSurface }

// Settle ends the run.
func (w *Work) Settle(ctx context.Context, o Outcome, fn func(*Tx) error) error { return errSurface }

// Update commits fn under the run's fence, its conversation locked.
func (w *Work) Update(ctx context.Context, point string, fn func(*Tx) error) error { return errSurface }

// View reads a consistent snapshot.
func (w *Work) View(ctx context.Context, fn func(store.Tx) error) error { return w.e.View(ctx, fn) }

// Partial adds text to the spool of the answer that is streaming.
func (w *Work) Partial(text string) {}

// TakePartial returns, once, what an earlier claim of this run had streamed
// of a model step that it did not finish.
func (w *Work) TakePartial() string { return "" }

// Publish sends ev to the bus.
func (w *Work) Publish(ev Event) {}

// Questions returns the run's questions with their answers.
func (w *Work) Questions(ctx context.Context) ([]mercury.Question, error) { return nil, errSurface }

// StepCall describes a step before it happens.
type StepCall struct {
	Round  int
	CallID string
	Kind   string // "model", "tool", …
	Name   string
	Effect mercury.Effect
	Args   []byte   // hashed; a resumed call with others is an error
	Grants []string // once-grants used up in the commit that marks it started
	// Probe asks the world, after a crash or a cancellation, whether a Once
	// step happened.
	Probe func(ctx context.Context) (done *StepResult, notDone bool, err error)
	// Begin joins the commit made before fn; its error stops the step.
	Begin func(*Tx) error
	// Reserve is committed before fn.
	Reserve *store.LedgerRow
	// Unknown is what joins the commit that journals a Once step as unknown,
	// such as the entry that tells the model.
	Unknown *StepResult
}

// StepResult is the outcome of a step, committed in one.
type StepResult struct {
	Output  json.RawMessage
	Err     string // the step failed; the run goes on
	Entries []mercury.Entry
	Usage   mercury.Usage
	Ledger  *store.LedgerRow
	Commit  func(*Tx) error
}

// Park says what a run waits for: every question settled and every child
// ended, or Until.
type Park struct {
	Questions []mercury.Question // inserted here
	Children  []string
	Until     time.Time
	Reason    string
}

// Outcome ends a run.
type Outcome struct {
	Entries []mercury.Entry
	// Answer holds one delivery for each address. EntrySeq is filled with the
	// last assistant entry of Entries.
	Answer []mercury.Delivery
	State  mercury.RunState // zero: done
	Result json.RawMessage
	Code   string
	Error  string // for a person
}

// Event is one line of the lossy stream.
type Event struct {
	ID             string
	Type           string // "entry", "run", "delta", "phase", "tool", "question", "delivery", "reset", "status"
	ConversationID string
	RunID          string
	At             time.Time
	// Data is a mercury.Entry, Run, Question or Delivery by type, or what the
	// publisher of the type defines; nil: look it up.
	Data any
}

// A Bus is a bounded ring of events.
type Bus struct{}

// Publish adds ev.
func (b *Bus) Publish(ev Event) {}

// Subscribe yields events after the one with id after (empty: from now) until
// ctx ends. Whoever asks for an id that is gone, or falls behind, gets a
// "reset" event first.
func (b *Bus) Subscribe(ctx context.Context, after string) iter.Seq[Event] { return nil }

// InputData is the Data of a user entry, and of the note a write becomes.
type InputData struct {
	InputID string         `json:"input_id"`
	Files   []mercury.File `json:"files,omitempty"`
	SentAt  time.Time      `json:"sent_at,omitzero"`
}
