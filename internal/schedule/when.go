package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Windows, Termux and small containers have no zones of their own

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule/cron"
)

// A When says when a schedule is due. Its Spec is one of three forms:
//
//	0 9 * * 1-5                     a cron expression, or @daily
//	every 90m, every 3d             steps of time, or of days at one wall clock time
//	at 2026-03-01T09:00:00+01:00    once
type When struct {
	Spec   string
	Anchor time.Time      // where "every" counts from
	Zone   *time.Location // of wall clock times
}

// Once reports whether it comes a single time.
func (w When) Once() bool { return strings.HasPrefix(w.Spec, "at ") }

// A Timetable is a When that is ready to be asked.
type Timetable struct {
	expr   cron.Expr
	zone   *time.Location
	at     time.Time     // once
	step   time.Duration // steps of time
	days   int           // steps of days
	anchor time.Time
}

// Timetable reads the spec. An error is the spec's fault.
func (w When) Timetable() (Timetable, error) {
	t := Timetable{zone: w.Zone, anchor: w.Anchor}
	if t.zone == nil {
		t.zone = time.UTC
	}
	kind, rest, _ := strings.Cut(w.Spec, " ")
	var err error
	switch kind {
	case "at":
		if t.at, err = time.Parse(time.RFC3339, rest); err != nil {
			return t, invalid(fmt.Sprintf("%q is no time", rest), "A time is written like 2026-03-01T09:00:00+01:00.")
		}
	case "every":
		if number, ok := strings.CutSuffix(rest, "d"); ok {
			if t.days, err = strconv.Atoi(number); err != nil || t.days < 1 || t.days > 3660 {
				return t, invalid(fmt.Sprintf("%q is no number of days", rest), helpWhen)
			}
			break
		}
		if t.step, err = time.ParseDuration(rest); err != nil || t.step < time.Second || t.step > 10*365*24*time.Hour {
			return t, invalid(fmt.Sprintf("%q is no interval from one second up", rest), helpWhen)
		}
		t.step = t.step.Truncate(time.Second)
	default:
		if t.expr, err = cron.Parse(w.Spec); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Next is the first time due after t, in the timetable's zone; zero when there
// is none.
func (t Timetable) Next(after time.Time) time.Time {
	switch {
	case !t.at.IsZero():
		if t.at.After(after) {
			return t.at.In(t.zone)
		}
		return time.Time{}
	case t.step > 0:
		if after.Before(t.anchor) {
			return t.anchor.In(t.zone)
		}
		n := after.Sub(t.anchor)/t.step + 1
		return t.anchor.Add(n * t.step).In(t.zone)
	case t.days > 0:
		return t.nextDay(after)
	}
	return t.expr.Next(after, t.zone)
}

// nextDay counts calendar days from the anchor's, at its wall clock time.
func (t Timetable) nextDay(after time.Time) time.Time {
	first := t.anchor.In(t.zone)
	day := func(at time.Time) time.Time {
		y, m, d := at.In(t.zone).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	gone := int(day(after).Sub(day(first)) / (24 * time.Hour))
	n := max(0, gone/t.days*t.days)
	for ; ; n += t.days {
		d := day(first).AddDate(0, 0, n)
		h, m, s := first.Clock()
		if at := wallTime(d.Year(), d.Month(), d.Day(), h, m, s, t.zone); at.After(after) {
			return at
		}
	}
}

// wallTime is the instant at which a wall clock shows this: the first of two,
// or, where a change of the clock skips it, the first moment after.
func wallTime(year int, month time.Month, day, hour, minute, second int, zone *time.Location) time.Time {
	e, err := cron.Parse(fmt.Sprintf("@seconds %d %d %d %d %d *", second, minute, hour, day, int(month)))
	if err != nil { // no such day
		return time.Date(year, month, day, hour, minute, second, 0, zone)
	}
	return e.Next(time.Date(year, month, day, 0, 0, 0, 0, zone).Add(-6*time.Hour), zone)
}

// Coming are the next n times after t.
func (t Timetable) Coming(after time.Time, n int) []time.Time {
	var out []time.Time
	for at := t.Next(after); !at.IsZero() && len(out) < n; at = t.Next(at) {
		out = append(out, at)
	}
	return out
}

const helpWhen = `Say it like "every weekday at 8", "every 2 hours", "tomorrow at 9", "in 20 minutes", "first monday of the month at 10:30", or as a cron expression such as "0 8 * * 1-5".`

func invalid(text, help string) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read when: %s", text), Help: help}
}

// LoadZone finds a zone by its IANA name; empty is def. An unknown name is an
// Invalid error.
func LoadZone(name string, def *time.Location) (*time.Location, error) {
	if name == "" {
		return def, nil
	}
	if strings.EqualFold(name, "utc") {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("there is no time zone %q", name),
			Help: "Zones have names such as Europe/Lisbon, America/New_York or UTC."}
	}
	return zone, nil
}
