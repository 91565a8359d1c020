package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// ReasonRestored is why a delivery is held that was pending in a copy of the
// database: the original may have sent it since.
const ReasonRestored = "restored"

// restoredNode is the beginning of a node that no process has. A live run of a
// copy is pinned to it, so that nobody claims it, whatever wakes it.
const restoredNode = "restored/"

// Outdated is what a copy of a database had in hand when it was made.
type Outdated struct {
	Deliveries []mercury.Delivery
	Runs       []mercury.Run
}

// HoldOutdated keeps back what a copy of the database would send or go on
// with: deliveries that wait to be sent are held, live runs can be claimed by
// nobody. It is for a database that nobody works on yet. Sends that were under
// way become unknown at the start, as after any kill.
func HoldOutdated(tx store.Tx) error {
	ds, err := deliveriesIn(tx, mercury.DeliveryPending)
	if err != nil {
		return fmt.Errorf("hold deliveries: %w", err)
	}
	for _, d := range ds {
		d.State, d.Reason = mercury.DeliveryHeld, ReasonRestored
		if err := tx.SaveDelivery(d); err != nil {
			return fmt.Errorf("hold delivery %s: %w", d.ID, err)
		}
	}
	runs, err := liveRuns(tx)
	if err != nil {
		return fmt.Errorf("hold runs: %w", err)
	}
	for _, r := range runs {
		if strings.HasPrefix(r.Node, restoredNode) {
			continue
		}
		r.Node = restoredNode + r.Node
		if err := tx.SaveRun(r); err != nil {
			return fmt.Errorf("hold run %s: %w", r.ID, err)
		}
		if err := doubt(tx, r); err != nil {
			return fmt.Errorf("mark steps of run %s: %w", r.ID, err)
		}
	}
	return nil
}

// doubt marks the steps of a run that were started, so that nobody is asked
// whether they happened.
func doubt(tx store.Tx, r mercury.Run) error {
	started, err := tx.StartedSteps(r.ID, r.Epoch+1)
	for _, s := range started {
		s.Error = ReasonRestored
		err = errors.Join(err, tx.PutStep(s))
	}
	return err
}

// FindOutdated lists what HoldOutdated keeps back.
func FindOutdated(tx store.Tx) (o Outdated, err error) {
	held, err := deliveriesIn(tx, mercury.DeliveryHeld)
	if err != nil {
		return o, fmt.Errorf("find held deliveries: %w", err)
	}
	for _, d := range held {
		if d.Reason == ReasonRestored {
			o.Deliveries = append(o.Deliveries, d)
		}
	}
	runs, err := liveRuns(tx)
	if err != nil {
		return o, fmt.Errorf("find held runs: %w", err)
	}
	for _, r := range runs {
		if strings.HasPrefix(r.Node, restoredNode) {
			o.Runs = append(o.Runs, r)
		}
	}
	return o, nil
}

// ResumeOutdated lets what HoldOutdated kept back go on, on a person's word;
// with discard it ends it instead: deliveries are cancelled, runs stopped. A
// run that was pinned to the home it came from is now pinned to this one.
func (t *Tx) ResumeOutdated(discard bool, by mercury.Actor) (Outdated, error) {
	o, err := FindOutdated(t)
	if err != nil {
		return o, err
	}
	for _, r := range o.Runs {
		if err := t.resumeRun(r.ID, discard, by); err != nil {
			return o, fmt.Errorf("resume run %s: %w", r.ID, err)
		}
	}
	for _, d := range o.Deliveries {
		d, err := t.LockDelivery(d.ID)
		if err != nil {
			return o, fmt.Errorf("resume delivery %s: %w", d.ID, err)
		}
		d.State, d.Reason = mercury.DeliveryPending, ""
		if discard {
			d.State, d.Reason, d.SettledAt = mercury.DeliveryCancelled, "discarded after a backup was restored", t.Now()
		}
		if err := t.saveDelivery(d); err != nil {
			return o, fmt.Errorf("resume delivery %s: %w", d.ID, err)
		}
	}
	return o, t.Audit(store.AuditRow{ID: mercury.NewID("au"), At: t.Now(), Actor: by, Act: "resume", Subject: "backup",
		Detail: fmt.Sprintf("%d deliveries, %d runs, discard %t", len(o.Deliveries), len(o.Runs), discard)})
}

func (t *Tx) resumeRun(id string, discard bool, by mercury.Actor) error {
	r, err := t.LockRun(id)
	if err != nil {
		return err
	}
	if r.Node = strings.TrimPrefix(r.Node, restoredNode); r.Node != "" {
		r.Node = t.e.opts.Node
	}
	if err := t.saved(r); err != nil || !r.State.Live() {
		return err // an earlier one of the list was its parent, and ended it
	}
	if discard && r.Cancel == "" {
		return t.Cancel(id, "discarded after a backup was restored", by)
	}
	if r.State != mercury.RunQueued {
		t.times = true
		return nil
	}
	return t.queued(r)
}

func deliveriesIn(tx store.Tx, states ...mercury.DeliveryState) (all []mercury.Delivery, err error) {
	for page := (store.Page{Limit: 1000}); ; {
		ds, next, err := tx.Deliveries(store.DeliveryFilter{States: states, Page: page})
		all = append(all, ds...)
		if err != nil || next == "" {
			return all, err
		}
		page.After = next
	}
}

func liveRuns(tx store.Tx) (all []mercury.Run, err error) {
	live := []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting}
	for page := (store.Page{Limit: 1000}); ; {
		runs, next, err := tx.Runs(store.RunFilter{States: live, Page: page})
		all = append(all, runs...)
		if err != nil || next == "" {
			return all, err
		}
		page.After = next
	}
}
