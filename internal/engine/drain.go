package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// The parts of a drain: sends in hand get sendGrace, then are unknown;
// handlers get until drainLimit to obey. What is left over is released all the
// same, and its late writes are refused.
const (
	sendGrace  = 5 * time.Second
	drainLimit = 9 * time.Second
)

func (e *Engine) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stage == draining
}

// drain ends what is in hand and gives it back, within ten seconds.
func (e *Engine) drain(ctx context.Context, loops *sync.WaitGroup, dropWork, dropSends context.CancelCauseFunc) {
	e.mu.Lock()
	e.stage = draining
	e.mu.Unlock()
	e.bus.Publish(Event{Type: "status", Data: "draining"})
	ctx, done := context.WithTimeout(ctx, drainLimit)
	defer done()
	dropWork(errDraining)
	grace := time.AfterFunc(sendGrace, func() { dropSends(errDraining) })
	loops.Wait()
	for e.busy() && ctx.Err() == nil {
		select {
		case <-e.left.c:
		case <-ctx.Done():
			e.log.Warn("drain took too long")
		}
	}
	grace.Stop()
	dropSends(errDraining)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if err := e.letGo(last); err != nil {
		e.log.Warn("release what is in hand", "err", err)
	}
}

// busy reports whether a run or a send is in hand.
func (e *Engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.hands)+len(e.sending) > 0
}

// letGo releases whatever this process still owns, and its own row.
func (e *Engine) letGo(ctx context.Context) error {
	self := e.self()
	return e.Update(ctx, "release", func(t *Tx) error {
		left, err := t.ownRuns(self)
		if err != nil {
			return err
		}
		for _, r := range left {
			if err := t.stray(r); err != nil {
				return err
			}
		}
		sends, err := t.SendingBy(self, t.Now())
		if err != nil {
			return err
		}
		for _, d := range sends {
			if err := t.giveUpSend(d.ID, d); err != nil {
				return err
			}
		}
		return t.DeleteProcess(self)
	})
}

// ownRuns lists the runs that a process has in hand.
func (t *Tx) ownRuns(owner string) ([]mercury.Run, error) {
	var out []mercury.Run
	page := store.Page{Limit: 1000}
	for {
		runs, next, err := t.Runs(store.RunFilter{States: []mercury.RunState{mercury.RunRunning}, Page: page})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			if r.Owner == owner {
				out = append(out, r)
			}
		}
		if next == "" {
			return out, nil
		}
		page.After = next
	}
}

// reconcileLater has the scheduler look for what this process owns without
// knowing it: after a commit with an unknown outcome, or a freeze.
func (e *Engine) reconcileLater() {
	e.mu.Lock()
	e.astray = true
	e.mu.Unlock()
	e.kick(todo{cold: true})
}

// reconcile gives back what this process owns in the store and does not have
// in hand.
func (e *Engine) reconcile(ctx context.Context) error {
	e.mu.Lock()
	astray := e.astray
	e.astray = false
	e.mu.Unlock()
	if !astray {
		return nil
	}
	self := e.self()
	err := e.Update(ctx, "reconcile", func(t *Tx) error {
		runs, err := t.ownRuns(self)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if e.holds(r.ID) {
				continue
			}
			if err := t.stray(r); err != nil {
				return err
			}
		}
		sends, err := t.SendingBy(self, t.Now())
		if err != nil {
			return err
		}
		for _, d := range sends {
			if !e.isSending(d.ID) {
				if err := t.unmarkSend(d.ID, self); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		e.mu.Lock()
		e.astray = true
		e.mu.Unlock()
		return fmt.Errorf("reconcile: %w", err)
	}
	return nil
}

// stray puts back a run that nobody works on.
func (t *Tx) stray(seen mercury.Run) error {
	r, err := t.lockRun(seen.ID)
	if err != nil {
		return err
	}
	if r.State != mercury.RunRunning || r.Owner != seen.Owner || r.Epoch != seen.Epoch {
		return nil
	}
	if r.Cancel != "" {
		return t.end(&r, ending{state: mercury.RunStopped, reason: r.Cancel})
	}
	return t.requeue(&r, time.Time{})
}

func (e *Engine) holds(runID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hands[runID] != nil
}

func (e *Engine) isSending(deliveryID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sending[deliveryID] != ""
}
