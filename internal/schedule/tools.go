package schedule

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed schedule_task.md
var taskUsage string

//go:embed list_scheduled_tasks.md
var listUsage string

//go:embed cancel_scheduled_task.md
var cancelUsage string

//go:embed update_scheduled_task.md
var updateUsage string

// Tools are schedule_task, list_scheduled_tasks, update_scheduled_task and
// cancel_scheduled_task. What they change is part of the step that calls them,
// and can be taken back with Undo. schedules is asked at each call, since the
// tools exist before the store's engine does.
func Tools(schedules func() *Schedules) []tool.Tool {
	t := tools{schedules}
	return []tool.Tool{t.add(), t.list(), t.update(), t.cancel()}
}

type tools struct{ get func() *Schedules }

func (t tools) schedules() (*Schedules, error) {
	if s := t.get(); s != nil {
		return s, nil
	}
	return nil, &mercury.Error{Kind: mercury.Setup, Err: errors.New("there are no schedules here")}
}

type addInput struct {
	When         string `json:"when,omitempty" jsonschema:"such as every weekday at 8; every 2 hours; tomorrow at 9; in 20 minutes; first monday of the month at 10:30"`
	Cron         string `json:"cron,omitempty" jsonschema:"five fields, instead of when"`
	DelaySeconds int    `json:"delay_seconds,omitempty" jsonschema:"once after so many seconds, instead of when"`
	Description  string `json:"description" jsonschema:"a short name"`
	Prompt       string `json:"prompt,omitempty" jsonschema:"what to do then, complete in itself: nothing of this conversation is seen"`
	Text         string `json:"text,omitempty" jsonschema:"a reminder, sent as it is and free; instead of prompt"`
	SkillName    string `json:"skill_name,omitempty"`
	Command      string `json:"command,omitempty" jsonschema:"its output is sent, or is given to prompt"`
	Zone         string `json:"zone,omitempty" jsonschema:"IANA zone; the owner's by default"`
	Missed       string `json:"missed,omitempty" jsonschema:"once (default), skip, or within 30m"`
	To           string `json:"to,omitempty" jsonschema:"address; this conversation by default"`
}

func (in addInput) draft() (Draft, error) {
	d := Draft{Name: in.Description, When: in.When, Zone: in.Zone, Missed: in.Missed, Prompt: in.Prompt, Skill: in.SkillName,
		Send: in.Text, Command: in.Command, Destination: in.To}
	given := 0
	for _, is := range []bool{in.When != "", in.Cron != "", in.DelaySeconds != 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return d, refuse("give exactly one of when, cron and delay_seconds", "")
	case in.Cron != "":
		d.When = in.Cron
	case in.DelaySeconds < 0:
		return d, refuse("delay_seconds lies in the past", "")
	case in.DelaySeconds > 0:
		d.When = fmt.Sprintf("in %d seconds", in.DelaySeconds)
	}
	return d, nil
}

// make turns a call into a schedule that is not kept yet.
func (t tools) make(ctx context.Context, c tool.Call, in addInput) (*Schedules, store.Schedule, error) {
	s, err := t.schedules()
	if err != nil {
		return nil, store.Schedule{}, err
	}
	d, err := in.draft()
	if err != nil {
		return nil, store.Schedule{}, err
	}
	origin := c.Mandate.Destination
	if origin == "" {
		origin = c.ConversationID
	}
	by := c.Mandate.Actor
	if by.Role == mercury.Schedule { // what a schedule makes is its owner's too
		err := s.engine.View(ctx, func(tx store.Tx) error {
			parent, err := tx.Schedule(by.ID)
			by = parent.By
			return err
		})
		if err != nil {
			return nil, store.Schedule{}, err
		}
	}
	m := c.Mandate
	m.Actor, m.Interactive = by, by.Role == mercury.Owner
	sch, err := s.Make(d, by, origin, m)
	sch.RunID, sch.Taint = c.RunID, slices.Clone(c.Taint)
	return s, sch, err
}

// settings is the access of a call that makes Mercury act later by itself. A
// text to the conversation's own people, that comes seldom, is only a note.
func (s *Schedules) settings(c tool.Call, sch store.Schedule) []mercury.Access {
	own := c.Mandate.Destination
	if own == "" {
		own = c.ConversationID
	}
	if sch.Action == ActionSend && sch.Destination == own && s.seldom(sch) {
		return []mercury.Access{{Kind: mercury.OwnState, Target: "reminder"}}
	}
	return []mercury.Access{{Kind: mercury.Settings, Target: "schedules", Detail: sch.Name + ", " + sch.Action + " to " + sch.Destination}}
}

func (s *Schedules) seldom(sch store.Schedule) bool {
	next, err := s.Next(sch, 2)
	return err == nil && (len(next) < 2 || next[1].Sub(next[0]) >= seldom)
}

func (t tools) add() tool.Tool {
	return tool.Define(tool.Definition[addInput]{
		Name: "schedule_task", Usage: taskUsage, Effect: mercury.Read,
		Access: func(ctx context.Context, c tool.Call, in addInput) ([]mercury.Access, error) {
			s, sch, err := t.make(ctx, c, in)
			if err != nil {
				return nil, err
			}
			return s.settings(c, sch), nil
		},
		Show: func(ctx context.Context, c tool.Call, in addInput) string {
			s, sch, err := t.make(ctx, c, in)
			if err != nil {
				return ""
			}
			return s.card(ctx, sch) + "\n\nYes saves it. No, and what should be different, changes it. Once saved, /schedules rehearse lets it run while you watch; what you allow there is all it may do."
		},
		Run: func(ctx context.Context, c tool.Call, in addInput) (tool.Output, error) {
			s, sch, err := t.make(ctx, c, in)
			if err == nil {
				err = granted(c, s.settings(c, sch))
			}
			if err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Text: "Saved as " + sch.ID + ".\n" + s.card(ctx, sch), Commit: func(tx store.Tx) error {
				e, err := engineTx(tx)
				if err != nil {
					return err
				}
				if err := s.Add(e, sch); err != nil {
					return err
				}
				return keepUndo(e, c, nil, sch)
			}}, nil
		},
	})
}

// card is a schedule's card, with what is known of its cost.
func (s *Schedules) card(ctx context.Context, sch store.Schedule) string {
	var text string
	err := s.engine.View(ctx, func(tx store.Tx) error {
		v, err := s.Look(tx, sch)
		text = v.Card()
		return err
	})
	if err != nil {
		return sch.Name + ": " + sch.Spec
	}
	return text
}

// granted reports an error unless the gate let the accesses of a call through.
func granted(c tool.Call, need []mercury.Access) error {
	for _, a := range need {
		ok := slices.ContainsFunc(c.Granted, func(g mercury.Access) bool { return g.Kind == a.Kind && g.Target == a.Target && g.Detail == a.Detail })
		if !ok {
			return &mercury.Error{Kind: mercury.Denied, Err: errors.New("changing schedules was not allowed")}
		}
	}
	return nil
}

func engineTx(tx store.Tx) (*engine.Tx, error) {
	e, ok := tx.(*engine.Tx)
	if !ok {
		return nil, errors.New("change schedule: this transaction queues no work")
	}
	return e, nil
}

type listInput struct{}

func (t tools) list() tool.Tool {
	return tool.Define(tool.Definition[listInput]{
		Name: "list_scheduled_tasks", Usage: listUsage, Effect: mercury.Read,
		Access: func(context.Context, tool.Call, listInput) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "schedules"}}, nil
		},
		Run: func(ctx context.Context, c tool.Call, _ listInput) (tool.Output, error) {
			s, err := t.schedules()
			if err != nil {
				return tool.Output{}, err
			}
			var text string
			var taint []string
			err = s.engine.View(ctx, func(tx store.Tx) error {
				all, _, err := tx.Schedules(store.Page{Limit: 200})
				all = slices.DeleteFunc(all, func(sch store.Schedule) bool { return !mine(c.Mandate.Actor, sch) })
				for _, sch := range all {
					taint = append(taint, sch.Taint...)
				}
				text = s.ListText(all)
				return err
			})
			slices.Sort(taint)
			return tool.Output{Text: text, Taint: slices.Compact(taint)}, err
		},
	})
}

// mine reports whether an actor sees and changes a schedule: their own, and to
// those who are trusted, each.
func mine(a mercury.Actor, sch store.Schedule) bool {
	return a.Trusted() || a.Role == mercury.Schedule || a == sch.By || a.Role == sch.By.Role && a.ID == sch.By.ID && a.Channel == sch.By.Channel
}

type updateInput struct {
	ID          string `json:"id" jsonschema:"or the name"`
	When        string `json:"when,omitempty" jsonschema:"a phrase or a cron expression"`
	Cron        string `json:"cron,omitempty"`
	Description string `json:"description,omitempty"`
	Prompt      string `json:"prompt,omitempty"`
	Text        string `json:"text,omitempty"`
	Command     string `json:"command,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Missed      string `json:"missed,omitempty"`
	To          string `json:"to,omitempty"`
	Pause       bool   `json:"pause,omitempty" jsonschema:"keep it from running"`
	Resume      bool   `json:"resume,omitempty"`
}

func (in updateInput) draft() Draft {
	d := Draft{Name: in.Description, When: in.When, Zone: in.Zone, Missed: in.Missed, Prompt: in.Prompt, Send: in.Text, Command: in.Command, Destination: in.To}
	if d.When == "" {
		d.When = in.Cron
	}
	return d
}

// needs is what a change touches. Only what is a reminder before and after is
// no more than a note.
func (in updateInput) needs(s *Schedules, c tool.Call, before, after store.Schedule) []mercury.Access {
	if in.draft() == (Draft{}) {
		return putAside(c, before)
	}
	if was := s.settings(c, before); was[0].Kind == mercury.Settings {
		return was
	}
	return s.settings(c, after)
}

func (t tools) find(ctx context.Context, c tool.Call, id string) (*Schedules, store.Schedule, error) {
	s, err := t.schedules()
	if err != nil {
		return nil, store.Schedule{}, err
	}
	var sch store.Schedule
	err = s.engine.View(ctx, func(tx store.Tx) (err error) {
		sch, err = Find(tx, id)
		return err
	})
	if err == nil && !mine(c.Mandate.Actor, sch) {
		err = &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no schedule %q of yours", id)}
	}
	return s, sch, err
}

func (t tools) update() tool.Tool {
	return tool.Define(tool.Definition[updateInput]{
		Name: "update_scheduled_task", Usage: updateUsage, Effect: mercury.Read,
		Access: func(ctx context.Context, c tool.Call, in updateInput) ([]mercury.Access, error) {
			s, sch, err := t.find(ctx, c, in.ID)
			if err != nil {
				return nil, err
			}
			after := sch
			if d := in.draft(); d != (Draft{}) {
				err = s.apply(&after, d, s.opts.Clock.Now())
			}
			return in.needs(s, c, sch, after), err
		},
		Show: func(ctx context.Context, c tool.Call, in updateInput) string {
			s, sch, err := t.find(ctx, c, in.ID)
			if err != nil || s.apply(&sch, in.draft(), s.opts.Clock.Now()) != nil {
				return ""
			}
			return "From now on:\n" + s.card(ctx, sch)
		},
		Run: func(ctx context.Context, c tool.Call, in updateInput) (tool.Output, error) {
			s, sch, err := t.find(ctx, c, in.ID)
			if err != nil {
				return tool.Output{}, err
			}
			after := sch
			if d := in.draft(); d != (Draft{}) {
				if err := s.apply(&after, d, s.opts.Clock.Now()); err != nil {
					return tool.Output{}, err
				}
			}
			if err := granted(c, in.needs(s, c, sch, after)); err != nil {
				return tool.Output{}, err
			}
			text := "Changed.\n" + s.card(ctx, after)
			switch {
			case in.Pause:
				text = after.Name + " is paused."
			case in.Resume:
				text = after.Name + " is resumed."
			}
			return tool.Output{Text: text, Taint: sch.Taint, Commit: t.commit(c, sch.ID, func(tx *engine.Tx) (store.Schedule, error) {
				now := sch
				var err error
				if d := in.draft(); d != (Draft{}) {
					if now, err = s.Edit(tx, sch.ID, d); err != nil {
						return now, err
					}
				}
				switch {
				case in.Pause:
					return s.Pause(tx, sch.ID, "paused in "+c.ConversationID)
				case in.Resume:
					return s.Resume(tx, sch.ID)
				}
				return now, nil
			})}, nil
		},
	})
}

// putAside is the access of a call that only keeps a schedule from coming, or
// lets it come again: it can be taken back, so only text from outside makes it
// ask.
func putAside(c tool.Call, sch store.Schedule) []mercury.Access {
	if len(c.Taint) > 0 {
		return []mercury.Access{{Kind: mercury.Settings, Target: "schedules", Detail: sch.Name}}
	}
	return []mercury.Access{{Kind: mercury.OwnState, Target: "schedules"}}
}

// commit changes a schedule with the step of a call, and keeps what it takes
// to undo that.
func (t tools) commit(c tool.Call, id string, change func(*engine.Tx) (store.Schedule, error)) func(store.Tx) error {
	return func(tx store.Tx) error {
		e, err := engineTx(tx)
		if err != nil {
			return err
		}
		before, err := e.LockSchedule(id)
		if err != nil {
			return err
		}
		after, err := change(e)
		if err != nil {
			return err
		}
		if len(c.Taint) > 0 && after.State != store.ScheduleRemoved {
			after.Taint = append(slices.Clone(after.Taint), c.Taint...)
			slices.Sort(after.Taint)
			after.Taint = slices.Compact(after.Taint)
			if err := e.SaveSchedule(after); err != nil {
				return err
			}
		}
		return keepUndo(e, c, &before, after)
	}
}

type cancelInput struct {
	ID string `json:"id" jsonschema:"or the name"`
}

func (t tools) cancel() tool.Tool {
	return tool.Define(tool.Definition[cancelInput]{
		Name: "cancel_scheduled_task", Usage: cancelUsage, Effect: mercury.Read,
		Access: func(ctx context.Context, c tool.Call, in cancelInput) ([]mercury.Access, error) {
			_, sch, err := t.find(ctx, c, in.ID)
			return putAside(c, sch), err
		},
		Run: func(ctx context.Context, c tool.Call, in cancelInput) (tool.Output, error) {
			s, sch, err := t.find(ctx, c, in.ID)
			if err == nil {
				err = granted(c, putAside(c, sch))
			}
			if err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Text: fmt.Sprintf("%s (%s) is cancelled.", sch.Name, sch.ID),
				Commit: t.commit(c, sch.ID, func(tx *engine.Tx) (store.Schedule, error) { return s.Remove(tx, sch.ID) })}, nil
		},
	})
}

// ListText is one line for each schedule.
func (s *Schedules) ListText(all []store.Schedule) string {
	if len(all) == 0 {
		return "There are no schedules."
	}
	lines := make([]string, len(all))
	for i, sch := range all {
		when := sch.State
		if next, err := s.Next(sch, 1); err == nil && len(next) > 0 {
			when = next[0].Format("Mon 2 Jan 15:04 -0700")
		}
		if sch.State == store.SchedulePaused && sch.Reason != "" {
			when += " (" + sch.Reason + ")"
		}
		said := sch.Said
		if said == "" {
			said = sch.Spec
		}
		lines[i] = fmt.Sprintf("%s  %s – %s; next: %s", sch.ID, sch.Name, said, when)
	}
	return strings.Join(lines, "\n")
}
