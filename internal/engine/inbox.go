package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Placement is what became of a posted input.
type Placement struct {
	Input     mercury.Input
	RunID     string // the run that will answer it; empty for a waiting follow-up
	Duplicate bool
	Outcome   string // Started, Steered, Queued, Written or Repeated
}

// What became of an input.
const (
	Started  = "started"   // a run began with it
	Steered  = "steered"   // it joins the run that is under way
	Queued   = "queued"    // it waits for a run of its own
	Written  = "written"   // a passive entry; nothing starts
	Repeated = "duplicate" // it was accepted before; nothing changed
)

// InputData is the Data of a user entry, and of the note a write becomes.
type InputData struct {
	InputID string         `json:"input_id"`
	Files   []mercury.File `json:"files,omitempty"`
	SentAt  time.Time      `json:"sent_at,omitzero"`
}

// Post places an input: an idle conversation starts a run with it, a busy one
// keeps it as steer or follow-up. An input that was accepted before (same
// channel and message id) changes nothing; with other content it is a
// mercury.Conflict. A full inbox is mercury.Full, and nothing was taken.
//
// A first message creates its conversation if that is a local one; others
// must exist.
//
// Give the input an ID made before the transaction: then a commit whose
// outcome is unknown is resolved by looking it up.
func (t *Tx) Post(in mercury.Input) (Placement, error) {
	if err := checkInput(in); err != nil {
		return Placement{}, err
	}
	if t.e.isDraining() {
		return Placement{}, &mercury.Error{Kind: mercury.Transient, After: 5 * time.Second,
			Help: "Mercury is restarting; send it again in a moment.",
			Err:  fmt.Errorf("post input: %w", errDraining)}
	}
	if in.ID == "" {
		in.ID = mercury.NewID("in")
	}
	if in.Mode == "" {
		in.Mode = mercury.Steer
	}
	if in.Digest == "" {
		in.Digest = digest(in.ConversationID, in.Mode, in.Text, in.Files)
	}
	conv, err := t.conversation(in.ConversationID)
	if err != nil {
		return Placement{}, err
	}
	old, err := t.FindInput(in.Channel, in.MessageID)
	if known, err := found(err); err != nil {
		return Placement{}, fmt.Errorf("post input: %w", err)
	} else if known {
		return repeated(old, in)
	}
	in.AcceptedAt = t.Now()
	t.witness = func(tx store.Tx) (bool, error) {
		_, err := tx.Input(in.ID)
		return found(err)
	}
	return t.place(conv, in)
}

func checkInput(in mercury.Input) error {
	switch {
	case in.Channel == "" || in.MessageID == "":
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("post input: it has no channel or no message id")}
	case in.ConversationID == "":
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("post input: it names no conversation")}
	}
	return nil
}

// repeated answers for an input that is known already. One that a fork took is
// the conversation's all the same.
func repeated(old, in mercury.Input) (Placement, error) {
	p := Placement{Input: old, RunID: old.RunID, Duplicate: true, Outcome: Repeated}
	if old.Digest != in.Digest || mercury.ChatOf(old.ConversationID) != mercury.ChatOf(in.ConversationID) {
		return p, &mercury.Error{Kind: mercury.Conflict,
			Help: "This message id was used for another text; send it with a new one.",
			Err:  fmt.Errorf("post input: message %s of %s has other content", in.MessageID, in.Channel)}
	}
	return p, nil
}

// conversation locks a conversation, and creates it if it is a local one.
func (t *Tx) conversation(id string) (mercury.Conversation, error) {
	c, err := t.LockConversation(id)
	known, err := found(err)
	if err != nil || known {
		return c, err
	}
	if mercury.ChannelOf(id) != localChannel {
		return c, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("post input: no conversation %s: %w", id, store.ErrNotFound)}
	}
	now := t.Now()
	err = t.InsertConversation(mercury.Conversation{ID: id, Kind: "chat", CreatedAt: now, UpdatedAt: now})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return c, fmt.Errorf("create conversation %s: %w", id, err)
	}
	return t.LockConversation(id)
}

// place writes a new input where it belongs.
func (t *Tx) place(conv mercury.Conversation, in mercury.Input) (Placement, error) {
	live, err := t.LiveRun(conv.ID)
	busy, err := found(err)
	if err != nil {
		return Placement{}, err
	}
	waiting, err := t.CountQueued(conv.ID)
	if err != nil {
		return Placement{}, err
	}
	switch {
	case !busy && waiting == 0 && in.Mode == mercury.Write:
		in.State, in.SettledAt = mercury.InputDone, in.AcceptedAt
		if err := t.insertInput(in); err != nil {
			return Placement{}, err
		}
		_, err := t.append(conv.ID, writeEntry(in))
		return Placement{Input: in, Outcome: Written}, err
	case !busy && waiting == 0:
		return t.begin(conv, in)
	case busy && waiting == 0 && in.Mode == mercury.Steer && live.Epoch == 0 && sameActor(live.Actor, in.Actor):
		// Nobody has begun with the run: it takes this one as well.
		in.State, in.RunID = mercury.InputPlaced, live.ID
		if err := t.insertInput(in); err != nil {
			return Placement{}, err
		}
		_, err := t.append(conv.ID, userEntry(in))
		return Placement{Input: in, RunID: live.ID, Outcome: Steered}, err
	case waiting >= t.e.opts.InboxCap:
		return Placement{}, &mercury.Error{Kind: mercury.Full,
			Help: fmt.Sprintf("%d messages wait already; this one was not taken. Send it again later.", waiting),
			Err:  fmt.Errorf("post input: %d wait in %s", waiting, conv.ID)}
	}
	in.State = mercury.InputQueued
	if err := t.insertInput(in); err != nil {
		return Placement{}, err
	}
	p := Placement{Input: in, Outcome: Queued}
	switch {
	case !busy:
		// Something waits though nothing runs: start with the oldest.
		return p, t.successor(conv)
	case in.Mode == mercury.Write:
		p.Outcome = Written
	case in.Mode == mercury.Steer && sameActor(live.Actor, in.Actor):
		p.Outcome, p.RunID = Steered, live.ID
	}
	return p, nil
}

func (t *Tx) insertInput(in mercury.Input) error {
	err := t.InsertInput(in)
	if errors.Is(err, store.ErrExists) {
		return &mercury.Error{Kind: mercury.Conflict,
			Err: fmt.Errorf("post input: message %s of %s is being accepted elsewhere", in.MessageID, in.Channel)}
	}
	return err
}

// begin starts a run with a new input, in an idle conversation.
func (t *Tx) begin(conv mercury.Conversation, in mercury.Input) (Placement, error) {
	r, err := t.plan(conv, in)
	if err != nil {
		return Placement{}, err
	}
	if err := t.insertRun(r); err != nil {
		return Placement{}, fmt.Errorf("start run: %w", err)
	}
	in.State, in.RunID = mercury.InputPlaced, r.ID
	if err := t.insertInput(in); err != nil {
		return Placement{}, err
	}
	_, err = t.append(conv.ID, userEntry(in))
	return Placement{Input: in, RunID: r.ID, Outcome: Started}, err
}

func (t *Tx) plan(conv mercury.Conversation, in mercury.Input) (mercury.Run, error) {
	n, err := t.e.opts.Plan(conv, in)
	if err != nil {
		return mercury.Run{}, fmt.Errorf("plan run: %w", err)
	}
	n.ConversationID = conv.ID
	n.Actor = in.Actor
	return n.run(t.Now()), nil
}

// successor starts one run for what waits in an idle conversation: first all
// writes become entries, then everything that the actor of the oldest input
// sent begins a run. Others wait for the next.
func (t *Tx) successor(conv mercury.Conversation) error {
	queue, err := t.QueuedInputs(conv.ID)
	if err != nil || len(queue) == 0 {
		return err
	}
	queue, err = t.placeWrites(conv.ID, queue)
	if err != nil {
		return err
	}
	for len(queue) > 0 {
		first := queue[0]
		r, err := t.plan(conv, first)
		if err == nil {
			if err := t.insertRun(r); err != nil {
				return fmt.Errorf("start successor: %w", err)
			}
			_, err = t.placeInto(r, queue)
			return err
		}
		// What can start no run must not keep others from starting theirs.
		t.e.log.Error("plan run", "input", first.ID, "err", err)
		first.State, first.Reason, first.SettledAt = mercury.InputUnanswered, "not_planned", t.Now()
		if err := t.SaveInput(first); err != nil {
			return err
		}
		queue = queue[1:]
	}
	return nil
}

// placeWrites turns waiting writes into entries and returns what else waits.
func (t *Tx) placeWrites(conversationID string, queue []mercury.Input) ([]mercury.Input, error) {
	var rest []mercury.Input
	var entries []mercury.Entry
	for _, in := range queue {
		if in.Mode != mercury.Write {
			rest = append(rest, in)
			continue
		}
		entries = append(entries, writeEntry(in))
		in.State, in.SettledAt = mercury.InputDone, t.Now()
		if err := t.SaveInput(in); err != nil {
			return nil, err
		}
	}
	_, err := t.append(conversationID, entries...)
	return rest, err
}

// placeInto makes the inputs of r's actor part of r.
func (t *Tx) placeInto(r mercury.Run, queue []mercury.Input) ([]mercury.Entry, error) {
	var entries []mercury.Entry
	for _, in := range queue {
		if !sameActor(in.Actor, r.Actor) {
			continue
		}
		in.State, in.RunID = mercury.InputPlaced, r.ID
		if err := t.SaveInput(in); err != nil {
			return nil, err
		}
		entries = append(entries, userEntry(in))
	}
	return t.append(r.ConversationID, entries...)
}

// Withdraw takes back what waits in a conversation's inbox, so that nothing
// follows the live run, and returns how many inputs that were.
func (t *Tx) Withdraw(conversationID, reason string) (int, error) {
	if _, err := t.LockConversation(conversationID); err != nil {
		return 0, err
	}
	queue, err := t.QueuedInputs(conversationID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, in := range queue {
		if in.Mode == mercury.Write {
			continue
		}
		in.State, in.Reason, in.SettledAt = mercury.InputUnanswered, reason, t.Now()
		if err := t.SaveInput(in); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Reset hides what stands in a conversation so far from the model. Nothing is
// removed.
func (t *Tx) Reset(conversationID string, by mercury.Actor) error {
	entries, err := t.Append(conversationID, mercury.Entry{Kind: mercury.ResetEntry, Actor: by})
	if err != nil {
		return err
	}
	c, err := t.LockConversation(conversationID)
	if err != nil {
		return err
	}
	c.Head = entries[0].Seq
	return t.SaveConversation(c)
}

// steersOf returns what of a queue joins a run of this actor.
func steersOf(queue []mercury.Input, a mercury.Actor) []mercury.Input {
	var out []mercury.Input
	for _, in := range queue {
		if in.Mode == mercury.Steer && sameActor(in.Actor, a) {
			out = append(out, in)
		}
	}
	return out
}

// sameActor reports whether a and b are one person in one role; a person may
// have changed their name.
func sameActor(a, b mercury.Actor) bool {
	return a.Role == b.Role && a.ID == b.ID && a.Channel == b.Channel
}

// isPerson reports whether a is someone who reads answers.
func isPerson(a mercury.Actor) bool {
	switch a.Role {
	case mercury.BotRole, mercury.HelperRole, mercury.Schedule:
		return false
	}
	return true
}

func userEntry(in mercury.Input) mercury.Entry {
	en := inputEntry(in)
	en.Kind, en.RunID = mercury.UserEntry, in.RunID
	return en
}

func writeEntry(in mercury.Input) mercury.Entry {
	en := inputEntry(in)
	en.Kind = mercury.NoteEntry
	return en
}

func inputEntry(in mercury.Input) mercury.Entry {
	d := InputData{InputID: in.ID, Files: in.Files, SentAt: in.SentAt}
	if y := d.SentAt.Year(); y < 0 || y > 9999 {
		d.SentAt = time.Time{} // a platform's nonsense, which JSON has no words for
	}
	data, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings, numbers and a time always encode
	}
	return mercury.Entry{Actor: in.Actor, Text: in.Text, Data: data}
}
