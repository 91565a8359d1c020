package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

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
	After time.Duration // zero with Retry: a back-off with jitter
	Code  string        // such as "provider_auth"
	// Notice is told to the person, once per run and code, while the run
	// waits for its next try.
	Notice string
	// Ask parks the run with this question instead, and sends it where the
	// run's notices go.
	Ask *mercury.Question
}

// attempts is how often a run fails by default before it is dead.
const attempts = 3

// cureByKind is the default cure: what may pass is tried again, what a person
// forbade ends, everything else is kept for a replay.
func cureByKind(r mercury.Run, err error) Cure {
	code := kindCode(err)
	var e *mercury.Error
	switch kind := mercury.KindOf(err); {
	case (kind == mercury.Transient || kind == mercury.Full) && r.Attempts+1 < attempts:
		errors.As(err, &e)
		return Cure{Do: Retry, After: e.After, Code: code}
	case kind == mercury.Denied:
		return Cure{Do: Fail, Code: code}
	}
	return Cure{Do: Dead, Code: code}
}

func kindCode(err error) string {
	switch mercury.KindOf(err) {
	case mercury.Transient:
		return "unavailable"
	case mercury.Invalid:
		return "invalid"
	case mercury.Denied:
		return "denied"
	case mercury.NotFound:
		return "not_found"
	case mercury.Full:
		return "full"
	case mercury.Conflict:
		return "conflict"
	case mercury.Setup:
		return "setup"
	}
	return "internal"
}

// backoff is base doubled n times, at most limit, give or take a fifth.
func backoff(n int, base, limit time.Duration) time.Duration {
	d := base
	for range n {
		if d *= 2; d >= limit {
			d = limit
			break
		}
	}
	return d*4/5 + rand.N(d*2/5+1)
}

// start hands a claimed run to its handler.
func (e *Engine) start(h *hand) {
	go func() {
		e.perform(h)
		e.drop(h)
		e.kick(todo{cold: true})
	}()
}

// perform calls the handler of a run and writes down what became of it.
func (e *Engine) perform(h *hand) {
	w, err := e.open(h)
	if err != nil {
		e.log.Warn("read journal", "run", h.run.ID, "err", err)
		e.reconcileLater()
		return
	}
	err = e.call(w)
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if !over {
		e.after(w, err)
	}
	w.spool.keep()
}

// open makes the Work of a claimed run. A run that was in hand before has a
// journal.
func (e *Engine) open(h *hand) (*Work, error) {
	w := &Work{e: e, hand: h, owner: h.owner, run: h.run, steps: map[stepKey]mercury.Step{}}
	resumed := h.run.Epoch > 1
	if resumed {
		err := e.store.View(h.ctx, func(tx store.Tx) error {
			steps, err := tx.Steps(h.run.ID)
			for _, s := range steps {
				w.steps[stepKey{s.Round, s.CallID}] = s
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	w.spool = newSpool(e.opts.Spool, h.run.ID, resumed, func(round int) bool {
		for key, s := range w.steps {
			if key.round == round && s.Kind == "model" && s.State != mercury.StepStarted {
				return true
			}
		}
		return false
	})
	return w, nil
}

// call runs the handler. A panic is a fault of ours: it is logged, and the run
// goes to the dead list.
func (e *Engine) call(w *Work) (err error) {
	handler := e.handlers[w.run.Kind]
	if handler == nil {
		return &mercury.Error{Kind: mercury.Setup, Help: "This version of Mercury cannot do that.",
			Err: fmt.Errorf("run %s: no handler for kind %q", w.run.ID, w.run.Kind)}
	}
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("handler panicked", "run", w.run.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return handler(w.hand.ctx, w)
}

// after decides about a run whose handler returned without settling or
// parking it.
func (e *Engine) after(w *Work, err error) {
	cause := context.Cause(w.hand.ctx)
	var fin error
	switch {
	case errors.Is(cause, ErrLost) || errors.Is(err, ErrLost):
		// Either another process has it, or this one was frozen and still
		// owns it: reconciling finds out.
		e.reconcileLater()
		return
	case errors.Is(cause, ErrCanceled) || errors.Is(err, ErrCanceled):
		fin = e.stopped(w)
	case errors.Is(cause, errDraining) || errors.Is(err, errDraining) || errors.Is(err, ErrMore) || troubled(err):
		after := time.Duration(0)
		if troubled(err) {
			after = time.Second
		}
		fin = e.giveBack(w, after)
	case err == nil:
		fin = w.Settle(w.hand.ctx, Outcome{}, nil)
		if errors.Is(fin, ErrMore) {
			fin = e.giveBack(w, 0)
		}
	default:
		fin = e.cure(w, err)
	}
	if errors.Is(fin, ErrCanceled) {
		fin = e.stopped(w)
	}
	if fin != nil {
		e.log.Warn("end run", "run", w.run.ID, "err", fin)
		e.reconcileLater()
	}
}

// troubled reports an error of the store, which says nothing about the run.
func troubled(err error) bool {
	for _, target := range []error{store.ErrUnavailable, store.ErrClosed, store.ErrUnknownOutcome, store.ErrDiskFull,
		store.ErrReadOnly, store.ErrDamaged} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// stopped ends a run that somebody asked to end.
func (e *Engine) stopped(w *Work) error {
	f := fence{conversation: true, parent: true, cancelled: true}
	err := w.commit(w.hand.ctx, "stop", f, func(t *Tx, r *mercury.Run) error {
		t.witness = endWitness(r.ID, mercury.RunStopped)
		return t.end(r, ending{state: mercury.RunStopped, reason: r.Cancel, elapsed: w.elapsed()})
	})
	if err == nil {
		w.close()
		w.spool.discard()
	}
	return err
}

// giveBack puts a run back into the queue without counting anything against
// it.
func (e *Engine) giveBack(w *Work, after time.Duration) error {
	err := w.commit(w.hand.ctx, "requeue", fence{}, func(t *Tx, r *mercury.Run) error {
		r.Running += w.elapsed()
		return t.requeue(r, later(t.Now(), after))
	})
	if err == nil {
		w.close()
	}
	return err
}

func later(now time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return now.Add(d)
}

// cure applies the cure of an error.
func (e *Engine) cure(w *Work, cause error) error {
	c := e.opts.Cure(w.Run(), cause)
	if c.Code == "" {
		c.Code = kindCode(cause)
	}
	e.log.Warn("run failed", "run", w.run.ID, "code", c.Code, "cure", string(c.Do), "err", cause)
	f := fence{conversation: true, parent: true}
	err := w.commit(w.hand.ctx, "cure", f, func(t *Tx, r *mercury.Run) error {
		if c.Ask != nil {
			return t.askInstead(r, c, w.elapsed())
		}
		switch c.Do {
		case Retry, Requeue:
			return t.again(r, c, w.elapsed())
		case Fail:
			return t.end(r, ending{state: mercury.RunFailed, code: c.Code, err: cause, elapsed: w.elapsed()})
		}
		return t.end(r, ending{state: mercury.RunDead, code: c.Code, err: cause, elapsed: w.elapsed()})
	})
	if err == nil {
		w.close()
	}
	return err
}

// again queues a failed run for its next try.
func (t *Tx) again(r *mercury.Run, c Cure, elapsed time.Duration) error {
	if c.Do == Retry {
		if c.After == 0 {
			c.After = backoff(r.Attempts, 2*time.Second, time.Minute)
		}
		r.Attempts++
	}
	r.Running += elapsed
	if c.Notice != "" && r.ErrorCode != c.Code {
		if err := t.tell(*r, c.Code, c.Notice); err != nil {
			return err
		}
	}
	r.ErrorCode = c.Code
	return t.requeue(r, later(t.Now(), c.After))
}

// askInstead parks a failed run with a question to its person.
func (t *Tx) askInstead(r *mercury.Run, c Cure, elapsed time.Duration) error {
	q := *c.Ask
	if q.ID == "" {
		q.ID = mercury.NewID("qu")
	}
	r.ErrorCode = c.Code
	if err := t.park(r, Park{Questions: []mercury.Question{q}, Reason: c.Code}, elapsed); err != nil {
		return err
	}
	if r.ConversationID == "" {
		return nil
	}
	conv, err := t.LockConversation(r.ConversationID)
	if err != nil {
		return err
	}
	for _, address := range t.e.opts.Addresses(conv, *r) {
		if _, _, err := t.Emit(mercury.Delivery{Address: address, ConversationID: conv.ID, RunID: r.ID,
			Kind: mercury.QuestionDelivery, QuestionID: q.ID, RequestID: "question/" + q.ID, Text: questionText(q)}); err != nil {
			return err
		}
	}
	return nil
}

// questionText is a question for a reader who has only text.
func questionText(q mercury.Question) string {
	var b strings.Builder
	b.WriteString(q.Title)
	if q.Body != "" {
		b.WriteString("\n" + q.Body)
	}
	for _, c := range q.Choices {
		b.WriteString("\n- " + c.Label)
	}
	return b.String()
}

// Replay starts a dead or stopped run again: a new run with the old input and
// a link to it, holding the inputs that stayed unanswered. A mercury.Conflict
// means that it ended another way, or that its conversation is busy.
func (e *Engine) Replay(ctx context.Context, runID string, by mercury.Actor) (mercury.Run, error) {
	id := mercury.NewID("run")
	var out mercury.Run
	err := e.Update(ctx, "replay", func(t *Tx) error {
		old, err := t.lockRun(runID)
		if err != nil {
			return err
		}
		if old.State != mercury.RunDead && old.State != mercury.RunStopped {
			return &mercury.Error{Kind: mercury.Conflict, Help: "Only work that was stopped or given up can be replayed.",
				Err: fmt.Errorf("run is %s", old.State)}
		}
		n := NewRun{ID: id, Kind: old.Kind, Lane: old.Lane, Key: old.Key, ConversationID: old.ConversationID,
			Priority: old.Priority, Detached: old.Detached, Node: old.Node, Actor: old.Actor, Mandate: old.Mandate, Input: old.Input}
		r := n.run(t.Now())
		r.ReplayOf = old.ID
		err = t.insertRun(r)
		if errors.Is(err, store.ErrExists) {
			return &mercury.Error{Kind: mercury.Conflict, Help: "The conversation is busy; replay it when that is done.",
				Err: fmt.Errorf("%s has a live run", old.ConversationID)}
		}
		if err != nil {
			return err
		}
		if err := t.replace(old, r); err != nil {
			return err
		}
		out = r
		t.witness = func(tx store.Tx) (bool, error) {
			_, err := tx.Run(id)
			return found(err)
		}
		return t.Audit(store.AuditRow{ID: mercury.NewID("au"), At: t.Now(), Actor: by, Act: "replay", Subject: old.ID, Detail: r.ID})
	})
	if err != nil {
		return mercury.Run{}, fmt.Errorf("replay run %s: %w", runID, err)
	}
	return out, nil
}

// replace moves what old left unanswered into r. A note marks the place, since
// the inputs' entries stand further up already.
func (t *Tx) replace(old, r mercury.Run) error {
	inputs, err := t.RunInputs(old.ID)
	if err != nil {
		return err
	}
	moved := 0
	for _, in := range inputs {
		if in.State != mercury.InputUnanswered {
			continue
		}
		in.State, in.Reason, in.RunID, in.SettledAt = mercury.InputPlaced, "", r.ID, time.Time{}
		if err := t.SaveInput(in); err != nil {
			return err
		}
		moved++
	}
	if moved == 0 || r.ConversationID == "" {
		return nil
	}
	_, err = t.append(r.ConversationID, mercury.Entry{Kind: mercury.NoteEntry, RunID: r.ID, Actor: r.Actor,
		Text: "The request above is tried again."})
	return err
}
