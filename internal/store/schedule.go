package store

import (
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// The states of a schedule.
const (
	ScheduleActive  = "active"
	SchedulePaused  = "paused"  // by somebody, or by itself; Reason says why
	ScheduleDone    = "done"    // it came once, and has
	ScheduleRemoved = "removed" // its occurrences stay
)

// Schedule is work that starts itself.
type Schedule struct {
	ID     string        `json:"-"`
	Name   string        `json:"name"`
	State  string        `json:"-"`
	Reason string        `json:"reason,omitempty"`
	By     mercury.Actor `json:"by"`             // whose it is
	RunID  string        `json:"run,omitempty"`  // that made it; empty: a person did
	Said   string        `json:"said,omitempty"` // when, as it was said

	Spec   string        `json:"spec"`           // when, as package schedule writes it
	Anchor time.Time     `json:"anchor"`         // where its steps count from
	Zone   string        `json:"zone,omitempty"` // of wall clock times; empty: the house's
	Jitter time.Duration `json:"jitter,omitempty"`
	Missed string        `json:"missed"`           // "once", "skip", "within"
	Within time.Duration `json:"within,omitempty"` // of "within"

	Action      string          `json:"action"` // "prompt", "skill", "send", "command"
	Text        string          `json:"text,omitempty"`
	Skill       string          `json:"skill,omitempty"`
	Command     string          `json:"command,omitempty"`
	Precheck    string          `json:"precheck,omitempty"` // a command that may skip an occurrence
	Watch       string          `json:"watch,omitempty"`    // a file or URL: nothing is done unless it changed
	Destination string          `json:"destination"`
	Origin      string          `json:"origin,omitempty"` // conversation it was made in
	Mandate     mercury.Mandate `json:"mandate"`          // frozen when it was made
	Rehearsed   bool            `json:"rehearsed,omitempty"`
	Taint       []string        `json:"taint,omitempty"` // outside sources in what it says
	Fails       int             `json:"fails,omitempty"` // in a row

	// Due is the occurrence that comes next, NextAt when it is acted upon:
	// Due and the jitter. Both are zero while nothing comes.
	Due    time.Time `json:"due"`
	NextAt time.Time `json:"-"`
	// Reckoned is the zone that Due was reckoned in.
	Reckoned string `json:"reckoned,omitempty"`

	CreatedAt time.Time `json:"-"`
	UpdatedAt time.Time `json:"updated"`
}

// The states of an occurrence.
const (
	OccurrenceRan         = "ran"
	OccurrenceLate        = "late"        // ran, after its time
	OccurrenceMissed      = "missed"      // Mercury was not there, and its time was over
	OccurrenceSkipped     = "skipped"     // on purpose
	OccurrenceInterrupted = "interrupted" // began, and was ended
)

// Occurrence is one firing of a schedule: one row, whatever happens.
type Occurrence struct {
	ID         string
	ScheduleID string
	DueAt      time.Time
	State      string
	Reason     string
	Outcome    string // of one that ran: "done", "silent" (it had nothing to say), "failed"; empty: still at work
	RunID      string // of one that needed a run
	Manual     bool   // somebody asked for it
	Rehearsal  bool
	Covers     int // how many it stands for, where there were very many; else 1
	At         time.Time
	EndedAt    time.Time
}

// Schedules keeps schedules and what became of each of their occurrences.
type Schedules interface {
	InsertSchedule(s Schedule) error // ErrExists: the id is taken
	SaveSchedule(s Schedule) error   // everything but id and CreatedAt
	Schedule(id string) (Schedule, error)
	LockSchedule(id string) (Schedule, error)
	// Schedules lists those that were not removed, newest first.
	Schedules(p Page) ([]Schedule, string, error)
	// DueSchedules returns active ones whose NextAt has come, the earliest
	// first.
	DueSchedules(now time.Time, limit int) ([]Schedule, error)
	// NextSchedule is the earliest NextAt of an active one.
	NextSchedule() (time.Time, bool, error)

	// InsertOccurrence fails with ErrExists if (ScheduleID, DueAt) has a row.
	InsertOccurrence(o Occurrence) error
	SaveOccurrence(o Occurrence) error // State, Reason, Outcome, RunID, EndedAt
	OccurrenceAt(scheduleID string, due time.Time) (Occurrence, error)
	// ForgetMissed deletes a schedule's missed occurrences that are due after
	// t: the clock was wrong, and they are still to come.
	ForgetMissed(scheduleID string, t time.Time) error
	// RunOccurrence is the occurrence that a run works on.
	RunOccurrence(runID string) (Occurrence, error)
	Occurrences(scheduleID string, p Page) ([]Occurrence, string, error) // newest first; "": of all
	// PruneOccurrences deletes a schedule's occurrences beyond the newest
	// keep.
	PruneOccurrences(scheduleID string, keep int) error
}
