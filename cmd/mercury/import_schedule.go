package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/move"
	"github.com/mercury-agent/mercury/internal/schedule"
)

// timetable keeps schedules that are taken over, paused until their owner
// confirms them.
type timetable struct {
	client *client.Client
	zone   *time.Location // of a schedule that names none
}

func draft(s move.Schedule) client.Draft {
	return client.Draft{Draft: schedule.Draft{Name: s.Name, When: phrase(s), Zone: s.Zone, Prompt: s.Prompt, Skill: s.Skill}}
}

// phrase writes a trigger as schedules read it.
func phrase(s move.Schedule) string {
	switch {
	case s.Cron != "":
		return s.Cron
	case s.Every > 0:
		return "every " + s.Every.String()
	}
	return "at " + s.At.Format(time.RFC3339)
}

// Add leaves a schedule alone whose name is there. One that cannot be used here
// is a mercury.Invalid error.
func (t timetable) Add(ctx context.Context, s move.Schedule) (bool, error) {
	if _, err := t.client.Schedule(ctx, s.Name); err == nil {
		return false, nil
	}
	added, err := t.client.AddSchedule(ctx, draft(s))
	if err != nil && s.Skill != "" { // where skills cannot be scheduled, a turn is told to use it
		s.Prompt, s.Skill = strings.TrimSpace("Use the skill "+s.Skill+".\n"+s.Prompt), ""
		added, err = t.client.AddSchedule(ctx, draft(s))
	}
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity {
		return false, &mercury.Error{Kind: mercury.Invalid, Err: err}
	}
	if err != nil {
		return false, err
	}
	_, err = t.client.PauseSchedule(ctx, added.ID)
	return true, err
}

func (t timetable) Next(s move.Schedule) (time.Time, error) {
	zone := t.zone
	if s.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(s.Zone); err != nil {
			return time.Time{}, err
		}
	}
	now := time.Now()
	w, err := schedule.ParseWhen(phrase(s), now, zone)
	if err != nil {
		return time.Time{}, err
	}
	table, err := w.Timetable()
	if err != nil {
		return time.Time{}, err
	}
	return table.Next(now), nil
}

// exportSchedules writes what starts by itself.
func exportSchedules(ctx context.Context, r *client.Client, box *move.Box) error {
	var all []api.Schedule
	for after := ""; ; {
		page, err := r.Schedules(ctx, url.Values{"after": {after}, "limit": {"200"}})
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	box.Note("- schedules.json: %s.", mercury.Count(len(all), "schedule", "schedules"))
	return box.JSON("schedules.json", map[string]any{"items": all})
}
