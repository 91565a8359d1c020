package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Outcome ends a run.
type Outcome struct {
	Entries []mercury.Entry
	// Answer holds one delivery for each address. What is empty is filled in:
	// kind, ids, and EntrySeq with the last assistant entry of the run. An
	// answer without text and files is not sent.
	Answer []mercury.Delivery
	State  mercury.RunState // zero: done
	Result json.RawMessage  // for a parent
	Code   string           // failed, dead: such as "limit_steps"
	Error  string           // failed, dead: for a person; empty: Options.Failure says it

	// Next is asked in the commit whether a run that would be done goes on all
	// the same, though nobody wrote meanwhile: what it returns is appended, the
	// answer goes out, and Settle returns ErrMore. Nil, or no entries: it ends.
	Next func(*Tx, mercury.Run) ([]mercury.Entry, error)
}

// Reasons for holding an answer or leaving an input without one.
const (
	ReasonNewerInput = "newer_input"
	ReasonStopped    = "stopped"
	ReasonByHand     = "resent by hand"
)

// keepRuns is how many ended runs of a key keep their journal. Every sixteenth
// run that ends, by its id, removes what is beyond.
const (
	keepRuns  = 50
	pruneMark = "0"
)

// Settle ends the run in one commit: entries, answer deliveries, the inputs it
// held, the word to its parent, and a successor for what waits. fn joins the
// commit.
//
// If a steer arrived meanwhile, a run that would be done goes on instead: the
// commit stores the entries, holds the answer as a draft, places the steers,
// and Settle returns ErrMore without calling fn. The same happens, but for the
// held answer, when Next has it go on.
//
// A failed or dead outcome also tells the run's person.
func (w *Work) Settle(ctx context.Context, o Outcome, fn func(*Tx) error) error {
	if o.State == "" {
		o.State = mercury.RunDone
	}
	if o.State.Live() {
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("settle run: %s is no end", o.State)}
	}
	more := false
	f := fence{conversation: true, parent: true, cancelled: o.State == mercury.RunStopped}
	err := w.commit(ctx, "settle", f, func(t *Tx, r *mercury.Run) error {
		more = false
		t.witness = endWitness(r.ID, o.State)
		entries, err := t.append(r.ConversationID, o.Entries...)
		if err != nil {
			return err
		}
		queue, err := t.QueuedInputs(r.ConversationID)
		if err != nil {
			return err
		}
		more = o.State == mercury.RunDone && len(steersOf(queue, r.Actor)) > 0
		if err := t.answer(*r, append(w.lastAnswer(), entries...), o.Answer, more); err != nil {
			return err
		}
		if more {
			t.witness = nil
			return t.placeSteers(*r, queue)
		}
		if o.State == mercury.RunDone && o.Next != nil {
			next, err := o.Next(t, *r)
			if err != nil {
				return err
			}
			if more = len(next) > 0; more {
				t.witness = nil
				_, err := t.append(r.ConversationID, next...)
				return err
			}
		}
		if fn != nil {
			if err := fn(t); err != nil {
				return err
			}
		}
		return t.end(r, ending{state: o.State, code: o.Code, text: o.Error, result: o.Result, elapsed: w.elapsed()})
	})
	if err != nil {
		return err
	}
	if more {
		return ErrMore
	}
	w.close()
	w.spool.discard()
	return nil
}

func endWitness(runID string, state mercury.RunState) func(store.Tx) (bool, error) {
	return func(tx store.Tx) (bool, error) {
		r, err := tx.Run(runID)
		ok, err := found(err)
		return ok && r.State == state, err
	}
}

// answer emits the deliveries of an answer, as drafts when hold is set.
func (t *Tx) answer(r mercury.Run, entries []mercury.Entry, ds []mercury.Delivery, hold bool) error {
	if len(ds) == 0 {
		return nil
	}
	seq, err := t.answerSeq(r, entries)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if d.Text == "" && len(d.Files) == 0 {
			continue
		}
		d.ConversationID, d.RunID = r.ConversationID, r.ID
		if d.Kind == "" {
			d.Kind = mercury.AnswerDelivery
		}
		if d.EntrySeq == 0 {
			d.EntrySeq = seq
		}
		if d.RequestID == "" {
			d.RequestID = fmt.Sprintf("answer/%s/%d", r.ID, d.EntrySeq)
		}
		if hold && d.Kind == mercury.AnswerDelivery {
			d.State, d.Reason = mercury.DeliveryHeld, ReasonNewerInput
		}
		if _, _, err := t.Emit(d); err != nil {
			return err
		}
	}
	return nil
}

// lastAnswer is the last assistant entry that a step of this claim wrote.
func (w *Work) lastAnswer() []mercury.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said.Seq == 0 {
		return nil
	}
	return []mercury.Entry{w.said}
}

// answerSeq is the seq of the entry that an answer shows: the run's last
// assistant entry, one of entries or written under an earlier claim.
func (t *Tx) answerSeq(r mercury.Run, entries []mercury.Entry) (int64, error) {
	if r.ConversationID == "" {
		return 0, nil
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == mercury.AssistantEntry {
			return entries[i].Seq, nil
		}
	}
	const recent = 20
	newest, err := t.EntriesBefore(r.ConversationID, 0, recent)
	if err != nil {
		return 0, err
	}
	for i := len(newest) - 1; i >= 0; i-- {
		if newest[i].Kind == mercury.AssistantEntry && newest[i].RunID == r.ID {
			return newest[i].Seq, nil
		}
	}
	if len(newest) > 0 {
		return newest[len(newest)-1].Seq, nil
	}
	return 0, nil
}

// ending is how a run ends.
type ending struct {
	state   mercury.RunState
	code    string // of a failure
	text    string // of a failure, for a person
	reason  string // why its inputs stay unanswered; default the code
	err     error  // what failed, for Options.Failure
	result  json.RawMessage
	elapsed time.Duration // in hand since the claim
}

// end writes the end of r, whose conversation and parent are locked, and all
// that follows from it.
func (t *Tx) end(r *mercury.Run, o ending) error {
	failed := o.state == mercury.RunFailed || o.state == mercury.RunDead
	if failed {
		if o.code == "" {
			o.code = "failed"
		}
		if o.text == "" {
			o.text = t.e.opts.Failure(*r, o.code, o.err)
		}
	}
	r.State, r.EndedAt, r.Owner, r.Wait = o.state, t.Now(), "", nil
	r.ErrorCode, r.Error = o.code, o.text
	r.Running += o.elapsed
	if o.result != nil {
		r.Result = o.result
	}
	if err := t.saved(*r); err != nil {
		return err
	}
	if err := t.settleInputs(*r, o); err != nil {
		return err
	}
	// A run that is done after its first claim never parked: it asked nothing.
	if o.state != mercury.RunDone || r.Epoch > 1 {
		if err := t.withdrawQuestions(*r); err != nil {
			return err
		}
	}
	if o.state != mercury.RunDone {
		if err := t.closeSteps(*r); err != nil {
			return err
		}
	}
	if failed {
		if err := t.tell(*r, "failure", o.text); err != nil {
			return err
		}
	}
	if err := t.wakeParent(*r); err != nil {
		return err
	}
	if err := t.hasEnded(*r); err != nil {
		return err
	}
	t.cold = true
	if r.ConversationID != "" {
		conv, err := t.LockConversation(r.ConversationID)
		if err != nil {
			return err
		}
		if err := t.successor(conv); err != nil {
			return err
		}
	}
	if strings.HasSuffix(r.ID, pruneMark) {
		return t.PruneRuns(r.Key, keepRuns)
	}
	return nil
}

// settleInputs closes what the run held.
func (t *Tx) settleInputs(r mercury.Run, o ending) error {
	inputs, err := t.RunInputs(r.ID)
	if err != nil {
		return err
	}
	reason := o.reason
	if reason == "" {
		reason = o.code
	}
	for _, in := range inputs {
		if in.State != mercury.InputPlaced {
			continue
		}
		in.State, in.SettledAt = mercury.InputDone, t.Now()
		if o.state != mercury.RunDone {
			in.State, in.Reason = mercury.InputUnanswered, reason
		}
		if err := t.SaveInput(in); err != nil {
			return err
		}
	}
	return nil
}

// closeSteps marks as unknown what was started and never finished.
func (t *Tx) closeSteps(r mercury.Run) error {
	steps, err := t.StartedSteps(r.ID, r.Epoch+1)
	if err != nil {
		return err
	}
	for _, s := range steps {
		s.State, s.EndedAt = mercury.StepUnknown, t.Now()
		s.Error = "The run ended while this ran. It may or may not have happened."
		if err := t.PutStep(s); err != nil {
			return err
		}
	}
	return nil
}

// tell notes something about a run in its conversation and sends it to its
// people, once per run and subject.
func (t *Tx) tell(r mercury.Run, subject, text string) error {
	if r.ConversationID == "" {
		return nil
	}
	conv, err := t.LockConversation(r.ConversationID)
	if err != nil {
		return err
	}
	for _, address := range t.e.opts.Addresses(conv, r) {
		_, known, err := t.Emit(mercury.Delivery{
			Address: address, ConversationID: conv.ID, RunID: r.ID, Kind: mercury.NoticeDelivery,
			RequestID: fmt.Sprintf("notice/%s/%s", r.ID, subject), Text: text, Digest: subject,
		})
		if err != nil {
			return err
		}
		if known {
			return nil
		}
	}
	_, err = t.append(conv.ID, mercury.Entry{Kind: mercury.NoteEntry, RunID: r.ID, Text: text})
	return err
}

// wakeParent tells a waiting parent that this child has ended.
func (t *Tx) wakeParent(r mercury.Run) error {
	if r.ParentID == "" {
		return nil
	}
	parent, err := t.LockRun(r.ParentID)
	known, err := found(err)
	if err != nil || !known {
		return err
	}
	return t.wake(&parent)
}

// wake queues a parked run if what it waits for has come.
func (t *Tx) wake(r *mercury.Run) error {
	if r.State != mercury.RunWaiting || r.Wait == nil {
		return nil
	}
	if r.Wait.Until.IsZero() || r.Wait.Until.After(t.Now()) {
		ready, err := t.arrived(*r)
		if err != nil || !ready {
			return err
		}
	}
	r.State, r.Wait, r.Woken, r.Owner, r.NotBefore = mercury.RunQueued, nil, true, "", time.Time{}
	if err := t.SaveRun(*r); err != nil {
		return err
	}
	return t.queued(*r)
}

// arrived reports whether all questions are settled and all children have
// ended. A run that waits for a time alone is not woken by this.
func (t *Tx) arrived(r mercury.Run) (bool, error) {
	if len(r.Wait.Questions)+len(r.Wait.Children) == 0 {
		return false, nil
	}
	for _, id := range r.Wait.Questions {
		q, err := t.Question(id)
		known, err := found(err)
		if err != nil || (known && q.State == mercury.QuestionOpen) {
			return false, err
		}
	}
	for _, id := range r.Wait.Children {
		child, err := t.Run(id)
		known, err := found(err)
		if err != nil || (known && child.State.Live()) {
			return false, err
		}
	}
	return true, nil
}

// lockRun locks what the end of a run touches, in the one order: its
// conversation, its parent, the run.
func (t *Tx) lockRun(id string) (mercury.Run, error) {
	r, err := t.Run(id)
	if err != nil {
		return r, err
	}
	if r.ConversationID != "" {
		if _, err := t.LockConversation(r.ConversationID); err != nil {
			return r, err
		}
	}
	if r.ParentID != "" {
		if _, err := t.LockRun(r.ParentID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
	}
	return t.LockRun(id)
}
