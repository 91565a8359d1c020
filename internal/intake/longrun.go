package intake

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/longrun"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// longRun has the conversation worked on for a time.
func longRun(tx *engine.Tx, call Call) (Reply, error) {
	span, task, _ := strings.Cut(call.Args, " ")
	d, err := time.ParseDuration(strings.ToLower(span))
	if err != nil {
		return Reply{}, invalid(fmt.Sprintf("%q is no time", span), "Such as /run 30m sort the photos, or /run 1h30m.")
	}
	r, began, err := longrun.Start(tx, longrun.Order{Conversation: call.Conversation, By: call.Actor, For: d, Task: strings.TrimSpace(task)})
	if err != nil {
		return Reply{}, err
	}
	end := r.Deadline.Local().Format("15:04")
	if !began {
		return Reply{Text: "The run goes on until " + end + ".", Visible: true}, nil
	}
	return Reply{Text: fmt.Sprintf("Working until %s. What you write reaches the work; /stop ends it.", end), Visible: true}, nil
}

func runTimes(*engine.Tx, Call) ([]string, error) { return []string{"30m", "1h", "2h"}, nil }

// stopLong ends the long run of a conversation, if there is one.
func stopLong(tx *engine.Tx, call Call) (Reply, bool, error) {
	r, err := longrun.Live(tx, call.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, false, nil
	}
	if err != nil {
		return Reply{}, false, err
	}
	if err := theirs(r, call.Actor); err != nil {
		return Reply{}, false, err
	}
	withdrawn, err := longrun.Stop(tx, r, call.Actor)
	if err != nil {
		return Reply{}, false, err
	}
	text := "Stopped the run."
	if withdrawn > 0 {
		text += " " + messages(withdrawn, "that waited for it was withdrawn.", "that waited for it were withdrawn.")
	}
	return Reply{Text: text, Visible: true}, true, nil
}

// longLine says in a line of its own until when a conversation is worked on.
func longLine(tx store.Tx, conversation string) (string, error) {
	r, err := longrun.Live(tx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("\nA run works on this until %s, since %s: %s", r.Deadline.Local().Format("15:04"),
		r.CreatedAt.Local().Format("15:04"), describe(r, tx.Now())), nil
}

// workOf returns what runs for a conversation, in it or in a fork of it.
func workOf(tx *engine.Tx, conversation string) (mercury.Run, error) {
	r, err := longrun.Live(tx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return tx.LiveRun(conversation)
	}
	if err != nil {
		return r, err
	}
	return tx.LockRun(r.ID)
}

// openQuestions are those of a conversation and of what works for it.
func openQuestions(tx store.Tx, conversation string) ([]mercury.Question, error) {
	open, err := tx.OpenQuestions(conversation)
	if err != nil {
		return nil, err
	}
	r, err := longrun.Live(tx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return open, nil
	}
	if err != nil {
		return nil, err
	}
	more, err := tx.OpenQuestions(r.ConversationID)
	return append(open, more...), err
}

// place stores a message where it belongs: with the long run that its sender
// began here, else in the conversation itself.
func place(tx *engine.Tx, m mercury.Message, in mercury.Input) (engine.Placement, error) {
	if in.Mode == mercury.Write {
		return tx.Post(in)
	}
	r, takes, err := longrun.Takes(tx, m.Conversation, m.Sender)
	if err != nil {
		return engine.Placement{}, err
	}
	if !takes {
		return tx.Post(in)
	}
	in.ConversationID, in.Mode = r.ConversationID, mercury.Steer
	p, err := tx.Post(in)
	if err != nil || p.Duplicate {
		return p, err
	}
	return p, longrun.Record(tx, m.Conversation, in)
}
