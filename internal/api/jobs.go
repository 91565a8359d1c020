package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Job is a background command on the wire.
type Job struct {
	ID             string     `json:"id"`
	ConversationID string     `json:"conversation_id"`
	RunID          string     `json:"run_id,omitempty"`
	Command        string     `json:"command"`
	Dir            string     `json:"dir"`
	State          string     `json:"state" doc:"running, done or stopped"`
	Reason         string     `json:"reason,omitempty"`
	ExitCode       int        `json:"exit_code" doc:"of one that is done"`
	Detached       bool       `json:"detached,omitempty" doc:"it outlives its conversation"`
	StartedAt      time.Time  `json:"started_at"`
	EndedAt        *time.Time `json:"ended_at"`
	Output         string     `json:"output,omitempty" doc:"the end of what it printed; given by the route of one job"`
}

func job(j store.Job) Job {
	return Job{ID: j.ID, ConversationID: j.ConversationID, RunID: j.RunID, Command: j.Command, Dir: j.Dir, State: j.State,
		Reason: j.Reason, ExitCode: j.ExitCode, Detached: j.Detached, StartedAt: j.StartedAt, EndedAt: when(j.EndedAt)}
}

type jobsInput struct {
	Conversation string `query:"conversation"`
}

func (s *Server) jobs() {
	huma.Register(s.api, huma.Operation{OperationID: "list-jobs", Method: http.MethodGet, Path: "/api/jobs",
		Summary: "Background commands, newest first, at most 100.", Tags: []string{"jobs"}},
		func(ctx context.Context, in *jobsInput) (*list[Job], error) {
			conversation := in.Conversation
			if conversation != "" {
				conversation = mercury.LocalConversation(conversation)
			}
			var rows []store.Job
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				rows, err = tx.Jobs(conversation)
				return err
			})
			if err != nil {
				return nil, s.failure("list jobs", err)
			}
			return page(mapSlice(rows, job), ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-job", Method: http.MethodGet, Path: "/api/jobs/{id}",
		Summary: "One background command, with the end of what it printed.", Tags: []string{"jobs"}, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*struct{ Body Job }, error) {
			out := &struct{ Body Job }{}
			err := s.engine.View(ctx, func(tx store.Tx) error {
				j, err := tx.Job(in.ID)
				out.Body = job(j)
				if err == nil && s.opts.Jobs != nil {
					out.Body.Output = s.opts.Jobs.Output(j)
				}
				return err
			})
			if err != nil {
				return nil, s.failure("job "+in.ID, err)
			}
			return out, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "stop-job", Method: http.MethodPost, Path: "/api/jobs/{id}/stop",
		Summary: "End a background command. Its end is written down when it has come.", Tags: []string{"jobs"}, Errors: []int{404, 409}},
		func(ctx context.Context, in *ByID) (*struct{ Body Job }, error) {
			out := &struct{ Body Job }{}
			err := s.engine.Update(ctx, "job.stop", func(tx *engine.Tx) error {
				j, err := tx.Job(in.ID)
				if err != nil {
					return err
				}
				out.Body = job(j)
				return s.intake.StopJob(tx, j, owner)
			})
			if err != nil {
				return nil, s.failure("stop "+in.ID, err)
			}
			return out, nil
		})
}
