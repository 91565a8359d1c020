package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A View is a schedule as people look at it.
type View struct {
	store.Schedule
	ZoneName string
	Next     []time.Time // the next five, in its zone
	Cost     int64       // tokens of an occurrence, as the last ones had it
	Runs     int         // how many Cost is the mean of; 0: unknown
}

// Look is a schedule with its next times and what it has cost so far.
func (s *Schedules) Look(tx store.Tx, sch store.Schedule) (View, error) {
	v := View{Schedule: sch}
	_, name, err := s.zone(sch)
	if err != nil {
		return v, err
	}
	v.ZoneName = name
	if v.Next, err = s.Next(sch, 5); err != nil {
		return v, err
	}
	if sch.Action == ActionSend {
		return v, nil
	}
	runs, _, err := tx.Runs(store.RunFilter{ConversationID: Conversation(sch.ID), Page: store.Page{Limit: 5}})
	if err != nil {
		return v, err
	}
	for _, r := range runs {
		if r.State == mercury.RunDone || r.State == mercury.RunFailed {
			v.Runs++
			v.Cost += r.Usage.Input + r.Usage.Output
		}
	}
	if v.Runs > 0 {
		v.Cost /= int64(v.Runs)
	}
	return v, nil
}

// Next are the next n times of a schedule, in its zone; none while it is
// paused.
func (s *Schedules) Next(sch store.Schedule, n int) ([]time.Time, error) {
	if sch.Due.IsZero() {
		return nil, nil
	}
	table, err := s.table(sch)
	if err != nil {
		return nil, err
	}
	return append([]time.Time{sch.Due.In(table.zone)}, table.Coming(sch.Due, n-1)...), nil
}

// Card says all that a person should know before saying yes to a schedule.
func (v View) Card() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", v.Name, v.does())
	fmt.Fprintf(&b, "\nWhen: %s", v.When())
	if len(v.Next) > 0 {
		var next []string
		for _, at := range v.Next[:min(3, len(v.Next))] {
			next = append(next, at.Format("Mon 2 Jan 15:04 -0700"))
		}
		fmt.Fprintf(&b, "\nNext: %s", strings.Join(next, ", "))
	}
	fmt.Fprintf(&b, "\nGoes to: %s", v.Destination)
	fmt.Fprintf(&b, "\nIf its time is missed: %s", v.MissedText())
	fmt.Fprintf(&b, "\nCost: %s", v.CostText())
	fmt.Fprintf(&b, "\nAlone it may not: %s", v.mayNot())
	return b.String()
}

func (v View) does() string {
	text := v.Text
	switch v.Action {
	case ActionSend:
		return "Sends: " + text
	case ActionSkill:
		return strings.TrimSpace("Uses the skill " + v.Skill + ". " + text)
	case ActionCommand:
		if text == "" {
			return "Runs and sends what it prints: " + v.Command
		}
		return "Runs: " + v.Command + "\nThen: " + text
	}
	if v.Watch != "" {
		return "When this has changed: " + v.Watch + "\nThen: " + text
	}
	if v.Precheck != "" {
		return "If this succeeds: " + v.Precheck + "\nThen: " + text
	}
	return "Does: " + text
}

// When says the timetable with its zone.
func (v View) When() string {
	text := v.Spec
	if v.Said != "" && v.Said != v.Spec {
		text = fmt.Sprintf("%s (%s)", v.Said, v.Spec)
	}
	if v.Jitter > 0 {
		text += ", spread over " + short(v.Jitter)
	}
	return text + ", " + v.ZoneName
}

// MissedText says what becomes of a time that was missed.
func (v View) MissedText() string {
	switch v.Missed {
	case MissedSkip:
		return "it is left out"
	case MissedWithin:
		return "it runs late, within " + short(v.Within)
	}
	return "it runs once, late; a daily one on its own day"
}

// CostText says what an occurrence costs.
func (v View) CostText() string {
	switch {
	case v.Action == ActionSend, v.Action == ActionCommand && v.Text == "":
		return "nothing, no model is asked"
	case v.Runs == 0:
		return "unknown, it has not run yet; not once 80% of the day's budget are used"
	}
	return fmt.Sprintf("about %d tokens, as the last %d; not once 80%% of the day's budget are used", v.Cost, v.Runs)
}

func (v View) mayNot() string {
	switch {
	case v.Action == ActionSend:
		return "do anything but send this text"
	case v.By.Role != mercury.Owner:
		return "do anything that needs a question; nobody is asked"
	case v.Rehearsed:
		return "do more than it was granted when it was rehearsed; the rest is asked, and denied after 12 h"
	}
	return "send elsewhere, use the network in commands, change Mercury; that is asked, and denied after 12 h"
}

// toldKey remembers until when what was missed has been told.
const toldKey = "schedules/told"

// catchUp tells each conversation in one message what was missed and what ran
// late since this was last told. without worth it looks only once, after a
// start.
func (s *Schedules) catchUp(ctx context.Context, worth bool) error {
	if !worth && s.looked {
		return nil
	}
	s.looked = true
	err := s.engine.Update(ctx, "schedule.told", func(tx *engine.Tx) error {
		now := tx.Now()
		text, err := tx.MetaValue(toldKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		since, err := time.Parse(time.RFC3339Nano, text)
		if err != nil { // never told
			since = time.Time{}
		}
		news, err := s.news(tx, since)
		if err != nil {
			return err
		}
		if len(news) == 0 && !since.IsZero() {
			return nil
		}
		for address, lines := range news {
			sch := store.Schedule{ID: "house", Destination: address}
			text := "While nothing could run:\n" + strings.Join(lines, "\n")
			if err := say(tx, sch, "catch-up:"+now.UTC().Format(time.RFC3339Nano), mercury.NoticeDelivery, text); err != nil {
				return err
			}
		}
		return tx.SetMeta(toldKey, now.UTC().Format(time.RFC3339Nano))
	})
	if err != nil {
		return fmt.Errorf("tell what was missed: %w", err)
	}
	return nil
}

const (
	mostTold = 12               // lines of a catch-up message
	tellLate = 10 * time.Minute // what is less late speaks for itself
)

// news are the lines to tell, by destination.
func (s *Schedules) news(tx *engine.Tx, since time.Time) (map[string][]string, error) {
	type count struct {
		sch          store.Schedule
		missed       int
		first, last  time.Time
		late, reason string
	}
	var order []string
	of := map[string]*count{}
	for after := ""; ; {
		page, next, err := tx.Occurrences("", store.Page{After: after, Limit: 1000})
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			if !o.At.After(since) {
				next = ""
				break
			}
			late := o.State == store.OccurrenceLate && o.At.Sub(o.DueAt) >= tellLate
			if o.Manual || o.State != store.OccurrenceMissed && !late {
				continue
			}
			c := of[o.ScheduleID]
			if c == nil {
				sch, err := tx.Schedule(o.ScheduleID)
				if err != nil {
					return nil, err
				}
				c = &count{sch: sch, last: o.DueAt}
				of[o.ScheduleID], order = c, append(order, o.ScheduleID)
			}
			if o.State == store.OccurrenceLate {
				c.late = o.Reason
				continue
			}
			if c.missed == 0 {
				c.last, c.reason = o.DueAt, o.Reason
			}
			c.missed, c.first = c.missed+o.Covers, o.DueAt
		}
		if after = next; next == "" {
			break
		}
	}
	lines := map[string][]string{}
	for i := len(order) - 1; i >= 0; i-- {
		c := of[order[i]]
		zone, _, err := s.zone(c.sch)
		if err != nil {
			zone = time.UTC
		}
		stamp := func(t time.Time) string { return t.In(zone).Format("Mon 2 Jan 15:04") }
		var parts []string
		switch {
		case c.missed == 1:
			parts = append(parts, fmt.Sprintf("missed %s (%s)", stamp(c.last), c.reason))
		case c.missed > 1:
			parts = append(parts, fmt.Sprintf("missed %d times, %s to %s", c.missed, stamp(c.first), stamp(c.last)))
		}
		if c.late != "" {
			parts = append(parts, "runs now, "+c.late)
		}
		line := "· " + c.sch.Name + ": " + strings.Join(parts, "; ")
		to := c.sch.Destination
		switch n := len(lines[to]); {
		case n < mostTold:
			lines[to] = append(lines[to], line)
		case n == mostTold:
			lines[to] = append(lines[to], "· and more: /schedules")
		}
	}
	return lines, nil
}
