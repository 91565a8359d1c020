//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
)

// Said is a message that Mercury has taken, or must take.
type Said struct {
	Channel      string // "local" or "relay"
	ID           string // request id, or the bridge's
	Conversation string // whole, such as "relay/ann"
	Text         string
	Command      bool
}

// Say posts a message through the API until it is taken. A retry is the same
// request.
func (w *World) Say(ctx context.Context, conversation, text, mode string) error {
	id := "rq-" + strings.Map(word, text)
	s := Said{Channel: "local", ID: id, Conversation: "local/" + conversation, Text: text, Command: strings.HasPrefix(text, "/")}
	err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.Send(ctx, s.Conversation, client.Message{Text: text, RequestID: id, Mode: mode})
		return err
	})
	if err != nil {
		return fmt.Errorf("say %q: %w", text, err)
	}
	w.mu.Lock()
	w.said = append(w.said, s)
	w.mu.Unlock()
	return nil
}

func word(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// Push gives a message to the bridge, which offers it until it was taken.
func (w *World) Push(place, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushed = w.Relay.Push(place, text)
	w.said = append(w.said, Said{Channel: "relay", ID: w.pushed, Conversation: "relay/" + place, Text: text, Command: strings.HasPrefix(text, "/")})
}

// Remember makes messages of an earlier world part of this one: what was taken
// there must be here, and the bridge offers again what it was not told to
// forget.
func (w *World) Remember(taken []Said, offered []Said) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(append(w.said, taken...), offered...)
	for _, s := range offered {
		w.pushed = s.ID
		w.Relay.Redeliver(s.ID, strings.TrimPrefix(s.Conversation, "relay/"), s.Text)
	}
}

// Taken reports whether a poll's cursor has passed all that was pushed.
func (w *World) Taken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A process that thaws may poll once more from an older place.
	return w.pushed == "" || slices.Contains(w.Relay.Cursors(), w.pushed)
}

// Spoken returns what was said so far.
func (w *World) Spoken() []Said {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Said(nil), w.said...)
}

// Asked waits until a question of the conversation is open. It returns early,
// without one, when the conversation's work has ended.
func (w *World) Asked(ctx context.Context, conversation string) (open bool, err error) {
	err = Until(ctx, func() (bool, error) {
		busy, err := w.Busy(ctx, conversation)
		if err != nil || !busy {
			return !busy, err
		}
		q, err := w.question(ctx, conversation)
		open = q.ID != ""
		return open, err
	})
	return open, err
}

// Busy reports whether a conversation has a live run or a waiting message.
func (w *World) Busy(ctx context.Context, conversation string) (busy bool, err error) {
	err = w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
		got, err := c.Conversation(ctx, conversation)
		busy = got.RunID != "" || got.Waiting > 0
		return err
	})
	var none *client.Error
	if errors.As(err, &none) && none.Status == 404 {
		return true, nil // its first message is on the way
	}
	return busy, err
}

// Quiet waits until a conversation has no work and has been taken whole.
func (w *World) Quiet(ctx context.Context, conversation string) error {
	return Until(ctx, func() (bool, error) {
		if strings.HasPrefix(conversation, "relay/") && !w.Taken() {
			return false, nil
		}
		busy, err := w.Busy(ctx, conversation)
		return !busy, err
	})
}

func (w *World) question(ctx context.Context, conversation string) (found api.Question, err error) {
	err = w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
		open, err := c.Questions(ctx, false)
		found = api.Question{}
		for _, q := range open.Items {
			if q.ConversationID == conversation {
				found = q
			}
		}
		return err
	})
	return found, err
}

// Free lets Answering answer the questions of conversations from now on.
func (w *World) Free(conversations ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conversations {
		w.free[c] = true
	}
}

// Answering answers the questions of free conversations as they come: an
// approval with "once", any other with answer, until ctx ends.
func (w *World) Answering(ctx context.Context, answer string) error {
	for ctx.Err() == nil {
		err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
			open, err := c.Questions(ctx, false)
			if err != nil {
				return err
			}
			for _, q := range open.Items {
				w.mu.Lock()
				free := w.free[q.ConversationID]
				w.mu.Unlock()
				if !free {
					continue
				}
				word := "once"
				if q.Kind != "approval" {
					word = answer
				}
				// Settled by an earlier try is settled.
				var refused *client.Error
				if _, err := c.Answer(ctx, q.ID, word); err != nil && !(errors.As(err, &refused) && refused.Status == 409) {
					return err
				}
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("answer questions: %w", err)
		}
		pause(ctx)
	}
	return nil
}

// Shown waits until a conversation has no delivery on its way.
func (w *World) Shown(ctx context.Context, conversation string) error {
	return Until(ctx, func() (bool, error) {
		left := 0
		err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
			list, err := c.Deliveries(ctx, url.Values{"conversation": {conversation}, "state": {"pending,sending"}})
			left = len(list.Items)
			return err
		})
		return left == 0, err
	})
}

// Quiescent waits until nothing is left to do anywhere: no message on its way
// in, no live run, no delivery on its way out.
func (w *World) Quiescent(ctx context.Context) error {
	return Until(ctx, func() (bool, error) {
		if !w.Taken() {
			return false, nil
		}
		idle := false
		err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
			st, err := c.Status(ctx)
			idle = err == nil && st.Deliveries["pending"]+st.Deliveries["sending"] == 0
			for lane, l := range st.Lanes {
				if lane == "quiet" {
					l.Queued = 0 // a lesson waits for its moment
				}
				idle = idle && l.Queued+l.Running+l.Waiting == 0
			}
			return err
		})
		return idle, err
	})
}

// Path is a file of the workspace.
func (w *World) Path(name string) string { return filepath.Join(w.Workspace, name) }

// Exists reports whether a file of the workspace is there.
func (w *World) Exists(name string) bool {
	_, err := os.Stat(w.Path(name))
	return err == nil
}

// Lines counts the lines of a file of the workspace; 0 when there is none.
func (w *World) Lines(name string) int {
	b, err := os.ReadFile(w.Path(name))
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "\n")
}

// Problems are why a house says that it is degraded.
func (w *World) Problems(ctx context.Context) (problems []string) {
	err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
		st, err := c.Status(ctx)
		problems = st.Problems
		return err
	})
	if err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}
