package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// mostRows is how many missed occurrences get a row each in one commit; of
// more, the oldest share one, which says how many.
const mostRows = 2000

// pass acts on everything that is due, and tells each conversation once what
// was missed or late.
func (s *Schedules) pass(ctx context.Context) error {
	tell := false
	for {
		now := s.opts.Clock.Now()
		var due []store.Schedule
		err := s.engine.View(ctx, func(tx store.Tx) (err error) {
			due, err = tx.DueSchedules(now, 100)
			return err
		})
		if err != nil {
			return fmt.Errorf("read what is due: %w", err)
		}
		if len(due) == 0 {
			break
		}
		for _, sch := range due {
			worth, err := s.fire(ctx, sch.ID, now)
			if err != nil {
				return fmt.Errorf("act on schedule %s: %w", sch.ID, err)
			}
			tell = tell || worth
		}
	}
	return s.catchUp(ctx, tell)
}

// fire writes a row for each occurrence of a schedule that is due, and starts
// the work of the last one, in one commit with the time that comes next. worth
// says that something was late or missed.
func (s *Schedules) fire(ctx context.Context, id string, now time.Time) (worth bool, err error) {
	err = s.engine.Update(ctx, "schedule.fire", func(tx *engine.Tx) error {
		worth = false
		if _, err := tx.LockConversation(Conversation(id)); err != nil {
			return err
		}
		sch, err := tx.LockSchedule(id)
		if err != nil {
			return err
		}
		if sch.State != store.ScheduleActive || sch.NextAt.IsZero() || sch.NextAt.After(now) {
			return nil // somebody changed it meanwhile
		}
		table, err := s.table(sch)
		if err != nil {
			sch.State, sch.Reason, sch.NextAt = store.SchedulePaused, "its time cannot be read: "+err.Error(), time.Time{}
			return tx.SaveSchedule(sch)
		}
		times, folded := dueTimes(table, sch, now)
		last := len(times) - 1
		for i, due := range times[:last] {
			o := occurrence(sch, due, now)
			o.State, o.Reason = store.OccurrenceMissed, "Mercury was not running, or the machine slept"
			if i == 0 && folded > 0 {
				o.Covers += folded
			}
			if err := insertOnce(tx, o); err != nil {
				return err
			}
			worth = true
		}
		o := occurrence(sch, times[last], now)
		if err := s.start(ctx, tx, &sch, table, &o, now); err != nil {
			return err
		}
		worth = worth || o.State == store.OccurrenceMissed || o.State == store.OccurrenceLate && now.Sub(o.DueAt) >= tellLate
		if err := s.reckon(&sch, times[last]); err != nil {
			return err
		}
		if sch.Due.IsZero() {
			sch.State = store.ScheduleDone
		}
		if err := tx.SaveSchedule(sch); err != nil {
			return err
		}
		if len(times) > 1 || strings.HasSuffix(o.ID, "0") {
			return tx.PruneOccurrences(sch.ID, s.opts.Keep)
		}
		return nil
	})
	return worth, err
}

// dueTimes are the times of a schedule that have come, the oldest first, at
// least the one it waits for; folded is how many older ones are left out.
func dueTimes(table Timetable, sch store.Schedule, now time.Time) (times []time.Time, folded int) {
	times = []time.Time{sch.Due}
	for at := table.Next(sch.Due); !at.IsZero() && !at.Add(jitter(sch, at)).After(now); at = table.Next(at) {
		times = append(times, at)
		if len(times) > 2*mostRows {
			folded += mostRows
			times = append(times[:0], times[mostRows:]...)
		}
	}
	if extra := len(times) - mostRows; extra > 0 {
		folded += extra
		times = times[extra:]
	}
	return times, folded
}

// jitter spreads occurrences over a span, always alike for the same one.
func jitter(sch store.Schedule, due time.Time) time.Duration {
	if sch.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", sch.ID, due.UnixMicro())
	return time.Duration(h.Sum64() % uint64(sch.Jitter)).Truncate(time.Second)
}

func occurrence(sch store.Schedule, due, now time.Time) store.Occurrence {
	return store.Occurrence{ID: mercury.NewID("oc"), ScheduleID: sch.ID, DueAt: due, At: now, EndedAt: now, Covers: 1}
}

// insertOnce writes a row; one that is there stays as it is.
func insertOnce(tx *engine.Tx, o store.Occurrence) error {
	err := tx.InsertOccurrence(o)
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// start decides about one occurrence, writes its row and starts its work.
func (s *Schedules) start(ctx context.Context, tx *engine.Tx, sch *store.Schedule, table Timetable, o *store.Occurrence, now time.Time) error {
	if sch.Reason == restored {
		sch.Reason = ""
		o.State, o.Reason = store.OccurrenceMissed, restored+", so nobody knows whether it was done"
		return insertOnce(tx, *o)
	}
	delay := now.Sub(o.DueAt.Add(jitter(*sch, o.DueAt)))
	o.State = store.OccurrenceRan
	if delay > s.opts.Grace {
		o.State, o.Reason = store.OccurrenceLate, ago(delay)+" late"
		if why := missed(*sch, table, o.DueAt, now, delay); why != "" {
			o.State, o.Reason = store.OccurrenceMissed, why
		}
	}
	if o.State != store.OccurrenceMissed {
		why, err := s.hindrance(tx, *sch)
		if err != nil {
			return err
		}
		if why != "" {
			o.State, o.Reason = store.OccurrenceSkipped, why
		}
	}
	if o.State == store.OccurrenceMissed || o.State == store.OccurrenceSkipped {
		return insertOnce(tx, *o)
	}
	return s.begin(ctx, tx, *sch, o)
}

// missed says why a late occurrence is not made up for; empty: it is.
func missed(sch store.Schedule, table Timetable, due, now time.Time, delay time.Duration) string {
	switch sch.Missed {
	case MissedSkip:
		return ago(delay) + " late, and late ones are not made up for"
	case MissedWithin:
		if delay > sch.Within {
			return fmt.Sprintf("%s late, and it is made up for within %s only", ago(delay), short(sch.Within))
		}
	}
	if sch.Missed == MissedWithin || table.zone == nil {
		return ""
	}
	// A daily one is made up for on its own day only: the next is near.
	next := table.Next(due)
	y, m, d := due.In(table.zone).Date()
	ny, nm, nd := now.In(table.zone).Date()
	sameDay := y == ny && m == nm && d == nd
	if cadence := next.Sub(due); !next.IsZero() && cadence > 20*time.Hour && cadence < 28*time.Hour && !sameDay {
		return "its day is over, and the next one comes " + next.Format("Monday 15:04")
	}
	return ""
}

// hindrance says why an occurrence does not begin now; empty: it does.
func (s *Schedules) hindrance(tx *engine.Tx, sch store.Schedule) (string, error) {
	if sch.Action == ActionSend {
		return "", nil
	}
	run, err := tx.LiveRun(Conversation(sch.ID))
	switch {
	case err == nil:
		return "the one before still works (" + run.ID + ")", nil
	case !errors.Is(err, store.ErrNotFound):
		return "", err
	}
	if sch.Watch != "" {
		if why, err := s.enough(tx); why != "" || err != nil {
			return why, err
		}
	}
	if s.opts.Afford == nil || sch.Action == ActionCommand && sch.Text == "" {
		return "", nil
	}
	return s.opts.Afford(tx, sch)
}

// work is what an occurrence's run is told.
type work struct {
	Schedule  string `json:"schedule_id"`
	Name      string `json:"name"`
	Due       string `json:"due"`
	Action    string `json:"action"`
	Text      string `json:"text,omitempty"`
	Command   string `json:"command,omitempty"`
	Precheck  string `json:"precheck,omitempty"`
	Watch     string `json:"watch,omitempty"`
	Late      string `json:"late,omitempty"`
	Rehearsal bool   `json:"rehearsal,omitempty"`
}

// begin writes the row of an occurrence that is due and starts its work: a
// fixed text is sent, everything else becomes a run. Nothing happens if the
// row is there already.
func (s *Schedules) begin(ctx context.Context, tx *engine.Tx, sch store.Schedule, o *store.Occurrence) error {
	if sch.Action == ActionSend {
		o.Outcome = "done"
		switch err := tx.InsertOccurrence(*o); {
		case errors.Is(err, store.ErrExists):
			return nil
		case err != nil:
			return err
		}
		text := sch.Text
		if o.State == store.OccurrenceLate {
			text += "\n[" + o.Reason + "]"
		}
		return say(tx, sch, "scheduled:"+sch.ID+":"+o.DueAt.UTC().Format(time.RFC3339), mercury.DirectDelivery, text)
	}
	text := sch.Text
	if sch.Action == ActionSkill {
		if s.opts.Skill == nil {
			return s.skip(tx, o, "there are no skills here")
		}
		var err error
		if text, err = s.opts.Skill(ctx, sch.Skill); err != nil {
			return s.skip(tx, o, "the skill cannot be used: "+err.Error())
		}
		text = strings.TrimSpace(text + "\n" + sch.Text)
	}
	o.RunID, o.EndedAt = mercury.NewID("run"), time.Time{}
	switch err := tx.InsertOccurrence(*o); {
	case errors.Is(err, store.ErrExists):
		return nil
	case err != nil:
		return err
	}
	zone, _, err := s.zone(sch)
	if err != nil {
		return err
	}
	in := work{Schedule: sch.ID, Name: sch.Name, Due: o.DueAt.In(zone).Format(time.RFC3339), Action: sch.Action, Text: text,
		Command: sch.Command, Precheck: sch.Precheck, Watch: sch.Watch, Rehearsal: o.Rehearsal}
	if o.State == store.OccurrenceLate {
		in.Late = o.Reason
	}
	return s.enqueue(tx, sch, o, in)
}

func (s *Schedules) skip(tx *engine.Tx, o *store.Occurrence, why string) error {
	o.State, o.Reason = store.OccurrenceSkipped, why
	return insertOnce(tx, *o)
}

// enqueue queues the run of an occurrence. Each begins with an empty view of
// its conversation: what earlier ones said is kept for people, and costs
// nothing.
func (s *Schedules) enqueue(tx *engine.Tx, sch store.Schedule, o *store.Occurrence, in work) error {
	id := Conversation(sch.ID)
	c, err := tx.LockConversation(id)
	if err != nil {
		return err
	}
	c.Head, c.UpdatedAt = c.LastSeq+1, tx.Now()
	if err := tx.SaveConversation(c); err != nil {
		return err
	}
	input, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m := s.mandate(sch)
	lane, key := mercury.Cron, id
	if sch.By.Role == mercury.BotRole {
		lane, key = mercury.Bot, "bot/"+sch.By.ID
	}
	if o.Rehearsal {
		m.Mode, m.Interactive = "ask", true
	}
	if _, err := tx.Enqueue(engine.NewRun{ID: o.RunID, Kind: Kind, Lane: lane, Key: key, ConversationID: id,
		Actor: m.Actor, Mandate: m, Input: input}); err != nil {
		return err
	}
	if in.Precheck != "" || in.Watch != "" || in.Action == ActionCommand {
		return nil // what they print comes first
	}
	_, err = tx.Append(id, prompt(sch, o.RunID, in, "", nil))
	return err
}

// prompt is the entry that an occurrence's turn answers.
func prompt(sch store.Schedule, runID string, in work, output string, taint []string) mercury.Entry {
	text := in.Text
	if in.Late != "" {
		text += "\n[It was due at " + in.Due + " and runs " + in.Late + ".]"
	}
	if output != "" {
		text += "\n\n" + output
	}
	return mercury.Entry{Kind: mercury.UserEntry, RunID: runID, Actor: Actor(sch), Text: strings.TrimSpace(text), Taint: append(taint, sch.Taint...)}
}

// Actor is who acts in the occurrences of a schedule: the schedule itself, for
// the owner, and else whoever made it.
func Actor(sch store.Schedule) mercury.Actor {
	if sch.By.Role == mercury.Owner {
		return mercury.Actor{Role: mercury.Schedule, ID: sch.ID, Name: sch.Name}
	}
	return sch.By
}

// mandate is what an occurrence may do: what was frozen when the schedule was
// made, as far as it still holds.
func (s *Schedules) mandate(sch store.Schedule) mercury.Mandate {
	m := sch.Mandate
	if s.opts.Narrow != nil {
		m = s.opts.Narrow(m)
	}
	m.Actor, m.Destination = Actor(sch), sch.Destination
	return m
}

// say sends a text where a schedule's results go, once for each request, and
// notes it in that conversation if there is one: whoever answers there next
// knows of it, and in a local one it is what people read.
func say(tx *engine.Tx, sch store.Schedule, request string, kind mercury.DeliveryKind, text string) error {
	_, again, err := tx.Emit(mercury.Delivery{Address: sch.Destination, ConversationID: Conversation(sch.ID), RequestID: request, Kind: kind, Text: text})
	if err != nil || again {
		return err
	}
	return note(tx, sch, "", text, sch.Taint)
}

// note writes into the conversation of a schedule's destination what was sent
// there.
func note(tx *engine.Tx, sch store.Schedule, runID, text string, taint []string) error {
	if sch.Destination == Conversation(sch.ID) {
		return nil
	}
	_, err := tx.LockConversation(sch.Destination)
	if errors.Is(err, store.ErrNotFound) {
		if mercury.ChannelOf(sch.Destination) != "local" {
			return nil
		}
		now := tx.Now()
		err = tx.InsertConversation(mercury.Conversation{ID: sch.Destination, Kind: "chat", CreatedAt: now, UpdatedAt: now})
	}
	if err != nil {
		return err
	}
	_, err = tx.Append(sch.Destination, mercury.Entry{Kind: mercury.NoteEntry, RunID: runID, Text: text, Taint: taint})
	return err
}

// ago says a length of time for people.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
