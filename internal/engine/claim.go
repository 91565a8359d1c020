package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// runLanes are the lanes runs stand in, in the order they are looked at.
var runLanes = [...]mercury.Lane{mercury.Chat, mercury.Bot, mercury.Cron, mercury.Helper, mercury.Quiet}

// todo is what the scheduler has been rung for.
type todo struct {
	lanes []mercury.Lane // got runs
	cold  bool           // something became free: look where runs wait
	times bool           // something is due at another time
	since time.Time      // of the first ring
}

// kick rings the scheduler.
func (e *Engine) kick(d todo) {
	if len(d.lanes) == 0 && !d.cold && !d.times {
		return
	}
	e.mu.Lock()
	if e.stage != awake {
		// Nobody runs here; whoever does looks everywhere first.
		e.mu.Unlock()
		return
	}
	e.todo.lanes = append(e.todo.lanes, d.lanes...)
	e.todo.cold = e.todo.cold || d.cold
	e.todo.times = e.todo.times || d.times
	if e.todo.since.IsZero() {
		e.todo.since = time.Now()
	}
	e.mu.Unlock()
	e.runs.set()
}

// A hand is a run that this process has claimed.
type hand struct {
	run    mercury.Run
	owner  string
	since  time.Time
	cancel context.CancelCauseFunc
	ctx    context.Context
}

// acquire takes a slot of a lane. trusted means that only an owner's or
// admin's run may have it: one slot of the chat lane is kept for them, so that
// strangers can never shut them out.
func (e *Engine) acquire(lane mercury.Lane) (trusted, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	free := e.opts.Lanes[lane] - e.used[lane]
	if free <= 0 || e.stage != awake || e.degraded != "" {
		return false, false
	}
	e.used[lane]++
	return lane == mercury.Chat && free == 1 && e.opts.Lanes[lane] > 1, true
}

func (e *Engine) release(lane mercury.Lane) {
	e.mu.Lock()
	e.used[lane]--
	e.mu.Unlock()
}

// claimInto claims runs of the lanes given, as many as there are slots.
func (e *Engine) claimInto(t *Tx, lanes []mercury.Lane) error {
	for _, lane := range runLanes {
		if !slices.Contains(lanes, lane) {
			continue
		}
		for {
			got, err := e.claimOne(t, lane)
			if err != nil {
				return fmt.Errorf("claim run: %w", err)
			}
			if !got {
				break
			}
		}
	}
	return nil
}

func (e *Engine) claimOne(t *Tx, lane mercury.Lane) (bool, error) {
	trusted, ok := e.acquire(lane)
	if !ok {
		return false, nil
	}
	owner := e.self()
	r, err := t.Claim(store.Claim{Owner: owner, Node: e.opts.Node, Lane: lane, TrustedOnly: trusted, Only: e.opts.Only, Kinds: e.kinds()})
	if ok, err := found(err); !ok {
		e.release(lane)
		return false, err
	}
	// The hand is known before the commit, so that a cancellation which
	// follows it at once finds whom to tell.
	h := &hand{run: r, owner: owner, since: time.Now()}
	h.ctx, h.cancel = context.WithCancelCause(e.workContext())
	e.mu.Lock()
	e.hands[r.ID] = h
	e.mu.Unlock()
	t.claims = append(t.claims, h)
	t.event(Event{Type: "run", ConversationID: r.ConversationID, RunID: r.ID, Data: r})
	return true, nil
}

// kinds are the kinds of run that this process can do.
func (e *Engine) kinds() []string { return slices.Sorted(maps.Keys(e.handlers)) }

func (e *Engine) workContext() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work
}

// drop lets go of a hand and its slot.
func (e *Engine) drop(h *hand) {
	h.cancel(ErrLost)
	e.mu.Lock()
	if e.hands[h.run.ID] == h {
		delete(e.hands, h.run.ID)
	}
	e.used[h.run.Lane]--
	idle := len(e.hands) == 0
	e.mu.Unlock()
	e.left.set()
	if idle && e.opts.Idle != nil {
		e.opts.Idle()
	}
}

// cancelHand ends the context of a run in hand here.
func (e *Engine) cancelHand(runID string, cause error) {
	e.mu.Lock()
	h := e.hands[runID]
	e.mu.Unlock()
	if h != nil {
		h.cancel(cause)
	}
}

// cancelHands ends the contexts of all runs in hand.
func (e *Engine) cancelHands(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, h := range e.hands {
		h.cancel(cause)
	}
}

// clockCheck is the longest sleep towards a due time: a sleeping host stops
// the monotonic clock, and the wall clock must be looked at again. With
// nothing due, nothing wakes.
const clockCheck = time.Minute

// schedule claims runs whenever it is rung or something is due.
func (e *Engine) schedule(ctx context.Context) error {
	var due time.Time
	var again time.Duration // after an error of the store
	for {
		e.mu.Lock()
		d := e.todo
		e.todo = todo{}
		e.mu.Unlock()
		next, err := e.pass(ctx, d, due)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			due, again = next, 0
		case fatal(err):
			return err
		default:
			again = min(max(2*again, 100*time.Millisecond), 10*time.Second)
			e.log.Warn("schedule runs", "err", err, "again", again)
			// What it was rung for is still to be done.
			d.cold, d.times = true, true
			e.mu.Lock()
			e.todo = todo{lanes: append(d.lanes, e.todo.lanes...), cold: true, times: true, since: d.since}
			e.mu.Unlock()
		}
		if !e.sleep(ctx, e.runs, due, again) {
			return nil
		}
	}
}

// sleep waits for a ring, for a due time (zero: none) or for a pause after an
// error, whichever is first. It reports false when ctx has ended.
func (e *Engine) sleep(ctx context.Context, bell *signal, due time.Time, pause time.Duration) bool {
	defer e.wakes.Add(1)
	ring := bell.c
	var timer <-chan time.Time
	switch {
	case pause > 0:
		ring, timer = nil, time.After(pause)
	case !due.IsZero():
		for wait := time.Until(due); wait > clockCheck; wait = time.Until(due) {
			select {
			case <-ctx.Done():
				return false
			case <-ring:
				return true
			case <-time.After(clockCheck):
			}
		}
		timer = time.After(max(time.Until(due), 0))
	}
	select {
	case <-ctx.Done():
		return false
	case <-ring:
	case <-timer:
	}
	return true
}

// fatal reports an error after which nothing here can go on.
func fatal(err error) bool {
	return errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer)
}

// pass does what d asks for and what is due, and returns when something is
// due next, by this process's wall clock.
func (e *Engine) pass(ctx context.Context, d todo, due time.Time) (time.Time, error) {
	if !d.since.IsZero() {
		e.observe(time.Since(d.since))
	}
	if e.alive() != nil {
		return time.Time{}, nil // the next heartbeat rings again
	}
	if err := e.reconcile(ctx); err != nil {
		return due, err
	}
	timed := !due.IsZero() && !time.Now().Before(due)
	if !d.cold && !d.times && !timed {
		return due, e.claim(ctx, d.lanes)
	}
	seen, err := e.settleDue(ctx)
	if err != nil {
		return due, err
	}
	if err := e.claim(ctx, append(d.lanes, seen.lanes...)); err != nil {
		return due, err
	}
	return e.nextDue(ctx, seen.now)
}

func (e *Engine) claim(ctx context.Context, lanes []mercury.Lane) error {
	if len(lanes) == 0 {
		return nil
	}
	return e.Update(ctx, "claim", func(t *Tx) error { return e.claimInto(t, lanes) })
}

// seen is the queue at one moment.
type seen struct {
	now       time.Time // the database's
	questions []mercury.Question
	runs      []mercury.Run  // parked, and their time has come
	lanes     []mercury.Lane // in which runs are queued
}

// settleDue expires questions and wakes parked runs until nothing is overdue.
func (e *Engine) settleDue(ctx context.Context) (seen, error) {
	for {
		s, err := e.look(ctx)
		if err != nil || len(s.questions)+len(s.runs) == 0 {
			return s, err
		}
		if err := e.expire(ctx, s); err != nil {
			return s, err
		}
	}
}

func (e *Engine) look(ctx context.Context) (seen, error) {
	const batch = 100
	var s seen
	err := e.store.View(ctx, func(tx store.Tx) (err error) {
		s = seen{now: tx.Now()}
		if s.questions, err = tx.ExpiredQuestions(s.now, batch); err != nil {
			return err
		}
		if s.runs, err = tx.Overdue(s.now, batch); err != nil {
			return err
		}
		depths, err := tx.Depths()
		for lane, d := range depths {
			if d.Queued > 0 {
				s.lanes = append(s.lanes, lane)
			}
		}
		return err
	})
	return s, err
}

// nextDue is when a queued run, a parked run, a hold's end or a question's
// expiry comes next after now, which is before the queue was looked at, so
// that nothing due meanwhile is missed. Zero: nothing is.
func (e *Engine) nextDue(ctx context.Context, now time.Time) (time.Time, error) {
	var first time.Time
	err := e.store.View(ctx, func(tx store.Tx) error {
		first = time.Time{}
		consider := func(at time.Time, ok bool, err error) error {
			if ok && err == nil && (first.IsZero() || at.Before(first)) {
				first = at
			}
			return err
		}
		if err := consider(tx.NextDue(now)); err != nil {
			return err
		}
		if err := consider(tx.NextHoldEnd(now)); err != nil {
			return err
		}
		if err := consider(tx.NextExpiry()); err != nil {
			return err
		}
		first = localTime(first, tx.Now())
		return nil
	})
	return first, err
}

// localTime turns a time of the database's clock, which stands at now, into
// one of this process's wall clock.
func localTime(at, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return time.Now().Round(0).Add(max(at.Sub(now), 0) + time.Millisecond)
}
