package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// What an occurrence does.
const (
	ActionPrompt  = "prompt"  // a turn answers Text
	ActionSkill   = "skill"   // a turn uses a skill
	ActionSend    = "send"    // Text is sent as it is, without a model
	ActionCommand = "command" // what a command prints is sent, or is given to a turn with Text
)

// What becomes of an occurrence whose time came while nothing could act.
const (
	MissedOnce   = "once"   // the last one is made up for, a daily one on its own day
	MissedSkip   = "skip"   // none is
	MissedWithin = "within" // it is, within a span
)

// QuestionLife is how long a question of a schedule waits for its owner.
const QuestionLife = 12 * time.Hour

// Limits of what a schedule may hold.
const (
	nameMax  = 80                  // characters
	textMax  = 32 << 10            // bytes
	mostKept = 500                 // schedules
	often    = time.Minute         // the least between two turns of a model
	seldom   = 15 * time.Minute    // the least between reminders that need no question
	listDone = 30 * 24 * time.Hour // how long one that came once stays on the list
)

// A Draft is what somebody wants scheduled, or changed: an empty field of a
// change leaves what was there.
type Draft struct {
	Name        string `json:"name,omitempty"`
	When        string `json:"when,omitempty" doc:"a cron expression or a phrase such as every weekday at 8"`
	Zone        string `json:"zone,omitempty" doc:"IANA name; empty: the house's, and house to go back to it"`
	Missed      string `json:"missed,omitempty" doc:"once, skip, or within a time such as within 30m; empty: once"`
	Jitter      string `json:"jitter,omitempty" doc:"spread over so long, such as 5m"`
	Prompt      string `json:"prompt,omitempty" doc:"what a turn is asked"`
	Skill       string `json:"skill,omitempty" doc:"the skill that a turn uses"`
	Send        string `json:"send,omitempty" doc:"a text that is sent as it is, without a model"`
	Command     string `json:"command,omitempty" doc:"a command whose output is sent, or is given to the prompt"`
	Precheck    string `json:"precheck,omitempty" doc:"a command that skips an occurrence when it fails"`
	Watch       string `json:"watch,omitempty" doc:"a file or URL that is looked at: only what changed in it reaches the prompt, and nothing happens unless something did"`
	Destination string `json:"destination,omitempty" doc:"address the result goes to, as channel/place; empty: the conversation it was made in"`
}

// Make checks a draft and makes a schedule of it, owned by who. mandate is
// what its occurrences may do. Nothing is kept yet.
func (s *Schedules) Make(d Draft, who mercury.Actor, origin string, mandate mercury.Mandate) (store.Schedule, error) {
	now := s.opts.Clock.Now()
	sch := store.Schedule{ID: mercury.NewID("sch"), State: store.ScheduleActive, By: who, Origin: origin, Missed: MissedOnce,
		Mandate: mandate, Destination: origin, CreatedAt: now.UTC()}
	if d.When == "" {
		return sch, refuse("it needs a time", helpWhen)
	}
	if sch.Destination == "" {
		sch.Destination = mercury.LocalConversation("default")
	}
	if sch.Mandate.Mode == "allow-all" {
		sch.Mandate.Mode = "guided" // that mode is for a person who is there
	}
	sch.Mandate.ModeUntil = time.Time{}
	return sch, s.apply(&sch, d, now)
}

// New is Make with the rights of the person who asks for it on a face of
// Mercury.
func (s *Schedules) New(d Draft, who mercury.Actor, origin string) (store.Schedule, error) {
	if s.opts.Rights == nil {
		return store.Schedule{}, &mercury.Error{Kind: mercury.Setup, Err: errors.New("schedule: nobody has rights here")}
	}
	return s.Make(d, who, origin, s.opts.Rights(who, origin))
}

// apply puts what a draft says into a schedule and reckons its next time.
func (s *Schedules) apply(sch *store.Schedule, d Draft, now time.Time) error {
	if err := action(sch, d); err != nil {
		return err
	}
	if sch.Action == ActionSkill && s.opts.Skill == nil {
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("use the skill %q: there are no skills here", sch.Skill), Help: "Say what it should do as a prompt."}
	}
	if d.Destination != "" {
		sch.Destination = mercury.LocalConversation(d.Destination)
	}
	if channel, place, _ := strings.Cut(sch.Destination, "/"); channel == "" || place == "" || strings.ContainsAny(sch.Destination, " \t\r\n") || channel == "schedule" {
		return refuse(fmt.Sprintf("%q is no address", sch.Destination), "An address is channel/place, such as telegram/12345 or local/default.")
	}
	if err := missedPolicy(sch, d.Missed); err != nil {
		return err
	}
	if d.Jitter != "" {
		j, err := time.ParseDuration(d.Jitter)
		if err != nil || j < 0 || j > 24*time.Hour {
			return refuse(fmt.Sprintf("%q is no spread from 0 to 24h", d.Jitter), "")
		}
		sch.Jitter = j
	}
	if err := s.when(sch, d, now); err != nil {
		return err
	}
	if d.Name != "" {
		sch.Name = d.Name
	}
	if sch.Name = strings.Join(strings.Fields(sch.Name), " "); sch.Name == "" {
		sch.Name = nameFor(*sch)
	}
	if utf8.RuneCountInString(sch.Name) > nameMax {
		return refuse(fmt.Sprintf("the name is longer than %d characters", nameMax), "")
	}
	sch.UpdatedAt = now.UTC().Truncate(time.Microsecond)
	return nil
}

// when reads the time of a draft.
func (s *Schedules) when(sch *store.Schedule, d Draft, now time.Time) error {
	switch {
	case strings.EqualFold(d.Zone, "house"):
		sch.Zone = ""
	case d.Zone != "":
		zone, err := LoadZone(d.Zone, nil)
		if err != nil {
			return err
		}
		sch.Zone = zone.String()
	}
	if d.When != "" {
		zone, _, err := s.zone(*sch)
		if err != nil {
			return err
		}
		w, err := ParseWhen(d.When, now, zone)
		if err != nil {
			return err
		}
		if w.Zone != zone {
			sch.Zone = w.Zone.String()
		}
		sch.Spec, sch.Anchor, sch.Said = w.Spec, w.Anchor.UTC(), d.When
	}
	if d.When == "" && d.Zone == "" && !sch.Due.IsZero() {
		return nil // its time stays as it is
	}
	if err := s.reckon(sch, now); err != nil {
		return err
	}
	if sch.Due.IsZero() {
		return refuse(fmt.Sprintf("%q never comes", sch.Said), helpWhen)
	}
	table, err := s.table(*sch)
	if err != nil {
		return err
	}
	if next := table.Next(sch.Due); sch.Action != ActionSend && !next.IsZero() && next.Sub(sch.Due) < often {
		return refuse("it would come more than once a minute", "Only a fixed text may come so often.")
	}
	return nil
}

// action reads what a draft wants done; exactly one thing.
func action(sch *store.Schedule, d Draft) error {
	for _, text := range []string{d.Prompt, d.Send, d.Command, d.Precheck, d.Skill, d.Name, d.Watch} {
		if len(text) > textMax {
			return refuse(fmt.Sprintf("it says more than %d bytes", textMax), "")
		}
	}
	switch {
	case d.Send != "" && (d.Prompt != "" || d.Skill != "" || d.Command != "" || d.Precheck != "" || d.Watch != ""):
		return refuse("a fixed text is sent without anything else", "Leave out the prompt, the skill, the command, the watch and the precheck.")
	case d.Skill != "" && d.Command != "":
		return refuse("it uses either a skill or a command", "")
	case d.Send != "":
		sch.Action, sch.Text, sch.Skill, sch.Command, sch.Precheck, sch.Watch = ActionSend, d.Send, "", "", "", ""
	case d.Skill != "":
		sch.Action, sch.Skill, sch.Text, sch.Command = ActionSkill, d.Skill, d.Prompt, ""
	case d.Command != "":
		sch.Action, sch.Command, sch.Text, sch.Skill = ActionCommand, d.Command, d.Prompt, ""
	case d.Prompt != "" && sch.Action == ActionSend, d.Prompt != "" && sch.Action == "":
		sch.Action, sch.Text = ActionPrompt, d.Prompt
	case d.Prompt != "":
		sch.Text = d.Prompt
	case sch.Action == "":
		return refuse("it has nothing to do", "Give it a prompt, a text to send, a command or a skill.")
	}
	if d.Precheck != "" {
		sch.Precheck = d.Precheck
	}
	if d.Watch != "" {
		sch.Watch = d.Watch
	}
	if sch.Watch != "" && sch.Action != ActionPrompt {
		return refuse("what is watched needs a prompt that says what to do when it changed", "")
	}
	return nil
}

func missedPolicy(sch *store.Schedule, text string) error {
	switch word, rest, _ := strings.Cut(strings.TrimSpace(text), " "); word {
	case "":
	case MissedOnce, MissedSkip:
		if rest != "" {
			return refuse(fmt.Sprintf("%q is no rule for missed times", text), "Say once, skip, or within 30m.")
		}
		sch.Missed, sch.Within = word, 0
	case MissedWithin:
		d, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil || d <= 0 {
			return refuse(fmt.Sprintf("%q names no time", text), "Say for instance within 30m.")
		}
		sch.Missed, sch.Within = MissedWithin, d
	default:
		return refuse(fmt.Sprintf("%q is no rule for missed times", text), "Say once, skip, or within 30m.")
	}
	return nil
}

func nameFor(sch store.Schedule) string {
	text := sch.Text
	if text == "" {
		text = sch.Command + sch.Skill
	}
	words := strings.Fields(text)
	name := []rune(strings.Join(words[:min(len(words), 5)], " "))
	return string(name[:min(len(name), 40)])
}

func refuse(text, help string) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("schedule: " + text), Help: help}
}

// Add keeps a schedule.
func (s *Schedules) Add(tx *engine.Tx, sch store.Schedule) error {
	all, _, err := tx.Schedules(store.Page{Limit: 1000})
	if err != nil {
		return err
	}
	now, live := tx.Now(), 0
	for _, old := range all {
		if old.State != store.ScheduleDone {
			live++
			continue
		}
		if now.Sub(old.CreatedAt) > listDone {
			old.State = store.ScheduleRemoved
			if err := tx.SaveSchedule(old); err != nil {
				return err
			}
		}
	}
	if live >= mostKept {
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("keep schedule: there are %d already", live), Help: "Remove some first: `mercury schedules list`."}
	}
	err = tx.InsertConversation(mercury.Conversation{ID: Conversation(sch.ID), Kind: "schedule", Title: sch.Name, CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return fmt.Errorf("keep schedule: %w", err)
	}
	if err := tx.InsertSchedule(sch); err != nil {
		return fmt.Errorf("keep schedule: %w", err)
	}
	s.kick(tx)
	return nil
}

// Find returns the schedule with this id, or the only one whose id ends or
// whose name begins so.
func Find(tx store.Tx, word string) (store.Schedule, error) {
	word = strings.TrimSpace(word)
	if sch, err := tx.Schedule(word); err == nil && sch.State != store.ScheduleRemoved {
		return sch, nil
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return sch, err
	}
	all, _, err := tx.Schedules(store.Page{Limit: 1000})
	if err != nil {
		return store.Schedule{}, err
	}
	var found []store.Schedule
	for _, sch := range all {
		if strings.EqualFold(sch.Name, word) {
			return sch, nil
		}
		if word != "" && (len(word) >= 4 && strings.HasSuffix(sch.ID, word) || strings.HasPrefix(strings.ToLower(sch.Name), strings.ToLower(word))) {
			found = append(found, sch)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return store.Schedule{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no schedule %q", word), Help: "`mercury schedules list` and /schedules list them."}
	}
	var names []string
	for _, sch := range found {
		names = append(names, fmt.Sprintf("%s (%s)", sch.ID, sch.Name))
	}
	return store.Schedule{}, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("%q fits several schedules", word), Help: "Name one: " + strings.Join(names, ", ") + "."}
}

// change locks a schedule, lets fn change it and keeps it.
func (s *Schedules) change(tx *engine.Tx, id string, fn func(*store.Schedule) error) (store.Schedule, error) {
	sch, err := tx.LockSchedule(id)
	if err != nil {
		return sch, err
	}
	if sch.State == store.ScheduleRemoved {
		return sch, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("schedule %s was removed", id)}
	}
	if err := fn(&sch); err != nil {
		return sch, err
	}
	sch.UpdatedAt = tx.Now()
	if err := tx.SaveSchedule(sch); err != nil {
		return sch, err
	}
	s.kick(tx)
	return sch, nil
}

// Edit changes what a draft names. What an occurrence that is at work does
// stays as it was.
func (s *Schedules) Edit(tx *engine.Tx, id string, d Draft) (store.Schedule, error) {
	return s.change(tx, id, func(sch *store.Schedule) error {
		if sch.State == store.ScheduleDone && d.When != "" {
			sch.State = store.ScheduleActive
		}
		if err := s.apply(sch, d, s.opts.Clock.Now()); err != nil {
			return err
		}
		if sch.State != store.ScheduleActive {
			sch.Due, sch.NextAt = time.Time{}, time.Time{}
		}
		return nil
	})
}

// Pause keeps a schedule from coming until it is resumed. Its time while it is
// paused leaves no row.
func (s *Schedules) Pause(tx *engine.Tx, id, why string) (store.Schedule, error) {
	return s.change(tx, id, func(sch *store.Schedule) error {
		if sch.State == store.ScheduleDone {
			return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("pause %s: it came once, and has", sch.ID)}
		}
		sch.State, sch.Reason, sch.Due, sch.NextAt = store.SchedulePaused, why, time.Time{}, time.Time{}
		return nil
	})
}

// Resume lets a paused schedule come again, from now on.
func (s *Schedules) Resume(tx *engine.Tx, id string) (store.Schedule, error) {
	return s.change(tx, id, func(sch *store.Schedule) error {
		if sch.State != store.SchedulePaused {
			return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("resume %s: it is %s", sch.ID, sch.State)}
		}
		if err := s.reckon(sch, s.opts.Clock.Now()); err != nil {
			return err
		}
		if sch.Due.IsZero() {
			return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("resume %s: its time is over", sch.ID), Help: "Give it another time."}
		}
		sch.State, sch.Reason, sch.Fails = store.ScheduleActive, "", 0
		return nil
	})
}

// Remove ends a schedule. What is at work goes on; its occurrences stay.
func (s *Schedules) Remove(tx *engine.Tx, id string) (store.Schedule, error) {
	return s.change(tx, id, func(sch *store.Schedule) error {
		sch.State, sch.Due, sch.NextAt = store.ScheduleRemoved, time.Time{}, time.Time{}
		return nil
	})
}

// RunNow starts an occurrence that is not on the timetable. In a rehearsal the
// owner watches: everything that needs a right is asked, and what is granted
// becomes the schedule's whole permission.
func (s *Schedules) RunNow(ctx context.Context, tx *engine.Tx, id string, rehearse bool) (store.Occurrence, error) {
	if _, err := tx.LockConversation(Conversation(id)); err != nil {
		return store.Occurrence{}, err
	}
	sch, err := tx.LockSchedule(id)
	if err != nil {
		return store.Occurrence{}, err
	}
	if sch.State == store.ScheduleRemoved {
		return store.Occurrence{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("schedule %s was removed", id)}
	}
	if rehearse && sch.By.Role != mercury.Owner {
		return store.Occurrence{}, &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("rehearse %s: it is not the owner's", sch.ID)}
	}
	run, err := tx.LiveRun(Conversation(id))
	switch {
	case err == nil:
		return store.Occurrence{}, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("run %s: the one before still works (%s)", sch.ID, run.ID)}
	case !errors.Is(err, store.ErrNotFound):
		return store.Occurrence{}, err
	}
	now := tx.Now()
	o := occurrence(sch, now, now)
	o.State, o.Manual, o.Rehearsal = store.OccurrenceRan, true, rehearse
	if err := s.begin(ctx, tx, sch, &o); err != nil {
		return o, err
	}
	if o.State == store.OccurrenceSkipped {
		return o, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("run %s: %s", sch.ID, o.Reason)}
	}
	return o, nil
}
