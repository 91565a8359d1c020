package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// The lease of a process on a shared store. Whoever has not renewed for
// frozenAfter starts no effect any more, long before others may take over.
const (
	leaseLife   = 25 * time.Second
	renewEvery  = 5 * time.Second
	renewWithin = 4 * time.Second
	frozenAfter = 15 * time.Second
)

// poison is how many owners may die in a row with a run that does not get on.
const poison = 5

// forever is the lease on a store of our own: the lock on the home keeps
// others out, so nothing needs renewing.
const forever = 100 * 365 * 24 * time.Hour

// register writes this process down as alive, and those as gone that cannot
// be: on a store of our own everyone else, on a shared one whoever had this
// home before, since the lock on it is ours.
func (e *Engine) register(ctx context.Context) error {
	life := forever
	if e.shared {
		life = leaseLife
	}
	at := time.Now()
	var alive []store.Process
	err := e.Update(ctx, "register", func(t *Tx) error {
		now := t.Now()
		all, err := t.Processes()
		if err != nil {
			return err
		}
		alive = living(all, now)
		for _, p := range all {
			former := !e.shared || (p.Node != "" && p.Node == e.opts.Node)
			if former && p.ID != e.self() {
				if err := t.DeleteProcess(p.ID); err != nil {
					return err
				}
			}
		}
		return t.PutProcess(store.Process{ID: e.self(), Node: e.opts.Node, Name: e.opts.Name,
			Version: e.opts.Version, Digest: e.digest(), StartedAt: now, LeaseUntil: now.Add(life)})
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.renewed = at
	e.mu.Unlock()
	if e.shared {
		e.fit(alive)
	}
	return nil
}

// living are the processes whose lease is not over.
func living(all []store.Process, now time.Time) []store.Process {
	return slices.DeleteFunc(slices.Clone(all), func(p store.Process) bool { return !p.LeaseUntil.After(now) })
}

// sweep takes back runs and deliveries of dead processes, each in its own
// commit, so that any number of survivors may sweep at once.
func (e *Engine) sweep(ctx context.Context) error {
	const batch = 100
	for {
		var runs []mercury.Run
		var sends []mercury.Delivery
		err := e.store.View(ctx, func(tx store.Tx) (err error) {
			if runs, err = tx.Orphans(tx.Now(), batch); err != nil {
				return err
			}
			sends, err = tx.SendingBy("", tx.Now())
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := e.Update(ctx, "takeover", func(t *Tx) error { return t.takeOver(r) }); err != nil {
				return fmt.Errorf("take over run %s: %w", r.ID, err)
			}
		}
		for _, d := range sends {
			if err := e.Update(ctx, "send.orphan", func(t *Tx) error { return t.giveUpSend(d.ID, d) }); err != nil {
				return fmt.Errorf("take over delivery %s: %w", d.ID, err)
			}
		}
		if len(runs) < batch {
			return e.forget(ctx)
		}
	}
}

// forget removes the rows of processes whose work has been taken over.
func (e *Engine) forget(ctx context.Context) error {
	if !e.shared {
		return nil
	}
	var dead []string
	err := e.store.View(ctx, func(tx store.Tx) error {
		dead = dead[:0]
		all, err := tx.Processes()
		for _, p := range all {
			if p.ID != e.self() && !p.LeaseUntil.After(tx.Now()) {
				dead = append(dead, p.ID)
			}
		}
		return err
	})
	if err != nil || len(dead) == 0 {
		return err
	}
	return e.Update(ctx, "forget", func(t *Tx) error {
		for _, id := range dead {
			if err := t.DeleteProcess(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// takeOver puts a run of a dead owner back into the queue, ahead of new ones.
// It ends one that was cancelled, and one that has killed too many owners
// without getting on.
func (t *Tx) takeOver(seen mercury.Run) error {
	r, err := t.lockRun(seen.ID)
	if err != nil {
		return err
	}
	if r.State != mercury.RunRunning || r.Owner != seen.Owner || r.Epoch != seen.Epoch {
		return nil // someone else was faster
	}
	r.Takeovers++
	switch {
	case r.Cancel != "":
		return t.end(&r, ending{state: mercury.RunStopped, reason: r.Cancel})
	case r.Takeovers >= poison:
		return t.end(&r, ending{state: mercury.RunDead, code: "poison", err: &mercury.Error{
			Help: fmt.Sprintf("It was tried %d times, and Mercury stopped each time.", r.Takeovers),
			Err:  errors.New("run ended its owners")}})
	}
	return t.requeue(&r, time.Time{})
}

// requeue puts a run that is in hand back into the queue.
func (t *Tx) requeue(r *mercury.Run, notBefore time.Time) error {
	r.State, r.Owner, r.Woken, r.NotBefore = mercury.RunQueued, "", true, notBefore
	t.cold = true
	if err := t.SaveRun(*r); err != nil {
		return err
	}
	return t.queued(*r)
}

// heartbeat renews the lease, sweeps, and looks whether this process still
// fits with the others. It runs only where a store is shared.
func (e *Engine) heartbeat(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if e.alive() != nil {
			e.cancelHands(ErrLost)
		}
		err := e.beat(ctx)
		if err == nil {
			err = e.sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("keep lease", "err", err)
		}
		if fatal(err) {
			return err
		}
		if e.alive() != nil {
			e.cancelHands(ErrLost)
		}
	}
}

func (e *Engine) beat(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, renewWithin)
	defer done()
	at := time.Now()
	var alive []store.Process
	err := e.Update(ctx, "heartbeat", func(t *Tx) error {
		if err := t.Renew(e.self(), leaseLife); err != nil {
			return err
		}
		all, err := t.Processes()
		alive = living(all, t.Now())
		return err
	})
	if errors.Is(err, store.ErrStale) {
		// Declared dead: what was in hand belongs to others. Begin anew under
		// another name, so that nothing of the old one is taken for ours.
		e.cancelHands(ErrLost)
		e.mu.Lock()
		e.id = mercury.NewID("ps")
		e.mu.Unlock()
		e.log.Warn("lease was over", "process", e.self())
		if err = e.register(ctx); err == nil {
			e.reconcileLater()
		}
		return err
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	thawed := frozen(e.renewed, time.Now())
	e.renewed = at
	e.mu.Unlock()
	if thawed {
		e.reconcileLater()
		e.out.set()
	}
	e.fit(alive)
	return nil
}

// fit compares this process with the oldest of those alive: of two that differ
// in configuration the newer claims nothing and says so.
func (e *Engine) fit(alive []store.Process) {
	why := ""
	for _, p := range alive {
		if p.ID != e.self() && p.Node == e.opts.Node {
			continue // had this home before
		}
		if p.ID != e.self() && p.Digest != e.digest() {
			why = "configuration, soul, skills or bots differ from those of " + p.Name
		}
		break
	}
	e.mu.Lock()
	changed := e.degraded != why
	e.degraded = why
	e.mu.Unlock()
	if changed {
		e.log.Warn("fit with other processes", "degraded", why)
		e.kick(todo{cold: true, times: true})
	}
}

// digest names what this process works by.
func (e *Engine) digest() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Digest
}

// Redigest says that this process works by another configuration from here
// on, so that others compare themselves with that.
func (e *Engine) Redigest(ctx context.Context, digest string) error {
	e.mu.Lock()
	same := e.opts.Digest == digest
	e.opts.Digest = digest
	e.mu.Unlock()
	if same || !e.shared {
		return nil
	}
	var alive []store.Process
	err := e.Update(ctx, "redigest", func(t *Tx) error {
		all, err := t.Processes()
		if err != nil {
			return err
		}
		for i, p := range all {
			if p.ID == e.self() {
				all[i].Digest = digest
				if err := t.PutProcess(all[i]); err != nil {
					return err
				}
			}
		}
		alive = living(all, t.Now())
		return nil
	})
	if err != nil {
		return fmt.Errorf("note the changed configuration: %w", err)
	}
	e.fit(alive)
	return nil
}

// alive returns ErrLost when this process has not renewed its lease for so
// long that others may believe it dead. It is asked directly before every
// effect and every write of a run.
func (e *Engine) alive() error {
	if !e.shared {
		return nil
	}
	e.mu.Lock()
	at := e.renewed
	e.mu.Unlock()
	if frozen(at, time.Now()) {
		return fmt.Errorf("lease was not renewed in time: %w", ErrLost)
	}
	return nil
}

// frozen takes the larger of wall and monotonic time: one of them stands
// still while a host sleeps, the other when the clock is set back.
func frozen(renewed, now time.Time) bool {
	if renewed.IsZero() {
		return false
	}
	return max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) > frozenAfter
}

// listen does what other processes announce.
func (e *Engine) listen(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		poll := time.NewTicker(e.store.SafetyPoll())
		defer poll.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-poll.C:
				e.lookEverywhere(ctx)
			}
		}
	})
	for ctx.Err() == nil {
		err := e.store.Listen(ctx, func(n store.Notice) { e.heard(ctx, n) })
		if fatal(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			e.lookEverywhere(ctx)
		}
	}
	return nil
}

func (e *Engine) lookEverywhere(ctx context.Context) {
	e.kick(todo{cold: true, times: true})
	e.out.set()
	e.cancelAsked(ctx)
}

func (e *Engine) heard(ctx context.Context, n store.Notice) {
	switch n.Kind {
	case "run", "question":
		e.kick(todo{cold: true, times: true})
	case "delivery":
		e.out.set()
	case "cancel":
		e.cancelHand(n.ID, ErrCanceled)
	case "event":
		e.relay(n.ID)
	default:
		// The connection was lost, and with it what others told meanwhile.
		e.lookEverywhere(ctx)
		e.bus.Publish(Event{Type: "reset"})
	}
}

// cancelAsked looks for cancellations whose notice was lost.
func (e *Engine) cancelAsked(ctx context.Context) {
	e.mu.Lock()
	ids := make([]string, 0, len(e.hands))
	for id := range e.hands {
		ids = append(ids, id)
	}
	e.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	err := e.store.View(ctx, func(tx store.Tx) error {
		for _, id := range ids {
			r, err := tx.Run(id)
			if known, err := found(err); err != nil {
				return err
			} else if known && r.Cancel != "" {
				e.cancelHand(id, ErrCanceled)
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		e.log.Warn("look for cancellations", "err", err)
	}
}
