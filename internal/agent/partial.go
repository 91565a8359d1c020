package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// show streams an answer to whoever watches, and to the spool that survives a
// kill. Losing either loses nothing but the view.
func (t *turn) show(ev llm.Event) {
	switch ev.Kind {
	case llm.TextDelta:
		t.streamed.WriteString(ev.Text)
		t.publish("delta", Delta{Text: ev.Text}) // first: the file may have to wait for the disk
		t.w.Partial(ev.Text)
	case llm.ToolStart:
		t.phase("calling", ev.Name)
	case llm.Restart:
		if t.streamed.Len() > 0 {
			t.w.Partial("\n…\n") // the spool only grows
		}
		t.streamed.Reset()
		t.publish("delta", Delta{Restart: true})
	}
}

// keepPartial stores what an earlier claim had streamed of an answer it did
// not finish. People see it, marked as broken off; the model does not, because
// the step that made it runs again.
func (t *turn) keepPartial(ctx context.Context) error {
	text := t.w.TakePartial()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	err := t.w.Update(ctx, "agent.partial", func(tx *engine.Tx) error {
		_, err := tx.Append(t.run.ConversationID, aborted(t.run.ID, text))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep partial answer: %w", err)
	}
	return nil
}

// aborted is the entry of an answer that was broken off.
func aborted(run, text string) mercury.Entry {
	return mercury.Entry{Kind: mercury.AssistantEntry, RunID: run, Text: text, Hidden: true,
		Data: encode(assistantData{Parts: []llm.Part{{Kind: llm.Text, Text: text}}, Aborted: true})}
}
