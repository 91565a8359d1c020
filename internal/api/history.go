package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// maxHistory bounds one talk that is brought in, in bytes of its request.
const maxHistory = 64 << 20

// History is a talk that took place elsewhere.
type History struct {
	Title   string        `json:"title,omitempty" maxLength:"500"`
	Source  string        `json:"source" minLength:"1" maxLength:"40" doc:"where it took place; what is derived from its answers is marked with it"`
	Entries []HistoryLine `json:"entries" minItems:"1"`
}

// HistoryLine is one line of it.
type HistoryLine struct {
	Kind string    `json:"kind" enum:"user,assistant,note" doc:"notes are kept and shown, and left out of requests to models"`
	Text string    `json:"text"`
	At   time.Time `json:"at,omitzero"`
}

// Kept says whether a talk was new.
type Kept struct {
	Added bool `json:"added" doc:"false when a conversation of this id is there; it is left as it is"`
}

type pastInput struct {
	ConversationID
	Body History
}

func (s *Server) history() {
	huma.Register(s.api, huma.Operation{OperationID: "keep-history", Method: http.MethodPut, Path: "/api/conversations/{id}/history",
		Summary: "Keep a talk that took place elsewhere as a conversation. Nothing is answered and nothing runs.", Tags: []string{"conversations"},
		MaxBodyBytes: maxHistory, Errors: []int{401, 422, 503, 507}},
		func(ctx context.Context, in *pastInput) (*struct{ Body Kept }, error) {
			added, err := s.keepHistory(ctx, mercury.LocalConversation(in.ID), in.Body)
			if err != nil {
				return nil, s.failure("keep the talk "+in.ID, err)
			}
			return &struct{ Body Kept }{Kept{added}}, nil
		})
}

// keepHistory writes conversation and entries in one transaction. What people
// said is theirs; answers may repeat what came from anywhere and are marked.
func (s *Server) keepHistory(ctx context.Context, id string, h History) (added bool, err error) {
	taint := []string{"import:" + h.Source}
	err = s.engine.Update(ctx, "keep history", func(tx *engine.Tx) error {
		added = false
		now := tx.Now()
		c := mercury.Conversation{ID: id, Kind: "chat", Title: h.Title, CreatedAt: now, UpdatedAt: now}
		var entries []mercury.Entry
		for _, line := range h.Entries {
			e := mercury.Entry{Kind: mercury.EntryKind(line.Kind), Text: line.Text, At: line.At}
			switch e.Kind {
			case mercury.UserEntry:
				e.Actor = owner
			case mercury.AssistantEntry:
				e.Taint = taint
			case mercury.NoteEntry:
				e.Hidden = true
			}
			if e.At.IsZero() && len(entries) > 0 {
				e.At = entries[len(entries)-1].At
			}
			if !e.At.IsZero() && c.CreatedAt.Equal(now) {
				c.CreatedAt = e.At
			}
			if !e.At.IsZero() {
				c.UpdatedAt = e.At
			}
			entries = append(entries, e)
		}
		switch err := tx.InsertConversation(c); {
		case errors.Is(err, store.ErrExists):
			return nil
		case err != nil:
			return err
		}
		if _, err := tx.LockConversation(id); err != nil {
			return err
		}
		// By the store itself: nobody waits for events of what is long over.
		if _, err := tx.Tx.Append(id, entries...); err != nil {
			return err
		}
		if added = true; !c.UpdatedAt.Equal(now) { // what is over is not the newest activity
			then := c.UpdatedAt
			if c, err = tx.Conversation(id); err != nil {
				return err
			}
			c.UpdatedAt = then
			return tx.SaveConversation(c)
		}
		return nil
	})
	return added, err
}
