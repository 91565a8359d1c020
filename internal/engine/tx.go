package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Tx is one transaction of the store with the engine's rules on top. What
// must happen outside the store (waking workers, events, cancelling a handler)
// is noted here and done after the commit.
//
// Locks are taken in one order: conversation, runs (parent before child),
// delivery. Every method of Tx keeps it by itself; whoever calls several in
// one transaction calls those of the conversation first.
type Tx struct {
	store.Tx
	e *Engine

	lanes   []mercury.Lane // got a queued run
	claims  []*hand        // claimed here, started after the commit
	events  []Event
	cancels []string // runs in somebody's hand that were asked to end
	after   []func() // called once it is committed
	out     bool     // a delivery became pending
	times   bool     // something became due at another time
	cold    bool     // a run or a key became free: look in every lane
	// witness reports whether this transaction was committed, by looking up
	// what only it wrote.
	witness func(store.Tx) (bool, error)
}

// Enqueue queues a run. A mercury.Full error means that its key's backlog is
// at its cap, a Conflict that its conversation has a live run or its parent
// has ended: then nothing was queued.
func (t *Tx) Enqueue(n NewRun) (mercury.Run, error) {
	if n.Kind == "" {
		return mercury.Run{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("queue run: it has no kind")}
	}
	if n.ConversationID != "" {
		if _, err := t.LockConversation(n.ConversationID); err != nil {
			return mercury.Run{}, fmt.Errorf("queue run in %s: %w", n.ConversationID, err)
		}
	}
	if n.ParentID != "" {
		parent, err := t.LockRun(n.ParentID)
		if err != nil {
			return mercury.Run{}, fmt.Errorf("queue child of %s: %w", n.ParentID, err)
		}
		if !n.Detached && (parent.Cancel != "" || !parent.State.Live()) {
			return mercury.Run{}, &mercury.Error{Kind: mercury.Conflict,
				Help: "The work that asked for this was stopped.",
				Err:  fmt.Errorf("queue child of %s: the parent has ended", n.ParentID)}
		}
	}
	r := n.run(t.Now())
	waiting, err := t.CountQueuedKey(r.Key)
	if err != nil {
		return mercury.Run{}, err
	}
	if waiting >= t.e.opts.Backlog {
		return mercury.Run{}, &mercury.Error{Kind: mercury.Full,
			Help: fmt.Sprintf("%d pieces of work wait already; try again when some are done.", waiting),
			Err:  fmt.Errorf("queue run: %d wait under key %s", waiting, r.Key)}
	}
	err = t.insertRun(r)
	if errors.Is(err, store.ErrExists) {
		err = &mercury.Error{Kind: mercury.Conflict, Help: "It is busy with something else.",
			Err: fmt.Errorf("queue run: %s has a live run", r.ConversationID)}
	}
	return r, err
}

func (n NewRun) run(now time.Time) mercury.Run {
	r := mercury.Run{
		ID: n.ID, Kind: n.Kind, Lane: n.Lane, Key: n.Key, ConversationID: n.ConversationID,
		ParentID: n.ParentID, State: mercury.RunQueued, Priority: n.Priority,
		NotBefore: n.NotBefore, Deadline: n.Deadline, Detached: n.Detached, Node: n.Node,
		Actor: n.Actor, Mandate: n.Mandate, Input: n.Input, CreatedAt: now,
	}
	if r.ID == "" {
		r.ID = mercury.NewID("run")
	}
	if r.Lane == "" {
		r.Lane = mercury.Chat
	}
	if r.Key == "" {
		r.Key = r.ConversationID
	}
	if r.Key == "" {
		r.Key = r.ID
	}
	return r
}

// insertRun writes a queued run and lets the scheduler know.
func (t *Tx) insertRun(r mercury.Run) error {
	if err := t.InsertRun(r); err != nil {
		return err
	}
	return t.queued(r)
}

// queued notes that r stands in its lane.
func (t *Tx) queued(r mercury.Run) error {
	if r.NotBefore.After(t.Now()) {
		t.times = true
	}
	t.lanes = append(t.lanes, r.Lane)
	t.event(Event{Type: "run", ConversationID: r.ConversationID, RunID: r.ID, Data: r})
	if t.e.shared {
		return t.Notify(store.Notice{Kind: "run", ID: r.ID})
	}
	return nil
}

// saved writes r and tells who watches.
func (t *Tx) saved(r mercury.Run) error {
	t.event(Event{Type: "run", ConversationID: r.ConversationID, RunID: r.ID, Data: r})
	return t.SaveRun(r)
}

// Append appends entries to a conversation, whose lock it takes, and
// publishes them.
func (t *Tx) Append(conversationID string, entries ...mercury.Entry) ([]mercury.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if _, err := t.LockConversation(conversationID); err != nil {
		return nil, fmt.Errorf("append to %s: %w", conversationID, err)
	}
	return t.append(conversationID, entries...)
}

// append is Append for whoever holds the conversation's lock.
func (t *Tx) append(conversationID string, entries ...mercury.Entry) ([]mercury.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	out, err := t.Tx.Append(conversationID, entries...)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", conversationID, err)
	}
	for _, en := range out {
		t.event(Event{Type: "entry", ConversationID: conversationID, RunID: en.RunID, Data: en})
	}
	return out, nil
}

// Emit stores a delivery to be sent. Its RequestID makes it unique at its
// address: the same request with the same content is the stored delivery
// (true), with other content a mercury.Conflict. What goes to a local address
// is sent by being stored, since people read the conversation there.
func (t *Tx) Emit(d mercury.Delivery) (mercury.Delivery, bool, error) {
	if d.Address == "" {
		return d, false, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("store delivery: it has no address")}
	}
	if d.ID == "" {
		d.ID = mercury.NewID("dl")
	}
	if d.RequestID == "" {
		d.RequestID = d.ID
	}
	if d.Digest == "" {
		d.Digest = digest(d.Kind, d.Text, d.Files)
	}
	old, err := t.FindDelivery(d.Address, d.RequestID)
	known, err := found(err)
	if err != nil {
		return d, false, fmt.Errorf("store delivery: %w", err)
	}
	if known {
		return sameDelivery(old, d)
	}
	d.CreatedAt = t.Now()
	if d.State == "" {
		d.State = mercury.DeliveryPending
	}
	if d.State == mercury.DeliveryPending && mercury.ChannelOf(d.Address) == localChannel {
		d.State, d.Receipt, d.SettledAt = mercury.DeliverySent, localChannel, d.CreatedAt
		if d.Kind == mercury.AnswerDelivery {
			if err := t.supersede(d); err != nil {
				return d, false, err
			}
		}
	}
	err = t.InsertDelivery(d)
	if errors.Is(err, store.ErrExists) {
		return d, false, &mercury.Error{Kind: mercury.Conflict,
			Err: fmt.Errorf("store delivery: request %s is being stored by someone else", d.RequestID)}
	}
	if err != nil {
		return d, false, fmt.Errorf("store delivery: %w", err)
	}
	return d, false, t.delivered(d)
}

const localChannel = "local"

func sameDelivery(old, d mercury.Delivery) (mercury.Delivery, bool, error) {
	if old.Digest == d.Digest {
		return old, true, nil
	}
	return old, true, &mercury.Error{Kind: mercury.Conflict,
		Err: fmt.Errorf("store delivery: request %s at %s has other content", d.RequestID, d.Address)}
}

// delivered notes that d was written, and wakes the outbox if it waits there.
func (t *Tx) delivered(d mercury.Delivery) error {
	t.event(Event{Type: "delivery", ConversationID: d.ConversationID, RunID: d.RunID, Data: d})
	if d.State != mercury.DeliveryPending {
		return nil
	}
	t.out = true
	if t.e.shared {
		return t.Notify(store.Notice{Kind: "delivery", ID: d.ID})
	}
	return nil
}

// Hold keeps runs of a key from starting until then; a zero time means until
// Release. "lane/NAME" and "*" are keys too; "lane/out" and "*" also keep
// deliveries from being sent.
func (t *Tx) Hold(key string, until time.Time, reason, by string) error {
	t.times = true
	return t.PutHold(store.Hold{Key: key, Until: until, Reason: reason, By: by})
}

// Release ends a hold.
func (t *Tx) Release(key string) error {
	t.cold, t.out = true, true
	if t.e.shared {
		if err := t.Notify(store.Notice{Kind: "run"}); err != nil {
			return err
		}
	}
	return t.DeleteHold(key)
}

// The methods below lock a row that others step around while it is locked. A
// claim may have passed it by in this moment, so whoever locked it without
// taking it rings again after the commit.

// LockRun returns a run under its lock.
func (t *Tx) LockRun(id string) (mercury.Run, error) {
	r, err := t.Tx.LockRun(id)
	if err != nil {
		return r, err
	}
	return r, t.passedBy(r)
}

// LiveRun returns the conversation's live run, under its lock.
func (t *Tx) LiveRun(conversationID string) (mercury.Run, error) {
	r, err := t.Tx.LiveRun(conversationID)
	if err != nil {
		return r, err
	}
	return r, t.passedBy(r)
}

func (t *Tx) passedBy(r mercury.Run) error {
	if !t.e.shared || r.State != mercury.RunQueued || slices.Contains(t.lanes, r.Lane) {
		return nil
	}
	t.lanes = append(t.lanes, r.Lane)
	return t.Notify(store.Notice{Kind: "run", ID: r.ID})
}

// LockDelivery returns a delivery under its lock.
func (t *Tx) LockDelivery(id string) (mercury.Delivery, error) {
	d, err := t.Tx.LockDelivery(id)
	if err == nil && t.e.shared && d.State == mercury.DeliveryPending && !t.out {
		t.out = true
		err = t.Notify(store.Notice{Kind: "delivery", ID: id})
	}
	return d, err
}

func (t *Tx) event(ev Event) { t.events = append(t.events, ev) }

// news are the events to publish: of a run its last state, since nobody can
// have seen those before.
func (t *Tx) news() []Event {
	last := map[string]int{}
	for i, ev := range t.events {
		if ev.Type == "run" {
			last[ev.RunID] = i
		}
	}
	var out []Event
	for i, ev := range t.events {
		if ev.Type != "run" || last[ev.RunID] == i {
			out = append(out, ev)
		}
	}
	return out
}

// finish ends the transaction's own part: other processes are told what
// happened, and on a store of our own the runs that were queued are claimed
// at once, which saves a commit.
func (t *Tx) finish() error {
	if !t.e.shared {
		return t.e.claimInto(t, t.lanes)
	}
	for _, id := range t.cancels {
		if err := t.Notify(store.Notice{Kind: "cancel", ID: id}); err != nil {
			return err
		}
	}
	for _, ev := range t.news() {
		if err := t.Notify(store.Notice{Kind: "event", ID: t.e.eventID(ev)}); err != nil {
			return err
		}
	}
	return nil
}

// undo takes back what was noted in memory, after a rollback.
func (t *Tx) undo() {
	for _, h := range t.claims {
		t.e.drop(h)
	}
	t.claims = nil
}

// unlocked rings after a rollback: what the transaction had locked may have
// been stepped around all the same.
func (t *Tx) unlocked() {
	if !t.e.shared {
		return
	}
	t.e.kick(todo{lanes: t.lanes})
	if t.out {
		t.e.out.set()
	}
}

// publish does what waits for the commit.
func (t *Tx) publish() {
	for _, ev := range t.news() {
		t.e.bus.Publish(ev)
	}
	for _, id := range t.cancels {
		t.e.cancelHand(id, ErrCanceled)
	}
	claimed := map[mercury.Lane]int{}
	for _, h := range t.claims {
		claimed[h.run.Lane]++
		t.e.start(h)
	}
	var left []mercury.Lane
	for _, lane := range t.lanes {
		if claimed[lane]--; claimed[lane] < 0 {
			left = append(left, lane)
		}
	}
	t.e.kick(todo{lanes: left, cold: t.cold, times: t.times})
	if t.out {
		t.e.out.set()
	}
	for _, fn := range t.after {
		fn()
	}
}

// digest is a short hash of the JSON of its arguments.
func digest(of ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range of {
		// Only strings and plain structs come here: they always encode.
		if err := enc.Encode(v); err != nil {
			panic(err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
