package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A send that is proven not to have happened is tried again: after what the
// platform asks for, else after a back-off from one second to five minutes.
// Three hundred tries last about a day; then the delivery is refused.
const (
	sendTries    = 300
	sendBase     = time.Second
	sendLimit    = 5 * time.Minute
	sendPatience = 10 * time.Minute // one part, a large file over a slow line
)

// deliver sends what is pending whenever it is rung or something is due.
func (e *Engine) deliver(ctx, sends context.Context) error {
	var again time.Duration
	for {
		due, err := e.sendReady(ctx, sends)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			again = 0
		case fatal(err):
			return err
		default:
			again = min(max(2*again, 100*time.Millisecond), 10*time.Second)
			e.log.Warn("send deliveries", "err", err, "again", again)
		}
		if !e.sleep(ctx, e.out, due, again) {
			return nil
		}
	}
}

// sendReady starts sends until nothing is ready or all slots are taken, and
// returns when the next one is due.
func (e *Engine) sendReady(ctx, sends context.Context) (time.Time, error) {
	for {
		channels := e.channels()
		if len(channels) == 0 || e.alive() != nil {
			return time.Time{}, nil // a new sender or a heartbeat rings
		}
		if _, ok := e.acquire(mercury.Out); !ok {
			return time.Time{}, nil // a send that ends rings
		}
		c, err := e.claimSend(ctx, channels)
		switch {
		case err != nil:
			e.release(mercury.Out)
			return time.Time{}, err
		case c.due:
			go e.send(sends, c.delivery, c.attempt)
		case c.settled:
			e.release(mercury.Out)
		default:
			e.release(mercury.Out)
			return e.nextSend(ctx, channels, c.now)
		}
	}
}

func (e *Engine) channels() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]string, 0, len(e.senders))
	for name := range e.senders {
		out = append(out, name)
	}
	return out
}

// claimed is what became of looking for a delivery to send.
type claimed struct {
	delivery mercury.Delivery
	attempt  string
	due      bool // delivery has a part marked sending, to be sent now
	settled  bool // delivery was held, or had nothing to send
	now      time.Time
}

// claimSend marks the next part to send. An answer to which a newer input has
// arrived is held instead, as long as no part of it was ever claimed: check
// and claim are one commit. An answer that goes out takes the place of
// earlier drafts at its address.
//
// The delivery is found before its conversation is locked. Nobody who holds a
// conversation waits for a delivery that is ready to be claimed, so the order
// is safe here.
func (e *Engine) claimSend(ctx context.Context, channels []string) (claimed, error) {
	attempt, self := mercury.NewID("at"), e.self()
	var c claimed
	err := e.Update(ctx, "send.claim", func(t *Tx) error {
		e.forgetSend(c.delivery.ID, attempt)
		c = claimed{attempt: attempt, now: t.Now()}
		if closed, err := t.outClosed(); err != nil || closed {
			return err
		}
		d, err := t.NextDelivery(channels, c.now)
		if ok, err := found(err); err != nil || !ok {
			return err
		}
		if len(d.Parts) == 0 {
			held, err := t.holdOrSupersede(&d)
			if err != nil {
				return err
			}
			if held {
				c.settled = true
				return nil
			}
			d.Parts = freeze(t.e.opts.Split(d))
		}
		if !mark(&d, attempt, self, c.now) {
			c.settled = true
			d.State, d.SettledAt = mercury.DeliverySent, c.now
			return t.saveDelivery(d)
		}
		t.witness = func(tx store.Tx) (bool, error) {
			got, err := tx.Delivery(d.ID)
			ok, err := found(err)
			return ok && partOf(got, attempt) >= 0, err
		}
		c.delivery, c.due = d, true
		// Known before the commit, so that reconciling never takes the mark
		// for a stray one.
		e.mu.Lock()
		e.sending[d.ID] = attempt
		e.mu.Unlock()
		return t.saveDelivery(d)
	})
	if err != nil {
		e.forgetSend(c.delivery.ID, attempt)
	}
	return c, err
}

func (e *Engine) forgetSend(id, attempt string) {
	e.mu.Lock()
	if e.sending[id] == attempt {
		delete(e.sending, id)
	}
	e.mu.Unlock()
}

// outClosed reports whether somebody holds all sending back.
func (t *Tx) outClosed() (bool, error) {
	holds, err := t.Holds()
	for _, h := range holds {
		if h.Key == "*" || h.Key == "lane/"+string(mercury.Out) {
			return true, err
		}
	}
	return false, err
}

// holdOrSupersede decides about an answer before its first part is claimed.
func (t *Tx) holdOrSupersede(d *mercury.Delivery) (held bool, _ error) {
	if d.Kind != mercury.AnswerDelivery || d.ConversationID == "" {
		return false, nil
	}
	if _, err := t.LockConversation(d.ConversationID); err != nil {
		if known, err := found(err); !known {
			return false, err
		}
	}
	if d.Reason != ReasonByHand {
		newer, err := t.newerInput(*d)
		if err != nil {
			return false, err
		}
		if newer {
			d.State, d.Reason = mercury.DeliveryHeld, ReasonNewerInput
			return true, t.saveDelivery(*d)
		}
	}
	return false, t.supersede(*d)
}

// newerInput reports whether a person has said something since the answer:
// it waits, or its entry stands after the answer's.
func (t *Tx) newerInput(d mercury.Delivery) (bool, error) {
	if d.EntrySeq == 0 {
		return t.InputAfter(d.ConversationID, d.CreatedAt)
	}
	queue, err := t.QueuedInputs(d.ConversationID)
	if err != nil {
		return false, err
	}
	for _, in := range queue {
		if in.Mode != mercury.Write && isPerson(in.Actor) {
			return true, nil
		}
	}
	const look = 1000
	entries, err := t.Entries(d.ConversationID, d.EntrySeq, look)
	for _, en := range entries {
		if en.Kind == mercury.UserEntry && isPerson(en.Actor) {
			return true, err
		}
	}
	return false, err
}

// supersede drops earlier drafts at the address of an answer that goes out.
func (t *Tx) supersede(d mercury.Delivery) error {
	drafts, err := t.HeldAnswers(d.ConversationID)
	if err != nil {
		return err
	}
	for _, old := range drafts {
		if old.State != mercury.DeliveryHeld || old.Address != d.Address || old.ID == d.ID || old.EntrySeq >= d.EntrySeq {
			continue
		}
		old.State, old.SupersededBy, old.SettledAt = mercury.DeliverySuperseded, d.ID, t.Now()
		if err := t.saveDelivery(old); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) saveDelivery(d mercury.Delivery) error {
	if err := t.SaveDelivery(d); err != nil {
		return err
	}
	return t.delivered(d)
}

// freeze numbers parts at a delivery's first claim; they never change again.
func freeze(parts []mercury.Part) []mercury.Part {
	out := make([]mercury.Part, len(parts))
	for i, p := range parts {
		p.N, p.State = i+1, mercury.DeliveryPending
		out[i] = p
	}
	return out
}

// mark sets the first part that was not sent to sending. It reports false when
// there is none.
func mark(d *mercury.Delivery, attempt, owner string, now time.Time) bool {
	for i := range d.Parts {
		p := &d.Parts[i]
		if p.State == mercury.DeliverySent {
			continue
		}
		p.State, p.AttemptID, p.Owner, p.At, p.Error = mercury.DeliverySending, attempt, owner, now, ""
		d.State = mercury.DeliverySending
		return true
	}
	return false
}

// partOf is the index of the part with this attempt, or -1.
func partOf(d mercury.Delivery, attempt string) int {
	for i, p := range d.Parts {
		if p.AttemptID == attempt {
			return i
		}
	}
	return -1
}

// send shows the marked part, and those after it, and writes down each
// outcome.
func (e *Engine) send(ctx context.Context, d mercury.Delivery, attempt string) {
	id := d.ID
	defer func() {
		e.mu.Lock()
		delete(e.sending, id)
		e.used[mercury.Out]--
		e.mu.Unlock()
		e.out.set()
		e.left.set()
	}()
	for {
		receipt, err := e.try(ctx, d, d.Parts[partOf(d, attempt)])
		next := mercury.NewID("at")
		r, ok := e.noteReceipt(ctx, id, attempt, next, receipt, err)
		if !ok || !r.more {
			return
		}
		d, attempt = r.delivery, next
	}
}

// errNotTried means that the sender was not called.
var errNotTried = errors.New("send was not tried")

func (e *Engine) try(ctx context.Context, d mercury.Delivery, p mercury.Part) (receipt string, err error) {
	e.mu.Lock()
	s := e.senders[mercury.ChannelOf(d.Address)]
	e.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, sendPatience)
	defer done()
	// The last look before the effect.
	if s == nil || e.alive() != nil || ctx.Err() != nil {
		return "", errNotTried
	}
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("sender panicked", "delivery", d.ID, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("sender panicked: %v", v)
		}
	}()
	crash.Reach("send.before")
	receipt, err = s.Send(ctx, d, p)
	crash.Reach("send.after")
	return receipt, err
}

// nextSend is when a delivery comes due after now, or all sending is free
// again.
func (e *Engine) nextSend(ctx context.Context, channels []string, now time.Time) (time.Time, error) {
	var first time.Time
	err := e.store.View(ctx, func(tx store.Tx) error {
		at, ok, err := tx.NextDeliveryDue(channels, now)
		if err != nil {
			return err
		}
		end, held, err := tx.NextHoldEnd(now)
		if held && (!ok || end.Before(at)) {
			at, ok = end, true
		}
		first = time.Time{}
		if ok {
			first = localTime(at, tx.Now())
		}
		return err
	})
	return first, err
}

// CancelUnsent takes back the answers of a run that nobody has begun to send.
func (t *Tx) CancelUnsent(runID, reason string) error {
	list, _, err := t.Deliveries(store.DeliveryFilter{RunID: runID, Page: store.Page{Limit: 1000},
		States: []mercury.DeliveryState{mercury.DeliveryPending, mercury.DeliveryHeld}})
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Kind != mercury.AnswerDelivery {
			continue
		}
		if d, err = t.LockDelivery(d.ID); err != nil {
			return err
		}
		if d.State != mercury.DeliveryPending && d.State != mercury.DeliveryHeld {
			continue
		}
		d.State, d.Reason, d.SettledAt = mercury.DeliveryCancelled, reason, t.Now()
		if err := t.SaveDelivery(d); err != nil {
			return err
		}
		t.event(Event{Type: "delivery", ConversationID: d.ConversationID, RunID: d.RunID, Data: d})
	}
	return nil
}
