package intake

import (
	"context"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Note takes a message that comes too late to be acted on: its words are kept
// in the conversation for the model to see, it starts nothing, answers no
// question, is no command and gets no reply. One that is known already, and
// one of a stranger, is passed over.
func (i *Intake) Note(ctx context.Context, m mercury.Message) error {
	m.Sender.Channel = m.Channel
	if m.Sender.Role == "" {
		m.Sender.Role = i.opts.Role(m.Channel, m.Sender)
	}
	if _, _, command := parseCommand(m.Text); command || m.Sender.Role == mercury.Stranger || len(m.Text) > MaxText ||
		!i.opts.May(m.Sender.Role, mercury.MayPrompt) {
		return nil
	}
	known, err := i.known(ctx, m)
	if err != nil || known.ID != "" {
		return err
	}
	m.Mode = mercury.Write
	in := input(m)
	err = i.engine.Update(ctx, "note", func(tx *engine.Tx) error {
		if err := ensureConversation(tx, m); err != nil {
			return err
		}
		_, err := tx.Post(in)
		return err
	})
	if kind := mercury.KindOf(err); kind == mercury.Invalid || kind == mercury.Conflict || kind == mercury.Denied {
		i.opts.Log.Warn("an old message was passed over", "channel", m.Channel, "err", err)
		return nil
	}
	return err
}
