package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

type ByID struct {
	ID string `path:"id"`
}

type runsInput struct {
	Paging
	Conversation string   `query:"conversation"`
	State        []string `query:"state" enum:"queued,running,waiting,done,failed,stopped,dead"`
	Lane         string   `query:"lane"`
}

func (s *Server) runs() {
	huma.Register(s.api, huma.Operation{OperationID: "list-runs", Method: http.MethodGet, Path: "/api/runs",
		Summary: "Runs, newest first.", Tags: []string{"runs"}}, s.listRuns)
	huma.Register(s.api, huma.Operation{OperationID: "get-run", Method: http.MethodGet, Path: "/api/runs/{id}",
		Summary: "One run, with its steps.", Tags: []string{"runs"}, Errors: []int{404}}, s.run)
	huma.Register(s.api, huma.Operation{OperationID: "cancel-run", Method: http.MethodPost, Path: "/api/runs/{id}/cancel",
		Summary: "End a run and what it started. Waiting messages are answered next.", Tags: []string{"runs"}, Errors: []int{404, 409}}, s.cancel)
	huma.Register(s.api, huma.Operation{OperationID: "replay-run", Method: http.MethodPost, Path: "/api/runs/{id}/replay",
		Summary: "Run a stopped or dead run again, with its old input.", Tags: []string{"runs"}, Errors: []int{404, 409}},
		func(ctx context.Context, in *ByID) (*struct{ Body Run }, error) {
			r, err := s.engine.Replay(ctx, in.ID, owner)
			if err != nil {
				return nil, s.failure("replay "+in.ID, err)
			}
			return &struct{ Body Run }{run(r)}, nil
		})
}

func (s *Server) listRuns(ctx context.Context, in *runsInput) (*list[Run], error) {
	f := store.RunFilter{Lane: mercury.Lane(in.Lane), Page: in.page()}
	if in.Conversation != "" {
		f.ConversationID = mercury.LocalConversation(in.Conversation)
	}
	for _, st := range in.State {
		f.States = append(f.States, mercury.RunState(st))
	}
	var items []mercury.Run
	var next string
	err := s.engine.View(ctx, func(tx store.Tx) (err error) {
		items, next, err = tx.Runs(f)
		return err
	})
	if err != nil {
		return nil, s.failure("list runs", err)
	}
	return page(mapSlice(items, run), next), nil
}

func (s *Server) run(ctx context.Context, in *ByID) (*struct{ Body Run }, error) {
	out := &struct{ Body Run }{}
	err := s.engine.View(ctx, func(tx store.Tx) error {
		r, err := tx.Run(in.ID)
		if err != nil {
			return err
		}
		steps, err := tx.Steps(in.ID)
		out.Body = run(r)
		out.Body.Steps = mapSlice(steps, step)
		return err
	})
	if err != nil {
		return nil, s.failure("run "+in.ID, err)
	}
	return out, nil
}

func (s *Server) cancel(ctx context.Context, in *ByID) (*struct{ Body Run }, error) {
	out := &struct{ Body Run }{}
	err := s.engine.Update(ctx, "cancel", func(tx *engine.Tx) error {
		r, err := tx.Run(in.ID)
		if err != nil {
			return err
		}
		if !r.State.Live() {
			return &mercury.Error{Kind: mercury.Conflict, Err: errors.New("the run has ended: " + string(r.State))}
		}
		if err := tx.Cancel(in.ID, "stopped", owner); err != nil {
			return err
		}
		r, err = tx.Run(in.ID)
		out.Body = run(r)
		return err
	})
	if err != nil {
		return nil, s.failure("cancel "+in.ID, err)
	}
	return out, nil
}

type deliveriesInput struct {
	Paging
	Conversation string   `query:"conversation"`
	State        []string `query:"state" enum:"pending,held,sending,sent,unknown,refused,superseded,cancelled"`
}

func (s *Server) deliveries() {
	huma.Register(s.api, huma.Operation{OperationID: "list-deliveries", Method: http.MethodGet, Path: "/api/deliveries",
		Summary: "Deliveries, newest first.", Tags: []string{"deliveries"}},
		func(ctx context.Context, in *deliveriesInput) (*list[Delivery], error) {
			f := store.DeliveryFilter{Page: in.page()}
			if in.Conversation != "" {
				f.ConversationID = mercury.LocalConversation(in.Conversation)
			}
			for _, st := range in.State {
				f.States = append(f.States, mercury.DeliveryState(st))
			}
			var items []mercury.Delivery
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				items, next, err = tx.Deliveries(f)
				return err
			})
			if err != nil {
				return nil, s.failure("list deliveries", err)
			}
			return page(mapSlice(items, delivery), next), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-delivery", Method: http.MethodGet, Path: "/api/deliveries/{id}",
		Summary: "One delivery, with its parts.", Tags: []string{"deliveries"}, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*struct{ Body Delivery }, error) {
			out := &struct{ Body Delivery }{}
			err := s.engine.View(ctx, func(tx store.Tx) error {
				d, err := tx.Delivery(in.ID)
				out.Body = delivery(d)
				return err
			})
			if err != nil {
				return nil, s.failure("delivery "+in.ID, err)
			}
			return out, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "resend-delivery", Method: http.MethodPost, Path: "/api/deliveries/{id}/resend",
		Summary: "Send an unknown, refused or held delivery again, from the first part that did not surely arrive.",
		Tags:    []string{"deliveries"}, Errors: []int{404, 409}},
		func(ctx context.Context, in *ByID) (*struct{ Body Delivery }, error) {
			d, err := s.engine.Resend(ctx, in.ID, owner)
			if err != nil {
				return nil, s.failure("resend "+in.ID, err)
			}
			return &struct{ Body Delivery }{delivery(d)}, nil
		})
}

type questionsInput struct {
	Paging
	All          bool   `query:"all" doc:"settled ones too"`
	Conversation string `query:"conversation"`
}

type answerInput struct {
	ByID
	Body struct {
		Answer string `json:"answer" minLength:"1" maxLength:"100000" doc:"to an approval: once, run, hour, always or no (yes is once); else a choice's value, or text"`
	}
}

// meant is what an answer stands for. To an approval anything unclear would
// count as no, so a slip of the finger is handed back instead: the question
// stays open.
func meant(q mercury.Question, answer string) (string, error) {
	if q.Kind != "approval" {
		return answer, nil
	}
	said := strings.ToLower(strings.TrimSpace(answer))
	switch said {
	case "yes":
		return mercury.AnswerOnce, nil
	case mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour, mercury.AnswerAlways, mercury.AnswerNo:
		return said, nil
	}
	for _, c := range q.Choices {
		if strings.EqualFold(said, c.Value) || strings.EqualFold(said, c.Label) {
			return c.Value, nil
		}
	}
	return "", &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is no answer to this question", answer),
		Help: "Say once, run, hour, always or no; it still waits."}
}

func (s *Server) questions() {
	huma.Register(s.api, huma.Operation{OperationID: "list-questions", Method: http.MethodGet, Path: "/api/questions",
		Summary: "Open questions; with all=true the settled ones too.", Tags: []string{"questions"}},
		func(ctx context.Context, in *questionsInput) (*list[Question], error) {
			var items []mercury.Question
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				if in.All {
					items, next, err = tx.QuestionsList(in.page())
					return err
				}
				conversation := in.Conversation
				if conversation != "" {
					conversation = mercury.LocalConversation(conversation)
				}
				items, err = tx.OpenQuestions(conversation)
				return err
			})
			if err != nil {
				return nil, s.failure("list questions", err)
			}
			return page(mapSlice(items, question), next), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "answer-question", Method: http.MethodPost, Path: "/api/questions/{id}/answer",
		Summary: "Settle a question. The first answer counts; a later one gets 409 and who answered.",
		Tags:    []string{"questions"}, Errors: []int{403, 404, 409, 422}},
		func(ctx context.Context, in *answerInput) (*struct{ Body Question }, error) {
			answer := in.Body.Answer
			out := &struct{ Body Question }{}
			err := s.engine.Update(ctx, "answer", func(tx *engine.Tx) error {
				q, err := tx.Question(in.ID)
				if err != nil {
					return err
				}
				if answer, err = meant(q, answer); err != nil {
					return err
				}
				q, err = tx.Answer(in.ID, answer, owner, "local")
				out.Body = question(q)
				return err
			})
			if err != nil {
				return nil, s.failure("answer "+in.ID, err)
			}
			return out, nil
		})
}
