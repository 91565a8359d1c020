package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// owner is who holds the token.
var owner = mercury.Actor{Role: mercury.Owner, ID: "owner", Channel: "local"}

type ConversationID struct {
	ID string `path:"id" doc:"a name, or channel/place with the slash written %2F"`
}

type sendInput struct {
	ConversationID
	Body struct {
		Text      string         `json:"text" doc:"what is said; a command begins with a slash"`
		RequestID string         `json:"request_id,omitempty" maxLength:"200" doc:"the same id twice is one message; left out, each request is a message"`
		Mode      string         `json:"mode,omitempty" enum:"steer,follow-up,write" doc:"how it joins a busy conversation; default follow-up"`
		Files     []mercury.File `json:"files,omitempty"`
	}
}

type sendOutput struct {
	Body struct {
		InputID   string  `json:"input_id"`
		RunID     *string `json:"run_id" doc:"null while the message waits behind a running turn"`
		Duplicate bool    `json:"duplicate"`
		Outcome   string  `json:"outcome"`
		Reply     string  `json:"reply,omitempty" doc:"a command's answer"`
	}
}

func (s *Server) conversations() {
	huma.Register(s.api, huma.Operation{OperationID: "send-message", Method: http.MethodPost, Path: "/api/conversations/{id}/messages",
		Summary: "Say something. The answer comes after the message is stored and synced.", Tags: []string{"conversations"},
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: 2*intake.MaxText + 1<<16, Errors: []int{401, 409, 413, 422, 429, 503, 507}}, s.send)
	huma.Register(s.api, huma.Operation{OperationID: "list-conversations", Method: http.MethodGet, Path: "/api/conversations",
		Summary: "Conversations, newest activity first.", Tags: []string{"conversations"}},
		func(ctx context.Context, in *Paging) (*list[Conversation], error) {
			var items []mercury.Conversation
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				items, next, err = tx.Conversations(in.page())
				return err
			})
			if err != nil {
				return nil, s.failure("list conversations", err)
			}
			return page(mapSlice(items, conversation), next), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-conversation", Method: http.MethodGet, Path: "/api/conversations/{id}",
		Summary: "One conversation, with its live run.", Tags: []string{"conversations"}, Errors: []int{404}}, s.conversation)
	huma.Register(s.api, huma.Operation{OperationID: "list-entries", Method: http.MethodGet, Path: "/api/conversations/{id}/entries",
		Summary: "Entries after a seq, oldest first.", Tags: []string{"conversations"}, Errors: []int{404}}, s.entries)
	huma.Register(s.api, huma.Operation{OperationID: "list-commands", Method: http.MethodGet, Path: "/api/commands",
		Summary: "The slash commands the owner may use.", Tags: []string{"conversations"}},
		func(context.Context, *struct{}) (*list[Command], error) {
			return page(mapSlice(s.intake.Commands(owner), func(c intake.Command) Command {
				return Command{Name: c.Name, Aliases: c.Aliases, Args: c.Args, Help: c.Help}
			}), ""), nil
		})
}

// Command is a slash command on the wire.
type Command struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Args    string   `json:"args,omitempty"`
	Help    string   `json:"help"`
}

func (s *Server) send(ctx context.Context, in *sendInput) (*sendOutput, error) {
	id := mercury.LocalConversation(in.ID)
	if strings.HasSuffix(id, "/") || len(id) > 200 {
		return nil, huma.NewError(http.StatusUnprocessableEntity, "a conversation's name has 1 to 200 characters")
	}
	if mercury.ChannelOf(id) != "local" {
		err := s.engine.View(ctx, func(tx store.Tx) error { _, err := tx.Conversation(id); return err })
		if err != nil {
			return nil, s.failure("conversation "+id, err)
		}
	}
	if in.Body.RequestID == "" {
		in.Body.RequestID = mercury.NewID("rq")
	}
	mode := mercury.Mode(in.Body.Mode)
	if mode == "" {
		mode = mercury.FollowUp
	}
	// The message enters by the local channel whatever the conversation's own
	// is: the request id counts there.
	r, err := s.intake.Accept(ctx, mercury.Message{Channel: "local", ID: in.Body.RequestID, Conversation: id, Sender: owner,
		Text: in.Body.Text, Files: in.Body.Files, Mode: mode, Direct: true, At: time.Now()})
	if err != nil {
		return nil, s.failure("the message was not taken", err)
	}
	crash.Reach("api.accepted")
	out := &sendOutput{}
	out.Body.InputID, out.Body.Duplicate, out.Body.Outcome, out.Body.Reply = r.Input.ID, r.Duplicate, string(r.Outcome), r.Reply
	if r.RunID != "" {
		out.Body.RunID = &r.RunID
	}
	return out, nil
}

func (s *Server) conversation(ctx context.Context, in *ConversationID) (*struct{ Body Conversation }, error) {
	out := &struct{ Body Conversation }{}
	err := s.engine.View(ctx, func(tx store.Tx) error {
		c, err := tx.Conversation(mercury.LocalConversation(in.ID))
		if err != nil {
			return err
		}
		out.Body = conversation(c)
		// Not LiveRun: a reader takes no lock.
		live, _, err := tx.Runs(store.RunFilter{ConversationID: c.ID, Page: store.Page{Limit: 1},
			States: []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting}})
		if err != nil {
			return err
		}
		if len(live) > 0 {
			out.Body.RunID = live[0].ID
		}
		out.Body.Waiting, err = tx.CountQueued(c.ID)
		return err
	})
	if err != nil {
		return nil, s.failure("conversation "+in.ID, err)
	}
	return out, nil
}

type entriesInput struct {
	ConversationID
	After  int64 `query:"after" minimum:"0" doc:"entries with a greater seq"`
	Before int64 `query:"before" minimum:"0" doc:"instead: the newest entries with a smaller seq; 0 with last=true is the end"`
	Last   bool  `query:"last" doc:"the newest entries instead of the oldest"`
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

func (s *Server) entries(ctx context.Context, in *entriesInput) (*list[Entry], error) {
	id := mercury.LocalConversation(in.ID)
	var items []mercury.Entry
	err := s.engine.View(ctx, func(tx store.Tx) error {
		if _, err := tx.Conversation(id); err != nil {
			return err
		}
		var err error
		if in.Last || in.Before > 0 {
			items, err = tx.EntriesBefore(id, in.Before, in.Limit)
		} else {
			items, err = tx.Entries(id, in.After, in.Limit)
		}
		return err
	})
	if err != nil {
		return nil, s.failure("entries of "+in.ID, err)
	}
	next := ""
	if len(items) == in.Limit && !in.Last && in.Before == 0 {
		next = itoa(items[len(items)-1].Seq)
	}
	return page(mapSlice(items, entry), next), nil
}
