package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
)

// Schedule is work that starts itself, on the wire.
type Schedule struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	State          string    `json:"state" doc:"active, paused or done"`
	Reason         string    `json:"reason,omitempty" doc:"why it is paused"`
	When           string    `json:"when" doc:"as it was said"`
	Spec           string    `json:"spec" doc:"a cron expression, every and a span, or at and a time"`
	Zone           string    `json:"zone" doc:"the IANA zone it lives in"`
	OwnZone        bool      `json:"own_zone" doc:"the zone is the schedule's own, and does not follow the house's"`
	Missed         string    `json:"missed" doc:"what becomes of a missed time: once, skip, or within a span"`
	Jitter         string    `json:"jitter,omitempty"`
	Action         string    `json:"action" doc:"prompt, skill, send or command"`
	Prompt         string    `json:"prompt,omitempty"`
	Send           string    `json:"send,omitempty"`
	Skill          string    `json:"skill,omitempty"`
	Command        string    `json:"command,omitempty"`
	Precheck       string    `json:"precheck,omitempty"`
	Watch          string    `json:"watch,omitempty" doc:"a file or URL: nothing is done unless it changed"`
	Destination    string    `json:"destination"`
	ConversationID string    `json:"conversation_id" doc:"where its occurrences are worked on"`
	Rehearsed      bool      `json:"rehearsed,omitempty"`
	Failures       int       `json:"failures" doc:"in a row"`
	Next           []string  `json:"next" doc:"its next five times, in its zone"`
	Cost           string    `json:"cost" doc:"what one occurrence costs"`
	Card           string    `json:"card" doc:"all of it in words"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Occurrence is one firing of a schedule, on the wire.
type Occurrence struct {
	ID         string     `json:"id"`
	ScheduleID string     `json:"schedule_id"`
	DueAt      time.Time  `json:"due_at"`
	State      string     `json:"state" doc:"ran, late, missed, skipped or interrupted"`
	Reason     string     `json:"reason,omitempty"`
	Outcome    string     `json:"outcome,omitempty" doc:"of one that ran: done, silent (it had nothing to say) or failed; empty while it is at work"`
	RunID      string     `json:"run_id,omitempty"`
	Manual     bool       `json:"manual,omitempty" doc:"somebody asked for it"`
	Rehearsal  bool       `json:"rehearsal,omitempty"`
	Covers     int        `json:"covers" doc:"how many it stands for, where very many were missed"`
	At         time.Time  `json:"at" doc:"when it was acted upon"`
	EndedAt    *time.Time `json:"ended_at"`
}

// Text is the occurrence as the store has it, for a line in a terminal.
func (o Occurrence) Text() store.Occurrence {
	out := store.Occurrence{ID: o.ID, ScheduleID: o.ScheduleID, DueAt: o.DueAt, State: o.State, Reason: o.Reason, Outcome: o.Outcome,
		RunID: o.RunID, Manual: o.Manual, Rehearsal: o.Rehearsal, Covers: o.Covers, At: o.At}
	if o.EndedAt != nil {
		out.EndedAt = *o.EndedAt
	}
	return out
}

func wireSchedule(v schedule.View) Schedule {
	s := Schedule{ID: v.ID, Name: v.Name, State: v.State, Reason: v.Reason, When: v.Said, Spec: v.Spec, Zone: v.ZoneName, OwnZone: v.Zone != "",
		Missed: v.Missed, Action: v.Action, Prompt: v.Text, Skill: v.Skill, Command: v.Command, Precheck: v.Precheck, Watch: v.Watch, Destination: v.Destination,
		ConversationID: schedule.Conversation(v.ID), Rehearsed: v.Rehearsed, Failures: v.Fails, Next: []string{}, Cost: v.CostText(), Card: v.Card(),
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt}
	if s.When == "" {
		s.When = v.Spec
	}
	if v.Missed == schedule.MissedWithin {
		s.Missed += " " + v.Within.String()
	}
	if v.Jitter > 0 {
		s.Jitter = v.Jitter.String()
	}
	if v.Action == schedule.ActionSend {
		s.Prompt, s.Send = "", v.Text
	}
	for _, at := range v.Next {
		s.Next = append(s.Next, at.Format(time.RFC3339))
	}
	return s
}

func wireOccurrence(o store.Occurrence) Occurrence {
	return Occurrence{ID: o.ID, ScheduleID: o.ScheduleID, DueAt: o.DueAt, State: o.State, Reason: o.Reason, Outcome: o.Outcome, RunID: o.RunID,
		Manual: o.Manual, Rehearsal: o.Rehearsal, Covers: o.Covers, At: o.At, EndedAt: when(o.EndedAt)}
}

type scheduleOutput struct{ Body Schedule }

type draftInput struct {
	Body struct {
		schedule.Draft
		Conversation string `json:"conversation,omitempty" doc:"conversation it is made in, where its results go by default"`
	}
}

type editInput struct {
	ID   string `path:"id"`
	Body schedule.Draft
}

type runInput struct {
	ID   string `path:"id"`
	Body struct {
		Rehearse bool `json:"rehearse,omitempty" doc:"the owner watches: all it needs is asked, and what is granted becomes its whole permission"`
	} `required:"false"`
}

func (s *Server) schedules() {
	if s.opts.Schedules == nil {
		return
	}
	tag := []string{"schedules"}
	huma.Register(s.api, huma.Operation{OperationID: "list-schedules", Method: http.MethodGet, Path: "/api/schedules",
		Summary: "What starts by itself, newest first.", Tags: tag},
		func(ctx context.Context, in *Paging) (*list[Schedule], error) {
			var items []Schedule
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) error {
				items = items[:0]
				all, cursor, err := tx.Schedules(in.page())
				next = cursor
				for _, sch := range all {
					v, err := s.opts.Schedules.Look(tx, sch)
					if err != nil {
						return err
					}
					items = append(items, wireSchedule(v))
				}
				return err
			})
			if err != nil {
				return nil, s.failure("list schedules", err)
			}
			return page(items, next), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "add-schedule", Method: http.MethodPost, Path: "/api/schedules",
		Summary: "Let something start by itself.", Tags: tag, Errors: []int{422}},
		func(ctx context.Context, in *draftInput) (*scheduleOutput, error) {
			origin := in.Body.Conversation
			if origin == "" {
				origin = "default"
			}
			sch, err := s.opts.Schedules.New(in.Body.Draft, owner, mercury.LocalConversation(origin))
			if err != nil {
				return nil, s.failure("add schedule", err)
			}
			return s.changed(ctx, "add schedule", func(tx *engine.Tx) (store.Schedule, error) { return sch, s.opts.Schedules.Add(tx, sch) })
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-schedule", Method: http.MethodGet, Path: "/api/schedules/{id}",
		Summary: "One schedule, by its id or its name.", Tags: tag, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*scheduleOutput, error) {
			out := &scheduleOutput{}
			err := s.engine.View(ctx, func(tx store.Tx) error {
				sch, err := schedule.Find(tx, in.ID)
				if err != nil {
					return err
				}
				v, err := s.opts.Schedules.Look(tx, sch)
				out.Body = wireSchedule(v)
				return err
			})
			if err != nil {
				return nil, s.failure("schedule "+in.ID, err)
			}
			return out, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "edit-schedule", Method: http.MethodPatch, Path: "/api/schedules/{id}",
		Summary: "Change what is named; the rest stays.", Tags: tag, Errors: []int{404, 422}},
		func(ctx context.Context, in *editInput) (*scheduleOutput, error) {
			return s.changing(ctx, "edit", in.ID, func(tx *engine.Tx, id string) (store.Schedule, error) {
				return s.opts.Schedules.Edit(tx, id, in.Body)
			})
		})
	for verb, does := range map[string]func(*engine.Tx, string) (store.Schedule, error){
		"pause": func(tx *engine.Tx, id string) (store.Schedule, error) {
			return s.opts.Schedules.Pause(tx, id, "paused by the owner")
		},
		"resume": s.opts.Schedules.Resume,
	} {
		huma.Register(s.api, huma.Operation{OperationID: verb + "-schedule", Method: http.MethodPost, Path: "/api/schedules/{id}/" + verb,
			Summary: map[string]string{"pause": "Keep it from starting until it is resumed.", "resume": "Let it start again, from now on."}[verb],
			Tags:    tag, Errors: []int{404, 409}},
			func(ctx context.Context, in *ByID) (*scheduleOutput, error) {
				return s.changing(ctx, verb, in.ID, does)
			})
	}
	huma.Register(s.api, huma.Operation{OperationID: "remove-schedule", Method: http.MethodDelete, Path: "/api/schedules/{id}",
		Summary: "End it. What is at work goes on, and its occurrences stay.", Tags: tag, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*scheduleOutput, error) {
			return s.changing(ctx, "remove", in.ID, s.opts.Schedules.Remove)
		})
	huma.Register(s.api, huma.Operation{OperationID: "run-schedule", Method: http.MethodPost, Path: "/api/schedules/{id}/run",
		Summary: "Start an occurrence now, or rehearse one.", Tags: tag, Errors: []int{404, 409}},
		func(ctx context.Context, in *runInput) (*struct{ Body Occurrence }, error) {
			out := &struct{ Body Occurrence }{}
			err := s.engine.Update(ctx, "schedule.run", func(tx *engine.Tx) error {
				sch, err := schedule.Find(tx, in.ID)
				if err != nil {
					return err
				}
				o, err := s.opts.Schedules.RunNow(ctx, tx, sch.ID, in.Body.Rehearse)
				out.Body = wireOccurrence(o)
				return err
			})
			if err != nil {
				return nil, s.failure("run "+in.ID, err)
			}
			return out, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "list-occurrences", Method: http.MethodGet, Path: "/api/schedules/{id}/occurrences",
		Summary: "What became of each time of a schedule, newest first; of all of them with the id -.", Tags: tag, Errors: []int{404}},
		func(ctx context.Context, in *occurrencesInput) (*list[Occurrence], error) {
			var rows []store.Occurrence
			var next string
			err := s.engine.View(ctx, func(tx store.Tx) error {
				id := ""
				if in.ID != "-" {
					sch, err := schedule.Find(tx, in.ID)
					if err != nil {
						return err
					}
					id = sch.ID
				}
				var err error
				rows, next, err = tx.Occurrences(id, in.page())
				return err
			})
			if err != nil {
				return nil, s.failure("occurrences of "+in.ID, err)
			}
			return page(mapSlice(rows, wireOccurrence), next), nil
		})
}

type occurrencesInput struct {
	ByID
	Paging
}

// changing finds a schedule, changes it and shows it.
func (s *Server) changing(ctx context.Context, verb, word string, change func(*engine.Tx, string) (store.Schedule, error)) (*scheduleOutput, error) {
	return s.changed(ctx, verb+" "+word, func(tx *engine.Tx) (store.Schedule, error) {
		sch, err := schedule.Find(tx, word)
		if err != nil {
			return sch, err
		}
		return change(tx, sch.ID)
	})
}

func (s *Server) changed(ctx context.Context, what string, change func(*engine.Tx) (store.Schedule, error)) (*scheduleOutput, error) {
	out := &scheduleOutput{}
	err := s.engine.Update(ctx, "schedule.change", func(tx *engine.Tx) error {
		sch, err := change(tx)
		if err != nil {
			return err
		}
		v, err := s.opts.Schedules.Look(tx, sch)
		out.Body = wireSchedule(v)
		return err
	})
	if err != nil {
		return nil, s.failure(what, err)
	}
	return out, nil
}
