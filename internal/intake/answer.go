package intake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// answer settles the open question of the conversation with the message, if
// the question is one that plain text answers: one that the model put to this
// person. An approval is never given by ordinary talk; such text goes on as a
// message of its own.
func (i *Intake) answer(ctx context.Context, m mercury.Message) (Result, bool, error) {
	var open mercury.Question
	err := i.engine.View(ctx, func(tx store.Tx) error {
		questions, err := openQuestions(tx, m.Conversation)
		for _, q := range questions {
			if (q.Kind == "text" || q.Kind == "choice") && mayAnswer(q, m.Sender) {
				open = q
				break
			}
		}
		return err
	})
	if err != nil {
		return Result{}, false, fmt.Errorf("look for open questions: %w", err)
	}
	if open.ID == "" {
		return Result{}, false, nil
	}

	in := input(m)
	in.Mode, in.State, in.RunID = mercury.Write, mercury.InputDone, open.RunID
	r := Result{Input: in, RunID: open.RunID, Outcome: Answered}
	err = i.engine.Update(ctx, "answer", func(tx *engine.Tx) error {
		if dup, err := recordOnce(tx, m, in); dup.ID != "" || err != nil {
			r = Result{Input: dup, RunID: dup.RunID, Duplicate: true, Outcome: Repeated}
			return err
		}
		_, err := tx.Answer(open.ID, choose(open, m.Text), m.Sender, m.Channel)
		return err
	})
	if mercury.KindOf(err) == mercury.Conflict { // settled meanwhile: an ordinary message then
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("answer question: %w", err)
	}
	return r, true, nil
}

// mayAnswer reports whether a may settle a question that the model asked: the
// person it asked, and whoever the question names.
func mayAnswer(q mercury.Question, a mercury.Actor) bool {
	if a.Role == mercury.Owner || q.AskedBy.ID == a.ID && q.AskedBy.Channel == a.Channel {
		return true
	}
	for _, role := range q.Answerers {
		if role == a.Role {
			return true
		}
	}
	return false
}

// choose turns a typed text into the value of the choice it names, by number,
// value or label; any other text is the answer itself.
func choose(q mercury.Question, text string) string {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(strings.TrimRight(text, ".)")); err == nil && n >= 1 && n <= len(q.Choices) {
		return q.Choices[n-1].Value
	}
	for _, c := range q.Choices {
		if strings.EqualFold(text, c.Value) || strings.EqualFold(text, c.Label) {
			return c.Value
		}
	}
	return text
}

// recordOnce stores an input that is settled as it arrives. It returns the
// row of an earlier delivery of the same message, if there is one; the same
// id with other content is a conflict.
func recordOnce(tx *engine.Tx, m mercury.Message, in mercury.Input) (mercury.Input, error) {
	if err := ensureConversation(tx, m); err != nil {
		return mercury.Input{}, err
	}
	if _, err := tx.LockConversation(m.Conversation); err != nil {
		return mercury.Input{}, err
	}
	in.AcceptedAt, in.SettledAt = tx.Now(), tx.Now()
	err := tx.InsertInput(in)
	if !errors.Is(err, store.ErrExists) {
		return mercury.Input{}, err
	}
	old, err := tx.FindInput(in.Channel, in.MessageID)
	if err == nil && old.Digest != in.Digest {
		err = &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("message %s was taken before with other content", m.ID)}
	}
	return old, err
}
