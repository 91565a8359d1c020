package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Work is one claimed run in hand. Its methods may be called by several
// goroutines of the handler. Everything it writes is fenced: it is refused
// with ErrLost once another process has the run, and with ErrCanceled once
// somebody asked for its end.
type Work struct {
	e     *Engine
	hand  *hand
	owner string
	spool *spool

	mu    sync.Mutex
	run   mercury.Run
	steps map[stepKey]mercury.Step
	said  mercury.Entry // the last assistant entry of this claim
	over  bool          // settled or parked: nothing more is written
}

type stepKey struct {
	round  int
	callID string
}

// commitPatience bounds one fenced commit. It does not end with the handler's
// context, since what was done must be written down after a cancellation too.
const commitPatience = 15 * time.Second

// Run returns the run as this process last wrote it.
func (w *Work) Run() mercury.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run
}

// View runs fn on a consistent snapshot.
func (w *Work) View(ctx context.Context, fn func(store.Tx) error) error {
	return w.e.store.View(ctx, fn)
}

// Update commits fn under the run's fence, with its conversation locked.
func (w *Work) Update(ctx context.Context, point string, fn func(*Tx) error) error {
	return w.commit(ctx, point, fence{conversation: true}, func(t *Tx, _ *mercury.Run) error { return fn(t) })
}

// Questions returns the run's questions, in the order they were asked, with
// their answers.
func (w *Work) Questions(ctx context.Context) ([]mercury.Question, error) {
	var out []mercury.Question
	err := w.e.store.View(ctx, func(tx store.Tx) error {
		var err error
		out, err = tx.RunQuestions(w.Run().ID)
		return err
	})
	return out, err
}

// Publish puts ev into the lossy stream, with the run's ids.
func (w *Work) Publish(ev Event) {
	r := w.Run()
	ev.RunID = r.ID
	if ev.ConversationID == "" {
		ev.ConversationID = r.ConversationID
	}
	w.e.bus.Publish(ev)
}

// Partial adds text to the spool of the answer that is streaming, so that a
// kill leaves it. It is cheap and best effort.
func (w *Work) Partial(text string) { w.spool.add(text) }

// TakePartial returns, once, what an earlier claim of this run streamed of a
// model step that it did not finish.
func (w *Work) TakePartial() string { return w.spool.take() }

// Steers makes the waiting steers of the run's actor, and all waiting writes,
// part of the conversation in one commit, and returns their entries: writes
// first, each kind in order of arrival. Call it after each round of tools.
func (w *Work) Steers(ctx context.Context) ([]mercury.Entry, error) {
	r := w.Run()
	if r.ConversationID == "" {
		return nil, nil
	}
	waiting := 0
	// Looking costs no commit. What arrives after the look is found by the
	// next one, at the latest by Settle.
	if err := w.e.store.View(ctx, func(tx store.Tx) (err error) {
		waiting, err = tx.CountQueued(r.ConversationID)
		return err
	}); err != nil || waiting == 0 {
		return nil, err
	}
	var placed []mercury.Entry
	err := w.commit(ctx, "steers", fence{conversation: true}, func(t *Tx, r *mercury.Run) error {
		before := len(t.events)
		queue, err := t.QueuedInputs(r.ConversationID)
		if err != nil {
			return err
		}
		if err := t.placeSteers(*r, queue); err != nil {
			return err
		}
		placed = placed[:0]
		for _, ev := range t.events[before:] {
			if en, ok := ev.Data.(mercury.Entry); ok {
				placed = append(placed, en)
			}
		}
		return nil
	})
	return placed, err
}

// placeSteers makes all writes, then the steers of r's actor, entries.
func (t *Tx) placeSteers(r mercury.Run, queue []mercury.Input) error {
	rest, err := t.placeWrites(r.ConversationID, queue)
	if err != nil {
		return err
	}
	_, err = t.placeInto(r, steersOf(rest, r.Actor))
	return err
}

// Park says what a run waits for: that every question is settled and every
// child has ended, or that Until has come.
type Park struct {
	Questions []mercury.Question // inserted here, with defaults filled in
	Children  []string           // ids of runs
	Until     time.Time
	Reason    string // shown to people
}

// Park frees the run's slot, and keeps its conversation, until what p names
// has come; then the handler is called again. fn joins the commit, for
// instance to emit the questions. It returns ErrParked, which the handler
// passes on. Questions that name no end expire after 24 hours, which counts
// as no.
func (w *Work) Park(ctx context.Context, p Park, fn func(*Tx) error) error {
	if len(p.Questions) == 0 && len(p.Children) == 0 && p.Until.IsZero() {
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("park run: it would wait for nothing")}
	}
	for i := range p.Questions {
		if p.Questions[i].ID == "" {
			p.Questions[i].ID = mercury.NewID("qu")
		}
	}
	err := w.commit(ctx, "park", fence{conversation: true}, func(t *Tx, r *mercury.Run) error {
		if err := t.park(r, p, w.elapsed()); err != nil {
			return err
		}
		if fn != nil {
			if err := fn(t); err != nil {
				return err
			}
		}
		// Children may have ended before this run began to wait.
		return t.wake(r)
	})
	if err != nil {
		return err
	}
	w.close()
	return ErrParked
}

func (t *Tx) park(r *mercury.Run, p Park, elapsed time.Duration) error {
	wait := &mercury.Wait{Children: p.Children, Until: p.Until, Reason: p.Reason}
	for _, q := range p.Questions {
		q, err := t.ask(*r, q)
		if err != nil {
			return err
		}
		wait.Questions = append(wait.Questions, q.ID)
	}
	r.State, r.Wait, r.Owner = mercury.RunWaiting, wait, ""
	r.Running += elapsed
	t.times, t.cold = true, true
	return t.saved(*r)
}

// elapsed is how long the run has been in hand.
func (w *Work) elapsed() time.Duration { return time.Since(w.hand.since) }

// close ends the work: nothing is written after it.
func (w *Work) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}

// fence says what a fenced commit locks and tolerates.
type fence struct {
	conversation bool // entries are appended or inputs placed
	parent       bool // the run's end is told to its parent
	cancelled    bool // goes on though somebody asked for the run's end
}

// commit runs fn in one transaction if the run is still this process's. fn
// gets the run as it stands and saves what it changes.
func (w *Work) commit(ctx context.Context, point string, f fence, fn func(*Tx, *mercury.Run) error) error {
	if err := w.e.alive(); err != nil {
		return err
	}
	w.mu.Lock()
	id, conv, parent, epoch, over := w.run.ID, w.run.ConversationID, w.run.ParentID, w.run.Epoch, w.over
	w.mu.Unlock()
	if over {
		return fmt.Errorf("%s of run %s: %w", point, id, ErrLost)
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
	defer done()
	var now mercury.Run
	err := w.e.Update(ctx, point, func(t *Tx) error {
		if f.conversation && conv != "" {
			if _, err := t.LockConversation(conv); err != nil {
				return err
			}
		}
		if f.parent && parent != "" {
			if _, err := t.LockRun(parent); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		r, err := t.LockRun(id)
		if err != nil {
			return err
		}
		if r.State != mercury.RunRunning || r.Owner != w.owner || r.Epoch != epoch {
			return ErrLost
		}
		if r.Cancel != "" && !f.cancelled {
			return ErrCanceled
		}
		if err := fn(t, &r); err != nil {
			return err
		}
		now = r
		return nil
	})
	switch {
	case err == nil:
		w.mu.Lock()
		w.run = now
		w.mu.Unlock()
		return nil
	case errors.Is(err, ErrLost):
		w.hand.cancel(ErrLost)
	case errors.Is(err, ErrCanceled):
		w.hand.cancel(ErrCanceled)
	}
	return fmt.Errorf("%s of run %s: %w", point, id, err)
}
