// Package schedule is work that starts itself.
//
// A schedule says when (a cron expression, steps of time, a moment), in which
// zone, what to do, where its result goes, and what becomes of a time that was
// missed. Each of its times is an occurrence and has exactly one row, whatever
// happens: it ran, ran late, was missed, was skipped on purpose, or was
// interrupted, with the reason. The row, the run that does the work and the
// next time are one commit, so that nothing is done twice and nothing is lost
// in silence.
//
// Times are compared by the wall clock, never by how long the program waited:
// a host that slept, or whose clock was set, is noticed when it wakes.
//
// The package decides when and whether; what a turn is, and what a run may
// touch, is decided by the rooms it is given.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Kind is the kind of the runs that work on occurrences.
const Kind = "occurrence"

// Options tune Schedules. A zero field means its default.
type Options struct {
	Zone     *time.Location // the house's; default UTC
	ZoneName string         // its IANA name; default Zone's own
	Clock    Clock          // default the system's

	// Grace is how late an occurrence may begin and still count as on time;
	// default 90 s.
	Grace time.Duration
	// Keep is how many occurrences of a schedule are remembered; default
	// 1,000.
	Keep int

	// Turn takes the turn of an occurrence that is a prompt. Nil: there are
	// none.
	Turn engine.Handler
	// Tools are the tools behind their gate, of which commands, prechecks and
	// watches use run_command, read_file and fetch_url. Nil: there are none.
	Tools func(ctx context.Context) (*tool.Set, error)
	// Skill is the prompt that uses a skill. Nil: there are no skills.
	Skill func(ctx context.Context, name string) (string, error)
	// Rights are those of a person who makes a schedule. Required to add any.
	Rights func(by mercury.Actor, destination string) mercury.Mandate
	// Narrow takes from a mandate what its owner may no longer do. Nil: all of
	// it still holds.
	Narrow func(mercury.Mandate) mercury.Mandate
	// Afford says why an occurrence that asks a model is too much today; empty:
	// it may run. Nil: always.
	Afford func(tx store.Tx, s store.Schedule) (why string, err error)

	// Heartbeat is the house's own schedule. Hush says until when nothing is
	// sent unasked at t; zero, or nil: it may be.
	Heartbeat Heartbeat
	Hush      func(t time.Time) time.Time

	// Owner names this process where several share the store, which they do
	// with a positive Poll: then one of them at a time wakes for the
	// schedules, and all look this often.
	Owner string
	Poll  time.Duration
	Log   *slog.Logger // default discards
}

// Schedules are the schedules of one store in this process. All but Run works
// without Run; then another process or a later Run acts upon it.
type Schedules struct {
	engine *engine.Engine
	opts   Options
	wake   chan struct{}
	looked bool // for what a former process did not tell; Run's alone
}

// New returns the schedules of an engine, and names itself the handler of
// their runs. It starts nothing.
func New(e *engine.Engine, o Options) *Schedules {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.ZoneName == "" {
		o.ZoneName = o.Zone.String()
	}
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	if o.Grace == 0 {
		o.Grace = 90 * time.Second
	}
	if o.Keep == 0 {
		o.Keep = 1000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Schedules{engine: e, opts: o, wake: make(chan struct{}, 1)}
	e.Handle(Kind, s.occurrence)
	e.Ended(Kind, s.ended)
	return s
}

// lease is how long a process of several keeps the right to act.
const lease = 25 * time.Second

// Run acts on each occurrence when it is due, until ctx ends. It wakes when
// the next one is due, when a schedule changes and when the clock is set, and
// otherwise sleeps.
func (s *Schedules) Run(ctx context.Context) error {
	defer s.drop(ctx)
	var seen time.Time
	for again := time.Second; ctx.Err() == nil; {
		until, err := s.once(ctx, &seen)
		if err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("schedules could not be acted upon", "err", err, "again", again)
			until, again = s.opts.Clock.Now().Add(again), min(2*again, time.Minute)
		} else {
			again = time.Second
		}
		s.opts.Clock.Wait(ctx, until, s.wake)
	}
	return nil
}

// once does what is due and says when to look again. seen is what the clock
// showed when it last did; zero: never, or another process did since.
func (s *Schedules) once(ctx context.Context, seen *time.Time) (time.Time, error) {
	var soon time.Time
	if s.opts.Poll > 0 {
		soon = s.opts.Clock.Now().Add(s.opts.Poll)
		held, err := s.take(ctx)
		if err != nil || !held {
			*seen = time.Time{}
			return soon, err
		}
	}
	now := s.opts.Clock.Now()
	if now.Before(*seen) || seen.IsZero() {
		if err := s.review(ctx); err != nil {
			return soon, err
		}
	}
	if seen.IsZero() {
		if err := s.pulse(ctx); err != nil {
			s.opts.Log.Warn("the heartbeat could not be set", "err", err)
		}
	}
	*seen = now
	if err := s.pass(ctx); err != nil {
		return soon, err
	}
	var next time.Time
	err := s.engine.View(ctx, func(tx store.Tx) (err error) {
		next, _, err = tx.NextSchedule()
		return err
	})
	if !soon.IsZero() && (next.IsZero() || soon.Before(next)) {
		next = soon
	}
	return next, err
}

// take takes or renews the right to act; false: another process has it.
func (s *Schedules) take(ctx context.Context) (bool, error) {
	err := s.engine.Update(ctx, "schedule.lease", func(tx *engine.Tx) error {
		_, err := tx.TakeLease("schedules", s.opts.Owner, lease)
		return err
	})
	if errors.Is(err, store.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

// drop lets another process act at once.
func (s *Schedules) drop(ctx context.Context) {
	if s.opts.Poll == 0 {
		return
	}
	// The process is stopping, so ctx is over; the lease must still go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := s.engine.Update(ctx, "schedule.drop", func(tx *engine.Tx) error { return tx.DropLease("schedules", s.opts.Owner) })
	if err != nil {
		s.opts.Log.Warn("the lease of the schedules could not be dropped", "err", err)
	}
}

// kick makes Run look again once tx is committed.
func (s *Schedules) kick(tx *engine.Tx) {
	tx.After(func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}

// Conversation is where the occurrences of a schedule are worked on.
func Conversation(id string) string { return "schedule/" + id }

// zone is where a schedule's wall clock hangs.
func (s *Schedules) zone(sch store.Schedule) (*time.Location, string, error) {
	if sch.Zone == "" {
		return s.opts.Zone, s.opts.ZoneName, nil
	}
	zone, err := LoadZone(sch.Zone, nil)
	return zone, sch.Zone, err
}

func (s *Schedules) table(sch store.Schedule) (Timetable, error) {
	zone, _, err := s.zone(sch)
	if err != nil {
		return Timetable{}, err
	}
	return When{Spec: sch.Spec, Anchor: sch.Anchor, Zone: zone}.Timetable()
}

// reckon sets the occurrence that comes next after t.
func (s *Schedules) reckon(sch *store.Schedule, t time.Time) error {
	table, err := s.table(*sch)
	if err != nil {
		return err
	}
	_, sch.Reckoned, _ = s.zone(*sch)
	sch.Due = table.Next(t)
	sch.NextAt = time.Time{}
	if !sch.Due.IsZero() {
		sch.NextAt = sch.Due.Add(jitter(*sch, sch.Due))
	}
	return nil
}

// review reckons anew what no longer fits: a schedule without a zone of its own
// lives in the house's, which may have moved; and one that waits for a later
// time than its next was led there by a clock that was wrong.
func (s *Schedules) review(ctx context.Context) error {
	for after := ""; ; {
		var page []store.Schedule
		err := s.engine.View(ctx, func(tx store.Tx) (err error) {
			page, after, err = tx.Schedules(store.Page{After: after, Limit: 1000})
			return err
		})
		if err != nil {
			return fmt.Errorf("read schedules: %w", err)
		}
		for _, sch := range page {
			if !s.astray(sch) {
				continue
			}
			err := s.engine.Update(ctx, "schedule.review", func(tx *engine.Tx) error { return s.setRight(tx, sch.ID) })
			if err != nil {
				return fmt.Errorf("reckon %s anew: %w", sch.ID, err)
			}
		}
		if after == "" {
			return nil
		}
	}
}

// astray reports whether a schedule may wait for the wrong time.
func (s *Schedules) astray(sch store.Schedule) bool {
	if sch.State != store.ScheduleActive || (When{Spec: sch.Spec}).Once() {
		return false // a moment is one everywhere
	}
	if sch.Zone == "" && sch.Reckoned != s.opts.ZoneName {
		return true
	}
	table, err := s.table(sch)
	return err == nil && table.Next(s.opts.Clock.Now()).Before(sch.Due)
}

func (s *Schedules) setRight(tx *engine.Tx, id string) error {
	sch, err := tx.LockSchedule(id)
	if err != nil || !s.astray(sch) {
		return err
	}
	now := s.opts.Clock.Now()
	moved := sch.Zone == "" && sch.Reckoned != s.opts.ZoneName
	was := sch.Due
	if err := s.reckon(&sch, now); err != nil {
		return err
	}
	// What has been acted upon before the clock was set back is not done again.
	for !moved && sch.Due.Before(was) {
		o, err := tx.OccurrenceAt(id, sch.Due)
		if errors.Is(err, store.ErrNotFound) || err == nil && o.State == store.OccurrenceMissed {
			break
		}
		if err != nil {
			return err
		}
		if err := s.reckon(&sch, sch.Due); err != nil {
			return err
		}
	}
	if !moved && sch.Due.Before(was) {
		if err := tx.ForgetMissed(id, now); err != nil {
			return err
		}
		s.opts.Log.Warn("a schedule waited for a time of a clock that was wrong", "schedule", id, "was", was, "now", sch.Due)
	}
	return tx.SaveSchedule(sch)
}
