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

// Status is the house at one moment.
type Status struct {
	About
	Version    string                   `json:"version"`
	Lanes      map[string]Lane          `json:"lanes"`
	Deliveries map[string]int           `json:"deliveries" doc:"how many stand in each state"`
	Questions  int                      `json:"questions" doc:"that wait for a decision"`
	LatencyMS  float64                  `json:"scheduler_latency_ms"`
	WorstMS    float64                  `json:"scheduler_latency_worst_ms"`
	Holds      []Hold                   `json:"holds,omitempty"`
	Processes  []Process                `json:"processes,omitempty" doc:"where several share one database"`
	Usage      map[string]mercury.Usage `json:"usage,omitempty" doc:"today's tokens"`
	Waiting    []Question               `json:"waiting,omitempty" doc:"open questions"`
}

// Lane is how full a lane is.
type Lane struct {
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Cap     int `json:"cap"`
}

// Hold keeps runs of a key from starting.
type Hold struct {
	Key    string     `json:"key"`
	Until  *time.Time `json:"until"`
	Reason string     `json:"reason"`
}

// Process is one running Mercury.
type Process struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Started time.Time `json:"started_at"`
}

// Health is all that an open route says.
type Health struct {
	Status string `json:"status" doc:"ok, degraded or draining"`
}

func (s *Server) status() {
	huma.Register(s.api, huma.Operation{OperationID: "health", Method: http.MethodGet, Path: "/api/health",
		Summary: "Whether it runs. The only route without a token.", Tags: []string{"status"},
		Security: []map[string][]string{}},
		func(ctx context.Context, _ *struct{}) (*struct{ Body Health }, error) {
			h := Health{Status: "ok"}
			st, err := s.engine.Status(ctx)
			switch {
			case err != nil || st.State == "degraded" || len(s.opts.About(ctx).Problems) > 0:
				h.Status = "degraded"
			case st.State == "draining":
				h.Status = "draining"
			}
			return &struct{ Body Health }{h}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "stop", Method: http.MethodPost, Path: "/api/stop",
		Summary: "Stop in order: nothing new is taken, what is in hand is put down where it can be picked up again.", Tags: []string{"status"},
		DefaultStatus: http.StatusAccepted, Errors: []int{409}},
		func(context.Context, *struct{}) (*struct{}, error) {
			if s.opts.Stop == nil {
				return nil, huma.NewError(http.StatusConflict, "this Mercury ends with its terminal; leave it there")
			}
			s.opts.Stop()
			return &struct{}{}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "status", Method: http.MethodGet, Path: "/api/status",
		Summary: "What is going on, and what needs you.", Tags: []string{"status"}}, s.statusRoute)
}

func (s *Server) statusRoute(ctx context.Context, _ *struct{}) (*struct{ Body Status }, error) {
	out := Status{About: s.opts.About(ctx), Version: s.opts.Version}
	st, err := s.engine.Status(ctx)
	if err != nil {
		// Status answers while the database does not: it says so.
		out.State = "degraded"
		out.Problems = append(out.Problems, explain(err))
		return &struct{ Body Status }{out}, nil
	}
	fill(&out, st)
	err = s.engine.View(ctx, func(tx store.Tx) error {
		open, err := tx.OpenQuestions("")
		if err != nil {
			return err
		}
		out.Waiting = mapSlice(open, question)
		now := time.Now()
		day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
		sums, err := tx.SumUsage("model", day, now.Add(time.Minute), now.Location())
		for _, u := range sums {
			if out.Usage == nil {
				out.Usage = map[string]mercury.Usage{}
			}
			out.Usage[u.Group] = u.Usage
		}
		return err
	})
	if err != nil {
		out.State = "degraded"
		out.Problems = append(out.Problems, explain(err))
	}
	return &struct{ Body Status }{out}, nil
}

func fill(out *Status, st engine.Status) {
	if out.State == "" || out.State == "idle" || st.State == "degraded" || st.State == "draining" {
		out.State = st.State
	}
	if st.Degraded != "" {
		out.Problems = append(out.Problems, st.Degraded)
	}
	out.Questions = st.Questions
	out.LatencyMS = float64(st.Latency.Microseconds()) / 1000
	out.WorstMS = float64(st.Worst.Microseconds()) / 1000
	out.Lanes, out.Deliveries = map[string]Lane{}, map[string]int{}
	for lane, l := range st.Lanes {
		out.Lanes[string(lane)] = Lane{Queued: l.Queued, Running: l.Running, Waiting: l.Waiting, Cap: l.Cap}
	}
	for state, n := range st.Deliveries {
		out.Deliveries[string(state)] = n
	}
	for _, h := range st.Holds {
		out.Holds = append(out.Holds, Hold{Key: h.Key, Until: when(h.Until), Reason: h.Reason})
	}
	for _, p := range st.Processes {
		out.Processes = append(out.Processes, Process{Name: p.Name, Version: p.Version, Started: p.StartedAt})
	}
}

// explain is an error with its remedy, for a person.
func explain(err error) string {
	if help := mercury.HelpOf(err); help != "" {
		return err.Error() + ". " + help
	}
	return err.Error()
}
