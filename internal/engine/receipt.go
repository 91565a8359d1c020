package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// receipted is a delivery after one of its parts was tried.
type receipted struct {
	delivery mercury.Delivery
	more     bool // its next part is marked sending
}

// noteReceipt commits what came of a send. It insists as long as the store is
// in trouble and this process lives: what is not written stays unknown.
func (e *Engine) noteReceipt(ctx context.Context, id, attempt, next, receipt string, cause error) (receipted, bool) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		var r receipted
		commit, done := context.WithTimeout(context.WithoutCancel(ctx), commitPatience)
		err := e.Update(commit, "send.receipt", func(t *Tx) error {
			var err error
			r, err = t.receipt(id, attempt, next, receipt, cause)
			return err
		})
		done()
		if err == nil {
			return r, true
		}
		e.log.Warn("keep receipt", "delivery", id, "err", err)
		if errors.Is(err, store.ErrClosed) {
			return r, false
		}
		select {
		case <-ctx.Done():
			return r, false
		case <-time.After(pause):
		}
	}
}

// receipt writes what came of trying the part with this attempt. The part may
// have become unknown meanwhile, when this process was taken for dead: a
// receipt that comes late may still prove that it was sent, and nothing else.
func (t *Tx) receipt(id, attempt, next, receipt string, cause error) (receipted, error) {
	d, err := t.LockDelivery(id)
	if err != nil {
		return receipted{}, err
	}
	i := partOf(d, attempt)
	if i < 0 {
		return receipted{}, nil
	}
	p := &d.Parts[i]
	late := p.State == mercury.DeliveryUnknown && cause == nil
	if p.State != mercury.DeliverySending && !late {
		return receipted{}, nil
	}
	p.At = t.Now()
	more := false
	var failure *mercury.Error
	switch {
	case cause == nil:
		p.State, p.Receipt, p.Error = mercury.DeliverySent, receipt, ""
		d.Receipt, d.Attempts = receipt, 0
		more = t.afterPart(&d, late, next)
	case errors.Is(cause, errNotTried):
		p.State, p.AttemptID, p.Owner = mercury.DeliveryPending, "", ""
		d.State = mercury.DeliveryPending
	case errors.As(cause, &failure) && failure.Kind == mercury.Transient && d.Attempts+1 < sendTries:
		p.State, p.Error, p.Owner = mercury.DeliveryPending, cause.Error(), ""
		wait := failure.After
		if wait <= 0 {
			wait = backoff(d.Attempts, sendBase, sendLimit)
		}
		d.State, d.NotBefore = mercury.DeliveryPending, t.Now().Add(wait)
		d.Attempts++
	case errors.As(cause, &failure) && (failure.Kind == mercury.Transient || failure.Kind == mercury.Invalid || failure.Kind == mercury.Denied):
		t.stopAt(&d, i, mercury.DeliveryRefused, cause)
	default:
		t.stopAt(&d, i, mercury.DeliveryUnknown, cause)
	}
	return receipted{delivery: d, more: more}, t.saveDelivery(d)
}

// afterPart goes on after a part was sent: to the next, marked in the same
// commit, or to the end.
func (t *Tx) afterPart(d *mercury.Delivery, late bool, next string) (more bool) {
	sent := 0
	for _, p := range d.Parts {
		if p.State == mercury.DeliverySent {
			sent++
		}
	}
	switch {
	case sent == len(d.Parts):
		d.State, d.Reason, d.SettledAt = mercury.DeliverySent, "", t.Now()
	case late:
		d.Reason = fmt.Sprintf("%d of %d sent, the rest was not attempted", sent, len(d.Parts))
	case t.e.isDraining():
		d.State = mercury.DeliveryPending
	default:
		return mark(d, next, t.e.self(), t.Now())
	}
	return false
}

// stopAt ends a delivery at part i. What comes after it was never attempted.
func (t *Tx) stopAt(d *mercury.Delivery, i int, state mercury.DeliveryState, cause error) {
	d.Parts[i].State, d.Parts[i].Error = state, cause.Error()
	for j := i + 1; j < len(d.Parts); j++ {
		d.Parts[j].State = mercury.DeliveryNotAttempted
	}
	d.State, d.SettledAt = state, t.Now()
	d.Reason = fmt.Sprintf("%d of %d %s", i+1, len(d.Parts), state)
	if help := mercury.HelpOf(cause); help != "" {
		d.Reason += ": " + help
	}
}

// giveUpSend makes unknown what a process that is gone, or about to go, was
// sending.
func (t *Tx) giveUpSend(id string, seen mercury.Delivery) error {
	d, err := t.LockDelivery(id)
	if err != nil {
		return err
	}
	for i, p := range d.Parts {
		if p.State != mercury.DeliverySending || p.AttemptID != seen.Parts[i].AttemptID {
			continue
		}
		t.stopAt(&d, i, mercury.DeliveryUnknown, errors.New("stopped while this was being sent"))
		return t.saveDelivery(d)
	}
	return nil
}

// unmarkSend takes back a mark of this process under which nothing was sent.
func (t *Tx) unmarkSend(id, owner string) error {
	d, err := t.LockDelivery(id)
	if err != nil {
		return err
	}
	for i := range d.Parts {
		p := &d.Parts[i]
		if p.State == mercury.DeliverySending && p.Owner == owner {
			p.State, p.AttemptID, p.Owner = mercury.DeliveryPending, "", ""
			d.State = mercury.DeliveryPending
			return t.saveDelivery(d)
		}
	}
	return nil
}

// Resend sends again, on a person's word, a delivery that is unknown, was
// refused, or is held as a draft; it goes on at the first part that was not
// sent. It is a compare-and-set: a second word while it is on its way changes
// nothing and returns it as it stands. In any other state it is a
// mercury.Conflict.
func (e *Engine) Resend(ctx context.Context, deliveryID string, by mercury.Actor) (mercury.Delivery, error) {
	var d mercury.Delivery
	err := e.Update(ctx, "resend", func(t *Tx) error {
		var err error
		if d, err = t.LockDelivery(deliveryID); err != nil {
			return err
		}
		switch d.State {
		case mercury.DeliveryUnknown, mercury.DeliveryRefused, mercury.DeliveryHeld:
		case mercury.DeliveryPending, mercury.DeliverySending:
			if d.Reason == ReasonByHand {
				return nil
			}
			fallthrough
		default:
			return &mercury.Error{Kind: mercury.Conflict, Help: "There is nothing to send again: it is " + string(d.State) + ".",
				Err: fmt.Errorf("delivery is %s", d.State)}
		}
		for i := range d.Parts {
			if p := &d.Parts[i]; p.State != mercury.DeliverySent {
				p.State, p.AttemptID, p.Owner, p.Error = mercury.DeliveryPending, "", "", ""
			}
		}
		d.State, d.Reason = mercury.DeliveryPending, ReasonByHand
		d.Attempts, d.NotBefore, d.SettledAt = 0, time.Time{}, time.Time{}
		if mercury.ChannelOf(d.Address) == localChannel {
			d.State, d.Receipt, d.SettledAt = mercury.DeliverySent, localChannel, t.Now()
		}
		if err := t.Audit(store.AuditRow{ID: mercury.NewID("au"), At: t.Now(), Actor: by, Act: "resend", Subject: d.ID}); err != nil {
			return err
		}
		return t.saveDelivery(d)
	})
	if err != nil {
		return d, fmt.Errorf("resend delivery %s: %w", deliveryID, err)
	}
	return d, nil
}
