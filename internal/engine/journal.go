package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// largeOutput is the size above which an output is kept as a blob, in bytes.
const largeOutput = 256 << 10

// probePatience bounds asking the world after a cancellation.
const probePatience = 3 * time.Second

// StepCall describes a step before it happens.
type StepCall struct {
	Round  int    // which model call of the run
	CallID string // ours, unique in the round
	Kind   string // "model", "tool", …
	Name   string
	Effect mercury.Effect // empty: Read
	Args   []byte         // hashed; a resumed call with others is an error
	Grants []string       // once-grants, used up in the commit that marks it started
	// Probe asks the world, after a crash or a cancellation, whether a Once
	// step happened: done is its result, notDone is proof that it did not;
	// neither means nobody can tell.
	Probe func(ctx context.Context) (done *StepResult, notDone bool, err error)
	// Begin joins the commit made before the step, to look at rights again;
	// its error stops the step and is returned.
	Begin func(*Tx) error
	// Reserve is committed before the step.
	Reserve *store.LedgerRow
	// Unknown joins the commit that journals a Once step as unknown: the
	// entries that tell the model so.
	Unknown *StepResult
}

// StepResult is the outcome of a step, all of it committed together.
type StepResult struct {
	Output  json.RawMessage
	Err     string // the step failed, for the model to read; the run goes on
	Entries []mercury.Entry
	Usage   mercury.Usage
	Ledger  *store.LedgerRow
	Commit  func(*Tx) error // changes of our own state that are part of the step
}

// Journal returns the steps so far, by round and start. An output above 256 KB
// stands behind OutputRef; Do reads it.
func (w *Work) Journal() []mercury.Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]mercury.Step, 0, len(w.steps))
	for _, s := range w.steps {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b mercury.Step) int {
		return cmp.Or(cmp.Compare(a.Round, b.Round), a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.CallID, b.CallID))
	})
	return out
}

// Do runs one step, unless the journal has its outcome already: then that is
// returned and fn is not called.
//
// A Read step is written when it is done; after a crash it runs again. A Once
// step is marked started before fn and never runs twice: one that was started
// under an earlier claim is journaled as unknown, unless its Probe knows
// better, and fn is not called.
//
// An error of fn leaves a Read step unwritten and is returned. For a Once step
// a mercury.Error of a known kind is proof that nothing happened, and is
// journaled as failed; any other error, a cancellation above all, leaves it
// unknown. The step returned tells; Do's own error means that the handler must
// stop.
func (w *Work) Do(ctx context.Context, c StepCall, fn func(context.Context) (StepResult, error)) (mercury.Step, error) {
	s, known, err := w.recall(ctx, c)
	if err != nil || known {
		return s, err
	}
	if s.State == mercury.StepStarted {
		again, s, err := w.clear(ctx, c, s)
		if err != nil || !again {
			return s, err
		}
	}
	if err := w.begin(ctx, c); err != nil {
		return mercury.Step{}, err
	}
	if c.Kind == "model" {
		w.spool.open(c.Round)
	}
	// The last look before the effect: a process that was frozen may no
	// longer own the run, and a cancelled run starts nothing.
	if err := w.e.alive(); err != nil {
		return mercury.Step{}, err
	}
	if ctx.Err() != nil {
		return mercury.Step{}, w.notStarted(ctx, c)
	}
	crash.Reach(c.Kind + ".before")
	res, err := fn(ctx)
	crash.Reach(c.Kind + ".after")
	switch {
	case err == nil:
		return w.journal(ctx, c, outcomeOf(res), res)
	case c.Effect != mercury.Once:
		return mercury.Step{}, err
	}
	return w.failed(ctx, c, err)
}

func outcomeOf(res StepResult) mercury.StepState {
	if res.Err != "" {
		return mercury.StepFailed
	}
	return mercury.StepDone
}

// recall looks the step up in the journal. known means that its outcome is
// there.
func (w *Work) recall(ctx context.Context, c StepCall) (mercury.Step, bool, error) {
	if c.Kind == "" || c.CallID == "" {
		return mercury.Step{}, false, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("run step: it has no kind or no call id")}
	}
	w.mu.Lock()
	s, ok := w.steps[stepKey{c.Round, c.CallID}]
	w.mu.Unlock()
	if !ok {
		return mercury.Step{}, false, nil
	}
	if s.ArgsHash != argsHash(c.Args) {
		return s, false, &mercury.Error{Kind: mercury.Invalid,
			Err: fmt.Errorf("resume step %d/%s: the journal has it with other arguments", c.Round, c.CallID)}
	}
	if s.State == mercury.StepStarted {
		return s, false, nil
	}
	if s.OutputRef != "" && s.Output == nil {
		out, err := w.blob(ctx, s.OutputRef)
		if err != nil {
			return s, false, fmt.Errorf("read output of step %d/%s: %w", c.Round, c.CallID, err)
		}
		s.Output = out
	}
	return s, true, nil
}

func (w *Work) blob(ctx context.Context, ref string) ([]byte, error) {
	r, err := w.e.store.Blobs().Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// clear decides about a Once step that was started and whose outcome was not
// written. again means that it provably did not happen and may be done now.
func (w *Work) clear(ctx context.Context, c StepCall, s mercury.Step) (again bool, _ mercury.Step, _ error) {
	// Of a step in a copy that was brought back the world tells what the
	// original did since, or nothing: it stays unknown.
	if c.Probe != nil && s.Error != ReasonRestored {
		done, notDone, err := c.Probe(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return false, s, err
		case done != nil:
			s, err := w.journal(ctx, c, outcomeOf(*done), *done)
			return false, s, err
		case notDone && err == nil:
			return true, s, nil
		}
	}
	s, err := w.unknown(ctx, c, "Mercury was interrupted while this ran. It may or may not have happened.")
	return false, s, err
}

// begin commits what must be on disk before the step: a Once step's mark, the
// grants it uses up, a reservation.
func (w *Work) begin(ctx context.Context, c StepCall) error {
	if c.Effect != mercury.Once && c.Reserve == nil && c.Begin == nil {
		return nil
	}
	key := stepKey{c.Round, c.CallID}
	var s mercury.Step
	err := w.commit(ctx, c.Kind+".started", fence{conversation: c.Begin != nil}, func(t *Tx, r *mercury.Run) error {
		if c.Begin != nil {
			if err := c.Begin(t); err != nil {
				return err
			}
		}
		for _, g := range c.Grants {
			if err := t.UseGrant(g, t.Now()); err != nil {
				return fmt.Errorf("use grant: %w", err)
			}
		}
		if c.Reserve != nil {
			row := *c.Reserve
			row.State = "reserved"
			if err := t.PutLedger(row); err != nil {
				return err
			}
		}
		if c.Effect != mercury.Once {
			return nil
		}
		s = w.step(c, r, mercury.StepStarted)
		s.StartedAt = t.Now()
		t.witness = w.stepWitness(s)
		return t.PutStep(s)
	})
	if err == nil && c.Effect == mercury.Once {
		w.mu.Lock()
		w.steps[key] = s
		w.mu.Unlock()
	}
	return err
}

// notStarted takes back the mark of a Once step that a cancellation overtook
// before it began.
func (w *Work) notStarted(ctx context.Context, c StepCall) error {
	err := ctxError(ctx)
	if c.Effect == mercury.Once {
		_, jerr := w.journal(ctx, c, mercury.StepFailed, StepResult{Err: "It was cancelled before it began."})
		err = errors.Join(err, jerr)
	}
	return err
}

// failed journals a Once step whose function returned an error.
func (w *Work) failed(ctx context.Context, c StepCall, cause error) (mercury.Step, error) {
	var proof *mercury.Error
	if errors.As(cause, &proof) && proof.Kind != mercury.Unknown {
		return w.journal(ctx, c, mercury.StepFailed, StepResult{Err: cause.Error()})
	}
	if c.Probe != nil {
		// The tool may be able to tell; it gets a moment of its own, since ctx
		// may have ended.
		probe, stop := context.WithTimeout(context.WithoutCancel(ctx), probePatience)
		done, notDone, err := c.Probe(probe)
		stop()
		switch {
		case done != nil:
			return w.journal(ctx, c, outcomeOf(*done), *done)
		case notDone && err == nil:
			return w.journal(ctx, c, mercury.StepFailed, StepResult{Err: cause.Error()})
		}
	}
	why := "It failed on the way. It may or may not have happened."
	if ctx.Err() != nil {
		why = "It was cancelled while it ran. It may or may not have happened."
	}
	return w.unknown(ctx, c, why)
}

func (w *Work) unknown(ctx context.Context, c StepCall, why string) (mercury.Step, error) {
	res := StepResult{Err: why}
	if c.Unknown != nil {
		res = *c.Unknown
		if res.Err == "" {
			res.Err = why
		}
	}
	return w.journal(ctx, c, mercury.StepUnknown, res)
}

// journal commits an outcome. It does so though the run was asked to end,
// since what is known must not be lost; then ErrCanceled follows.
func (w *Work) journal(ctx context.Context, c StepCall, state mercury.StepState, res StepResult) (mercury.Step, error) {
	var ref string
	if len(res.Output) > largeOutput {
		var err error
		ref, err = w.e.store.Blobs().Put(context.WithoutCancel(ctx), res.Output)
		if err != nil {
			return mercury.Step{}, fmt.Errorf("keep output of step %d/%s: %w", c.Round, c.CallID, err)
		}
	}
	key := stepKey{c.Round, c.CallID}
	w.mu.Lock()
	begun := w.steps[key].StartedAt
	w.mu.Unlock()
	point := c.Kind + ".done"
	if state == mercury.StepUnknown {
		point = c.Kind + ".unknown"
	}
	var s mercury.Step
	var entries []mercury.Entry
	cancelled := false
	f := fence{conversation: len(res.Entries) > 0 || res.Commit != nil, cancelled: true}
	err := w.commit(ctx, point, f, func(t *Tx, r *mercury.Run) error {
		s = w.step(c, r, state)
		s.Output, s.OutputRef, s.Error = res.Output, ref, res.Err
		s.StartedAt, s.EndedAt = begun, t.Now()
		if begun.IsZero() {
			s.StartedAt = s.EndedAt
		}
		t.witness = w.stepWitness(s)
		cancelled = r.Cancel != ""
		var err error
		entries, err = t.outcome(r, s, res)
		return err
	})
	if err != nil {
		return mercury.Step{}, err
	}
	w.mu.Lock()
	w.steps[key] = s
	for _, en := range entries {
		if en.Kind == mercury.AssistantEntry {
			w.said = en
		}
	}
	w.mu.Unlock()
	if c.Kind == "model" {
		w.spool.discard()
	}
	if cancelled {
		w.hand.cancel(ErrCanceled)
		return s, ErrCanceled
	}
	return s, nil
}

// outcome writes a step and all that belongs to it, and returns its entries.
func (t *Tx) outcome(r *mercury.Run, s mercury.Step, res StepResult) ([]mercury.Entry, error) {
	entries, err := t.append(r.ConversationID, res.Entries...)
	if err != nil {
		return nil, err
	}
	row := s
	if row.OutputRef != "" {
		row.Output = nil
	}
	if err := t.PutStep(row); err != nil {
		return nil, err
	}
	if res.Ledger != nil {
		settled := *res.Ledger
		settled.State = "settled"
		if err := t.PutLedger(settled); err != nil {
			return nil, err
		}
	}
	if res.Commit != nil {
		if err := res.Commit(t); err != nil {
			return nil, err
		}
	}
	// A run that gets on is not what kills its owners.
	if res.Usage == (mercury.Usage{}) && r.Takeovers == 0 {
		return entries, nil
	}
	r.Usage, r.Takeovers = r.Usage.Add(res.Usage), 0
	return entries, t.SaveRun(*r)
}

func (w *Work) step(c StepCall, r *mercury.Run, state mercury.StepState) mercury.Step {
	effect := c.Effect
	if effect == "" {
		effect = mercury.Read
	}
	return mercury.Step{RunID: r.ID, Round: c.Round, CallID: c.CallID, Kind: c.Kind, Name: c.Name,
		Effect: effect, ArgsHash: argsHash(c.Args), State: state, Epoch: r.Epoch}
}

func (w *Work) stepWitness(s mercury.Step) func(store.Tx) (bool, error) {
	return func(tx store.Tx) (bool, error) {
		got, err := tx.Step(s.RunID, s.Round, s.CallID)
		ok, err := found(err)
		return ok && got.State == s.State && got.Epoch == s.Epoch, err
	}
}

func argsHash(args []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(args))
	return hex.EncodeToString(sum[:16])
}

// ctxError is why ctx ended, as one of the errors a handler passes on.
func ctxError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ctx.Err()
}
