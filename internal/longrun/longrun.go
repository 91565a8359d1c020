// Package longrun keeps a conversation at work for a given time. A long run is
// one run of the engine with a deadline, in a fork of the conversation: it goes
// on after each answer until it says that it is done or its time is over. The
// conversation it came from gets what is said on both sides, not the steps.
//
// All that is known of a long run is the run itself and one fact that names it,
// so it outlives a restart with its deadline.
package longrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// The time a long run may be given.
const (
	Shortest = time.Minute
	Longest  = 24 * time.Hour
)

// lastStretch is how much time must be left for the run to go on after an
// answer.
const lastStretch = time.Minute

// goOnWithTheTask is what a run without a task of its own is told.
const goOnWithTheTask = "Go on with the task at hand."

// factKey names the fact in the store that says which run is at work for a
// conversation.
func factKey(conversation string) string { return "longrun/" + conversation }

// Live returns the long run that is at work for a conversation, or
// store.ErrNotFound.
func Live(tx store.Tx, conversation string) (mercury.Run, error) {
	id, err := tx.MetaValue(factKey(conversation))
	if err == nil && id == "" {
		err = store.ErrNotFound
	}
	if err != nil {
		return mercury.Run{}, err
	}
	r, err := tx.Run(id)
	if err == nil && !r.State.Live() {
		err = store.ErrNotFound
	}
	return r, err
}

// Order asks for a long run.
type Order struct {
	Conversation string
	By           mercury.Actor
	For          time.Duration
	Task         string // empty: go on with the task at hand
}

// Start begins a long run, or gives the one that is at work another deadline
// and the task as something said meanwhile; began says which. A conversation
// that is busy otherwise is a mercury.Conflict, and nothing has changed.
func Start(tx *engine.Tx, o Order) (r mercury.Run, began bool, err error) {
	if o.For < Shortest || o.For > Longest {
		return r, false, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("a run lasts from %s to %s", Short(Shortest), Short(Longest))}
	}
	chat, err := tx.LockConversation(o.Conversation)
	if err != nil {
		return r, false, fmt.Errorf("start long run: %w", err)
	}
	r, err = Live(tx, chat.ID)
	switch {
	case err == nil:
		return r, false, extend(tx, &r, o)
	case !errors.Is(err, store.ErrNotFound):
		return r, false, err
	}
	if err := idle(tx, chat.ID); err != nil {
		return r, false, err
	}
	fork := mercury.Conversation{ID: chat.ID + mercury.ForkMark + mercury.NewID("fork"), Kind: "fork", Profile: chat.Profile, ParentID: chat.ID, ForkSeq: chat.LastSeq,
		Head: chat.Head, LastSeq: chat.LastSeq, Mode: chat.Mode, ModeUntil: chat.ModeUntil, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
	if err := tx.InsertConversation(fork); err != nil {
		return r, false, fmt.Errorf("fork %s: %w", chat.ID, err)
	}
	end := tx.Now().Add(o.For)
	if _, err := tx.Append(fork.ID, mercury.Entry{Kind: mercury.NoteEntry, Text: briefing(o.For)}); err != nil {
		return r, false, err
	}
	task := o.Task
	if task == "" {
		task = goOnWithTheTask
	}
	if r, err = say(tx, fork.ID, o.By, task); err != nil {
		return r, false, err
	}
	r.Deadline = end
	if err := tx.SaveRun(r); err != nil {
		return r, false, err
	}
	return r, true, tx.SetMeta(factKey(chat.ID), r.ID)
}

// idle refuses a conversation in which something runs or waits.
func idle(tx *engine.Tx, conversation string) error {
	_, err := tx.LiveRun(conversation)
	busy := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	waiting, err := tx.CountQueued(conversation)
	if err != nil {
		return err
	}
	if busy || waiting > 0 {
		return &mercury.Error{Kind: mercury.Conflict, Err: errors.New("busy: something else is being worked on here, so nothing has begun"),
			Help: "Wait for it, or end it with /stop."}
	}
	return nil
}

// extend moves the deadline, and says the task if there is one.
func extend(tx *engine.Tx, r *mercury.Run, o Order) error {
	if o.Task != "" {
		if _, err := say(tx, r.ConversationID, o.By, o.Task); err != nil {
			return err
		}
	}
	locked, err := tx.LockRun(r.ID)
	if err != nil {
		return err
	}
	locked.Deadline = tx.Now().Add(o.For)
	*r = locked
	return tx.SaveRun(locked)
}

// say puts a person's words into a fork and returns the run that has them.
func say(tx *engine.Tx, fork string, by mercury.Actor, text string) (mercury.Run, error) {
	id := mercury.NewID("in")
	p, err := tx.Post(mercury.Input{ID: id, Channel: "run", MessageID: id, ConversationID: fork, Actor: by, Text: text})
	if err != nil {
		return mercury.Run{}, err
	}
	return tx.LockRun(p.RunID)
}

// Takes reports which run takes what a person says in a conversation: the long
// run that this person began there. Others' words are answered as always.
func Takes(tx store.Tx, conversation string, by mercury.Actor) (mercury.Run, bool, error) {
	r, err := Live(tx, conversation)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, false, nil
	case err != nil:
		return r, false, err
	}
	same := r.Actor.Role == by.Role && r.Actor.ID == by.ID && r.Actor.Channel == by.Channel
	return r, same && r.Cancel == "", nil
}

// Record keeps in the conversation what was said to its long run. It starts
// nothing there.
func Record(tx *engine.Tx, conversation string, in mercury.Input) error {
	data, err := json.Marshal(engine.InputData{InputID: in.ID, Files: in.Files, SentAt: in.SentAt})
	if err != nil {
		return fmt.Errorf("keep what was said: %w", err)
	}
	_, err = tx.Append(conversation, mercury.Entry{Kind: mercury.UserEntry, Actor: in.Actor, Text: in.Text, Data: data})
	return err
}

// Stop ends a long run: what waits for it is withdrawn and what it has said
// and nobody has begun to send is not sent. It returns how many messages were
// withdrawn.
func Stop(tx *engine.Tx, r mercury.Run, by mercury.Actor) (withdrawn int, err error) {
	if withdrawn, err = tx.Withdraw(r.ConversationID, engine.ReasonStopped); err != nil {
		return 0, err
	}
	if err := tx.Cancel(r.ID, engine.ReasonStopped, by); err != nil {
		return 0, err
	}
	return withdrawn, tx.CancelUnsent(r.ID, engine.ReasonStopped)
}

// Short words a duration in hours and minutes, below one in seconds: "1h30m".
func Short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	d = d.Round(time.Minute)
	h, m := d/time.Hour, d%time.Hour/time.Minute
	switch {
	case h == 0:
		return fmt.Sprintf("%dm", m)
	case m == 0:
		return fmt.Sprintf("%dh", h)
	}
	return fmt.Sprintf("%dh%dm", h, m)
}
