package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Grant is a right that a person gave, on the wire.
type Grant struct {
	ID        string     `json:"id"`
	Rule      string     `json:"rule" doc:"what it covers"`
	For       string     `json:"for" doc:"whom it is for"`
	GivenBy   string     `json:"given_by"`
	Via       string     `json:"via,omitempty" doc:"the question it answered"`
	RunID     string     `json:"run_id,omitempty" doc:"it holds for this run alone"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at" doc:"null: until revoked"`
}

func grant(g store.Grant) Grant {
	return Grant{ID: g.ID, Rule: g.Rule, For: person(g.Actor), GivenBy: person(g.GivenBy), Via: g.Via, RunID: g.RunID,
		CreatedAt: g.CreatedAt, ExpiresAt: when(g.ExpiresAt)}
}

// Decision is one line of the record of what was decided, on the wire.
type Decision struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Act     string    `json:"act" doc:"judge, answer, grant, revoke, mode, undo, …"`
	Subject string    `json:"subject,omitempty"`
	Verdict string    `json:"verdict,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Detail  string    `json:"detail,omitempty"`
}

func decision(r store.AuditRow) Decision {
	return Decision{ID: r.ID, At: r.At, Who: person(r.Actor), Act: r.Act, Subject: r.Subject, Verdict: r.Verdict, Rule: r.Rule, Detail: r.Detail}
}

type allowInput struct {
	Body struct {
		Rule    string `json:"rule" minLength:"3" maxLength:"4000" doc:"such as run:git commit * or write:/home/me/notes/**"`
		Seconds int64  `json:"seconds,omitempty" minimum:"0" maximum:"315360000" doc:"how long; 0 is until revoked"`
	}
}

type undoInput struct {
	ID   string `path:"id" doc:"of the run, or last"`
	Body struct {
		Apply        bool   `json:"apply,omitempty" doc:"do it; else it is only shown"`
		Conversation string `json:"conversation,omitempty" doc:"with last: of this conversation"`
	}
}

func (s *Server) rights() {
	huma.Register(s.api, huma.Operation{OperationID: "list-grants", Method: http.MethodGet, Path: "/api/permissions",
		Summary: "The grants that hold now.", Tags: []string{"permissions"}},
		func(ctx context.Context, _ *struct{}) (*list[Grant], error) {
			var items []store.Grant
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				items, err = intake.Grants(tx)
				return err
			})
			if err != nil {
				return nil, s.failure("list grants", err)
			}
			return page(mapSlice(items, grant), ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "allow", Method: http.MethodPost, Path: "/api/permissions",
		Summary: "Grant a rule to the owner.", Tags: []string{"permissions"}, Errors: []int{422}},
		func(ctx context.Context, in *allowInput) (*struct{ Body Grant }, error) {
			out := &struct{ Body Grant }{}
			err := s.engine.Update(ctx, "grant", func(tx *engine.Tx) error {
				g, err := intake.Allow(tx, in.Body.Rule, time.Duration(in.Body.Seconds)*time.Second, owner)
				out.Body = grant(g)
				return err
			})
			if err != nil {
				return nil, s.failure("allow", err)
			}
			return out, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "revoke", Method: http.MethodDelete, Path: "/api/permissions/{id}",
		Summary: "End a grant. What it allowed is asked again.", Tags: []string{"permissions"}, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*struct{}, error) {
			err := s.engine.Update(ctx, "revoke", func(tx *engine.Tx) error { return intake.Revoke(tx, in.ID, owner) })
			if err != nil {
				return nil, s.failure("revoke", err)
			}
			return nil, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "list-decisions", Method: http.MethodGet, Path: "/api/permissions/log",
		Summary: "What was decided and by which rule, newest first.", Tags: []string{"permissions"}},
		func(ctx context.Context, in *Paging) (*list[Decision], error) {
			var rows []store.AuditRow
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				rows, next, err = tx.AuditRows(in.page())
				return err
			})
			if err != nil {
				return nil, s.failure("list decisions", err)
			}
			return page(mapSlice(rows, decision), next), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "undo-run", Method: http.MethodPost, Path: "/api/runs/{id}/undo",
		Summary: "Take back what a run did to files, or only show it.", Tags: []string{"runs"}, Errors: []int{404, 409}}, s.undo)
}

func (s *Server) undo(ctx context.Context, in *undoInput) (*struct{ Body mercury.Undone }, error) {
	if s.opts.Undo == nil {
		return nil, s.failure("undo", &mercury.Error{Kind: mercury.Conflict, Err: errors.New("nothing here keeps what it would take")})
	}
	run, conversation := in.ID, in.Body.Conversation
	if run == "last" {
		run = ""
	}
	if conversation != "" {
		conversation = mercury.LocalConversation(conversation)
	}
	out := &struct{ Body mercury.Undone }{}
	look := func(tx store.Tx) (err error) {
		out.Body, err = s.opts.Undo(ctx, tx, run, conversation, in.Body.Apply, owner)
		return err
	}
	err := error(nil)
	if in.Body.Apply {
		err = s.engine.Update(ctx, "undo", func(tx *engine.Tx) error { return look(tx) })
	} else {
		err = s.engine.View(ctx, look)
	}
	if err != nil {
		return nil, s.failure("undo", err)
	}
	return out, nil
}
