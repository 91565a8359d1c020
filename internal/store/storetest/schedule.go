package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func newSchedule(id string, next time.Time) store.Schedule {
	return store.Schedule{ID: id, Name: "digest", State: store.ScheduleActive, By: owner, Spec: "0 9 * * *", Zone: "Europe/Oslo", Missed: "within",
		Within: time.Hour, Jitter: time.Minute, Action: "prompt", Text: "good morning é", Destination: "local/a", Origin: "local/a",
		Mandate: mercury.Mandate{Actor: owner, Mode: "ask"}, Taint: []string{"web"}, Fails: 1, Due: next, NextAt: next, Anchor: at(1),
		CreatedAt: at(2), UpdatedAt: at(3)}
}

func scheduleID(s store.Schedule) string     { return s.ID }
func occurrenceID(o store.Occurrence) string { return o.ID }
func occurrenceAt(id string, n int) store.Occurrence {
	return store.Occurrence{ID: id, ScheduleID: "sch_1", DueAt: at(n), State: store.OccurrenceRan, Covers: 1, At: at(n)}
}

var scheduleTests = map[string]func(*testing.T, Home, store.Store){
	"schedules come back as they were kept": func(t *testing.T, _ Home, s store.Store) {
		want := newSchedule("sch_1", at(60))
		update(t, s, func(tx store.Tx) error { return tx.InsertSchedule(want) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertSchedule(want) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveSchedule(newSchedule("sch_9", at(0))) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Schedule("sch_1")
			same(t, "schedule", got, want)
			return err
		})
		want.State, want.Reason, want.NextAt, want.Due, want.Text = store.SchedulePaused, "r", time.Time{}, time.Time{}, "other"
		update(t, s, func(tx store.Tx) error {
			if _, err := tx.LockSchedule("sch_1"); err != nil {
				return err
			}
			return tx.SaveSchedule(want)
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.LockSchedule("sch_1")
			same(t, "saved", got, want)
			_, err2 := tx.Schedule("sch_9")
			if !errors.Is(err2, store.ErrNotFound) {
				t.Errorf("got %v", err2)
			}
			return err
		})
	},
	"the one that is due next is known, and paused ones are not due": func(t *testing.T, _ Home, s store.Store) {
		view(t, s, func(tx store.Tx) error {
			_, ok, err := tx.NextSchedule()
			same(t, "none", ok, false)
			return err
		})
		paused := newSchedule("sch_3", at(5))
		paused.State = store.SchedulePaused
		removed := newSchedule("sch_4", at(5))
		removed.State = store.ScheduleRemoved
		update(t, s, func(tx store.Tx) error {
			for _, v := range []store.Schedule{newSchedule("sch_1", at(20)), newSchedule("sch_2", at(10)), paused, removed, newSchedule("sch_5", time.Time{})} {
				if err := tx.InsertSchedule(v); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, s, func(tx store.Tx) error {
			next, ok, err := tx.NextSchedule()
			same(t, "next", []any{next, ok}, []any{at(10), true})
			due, err2 := tx.DueSchedules(at(20), 9)
			same(t, "due", ids(due, scheduleID), []string{"sch_2", "sch_1"})
			due, err3 := tx.DueSchedules(at(19), 9)
			same(t, "due before", ids(due, scheduleID), []string{"sch_2"})
			list, cursor, err4 := tx.Schedules(store.Page{Limit: 3})
			same(t, "list", ids(list, scheduleID), []string{"sch_5", "sch_3", "sch_2"})
			rest, end, err5 := tx.Schedules(store.Page{Limit: 3, After: cursor})
			same(t, "rest", append(ids(rest, scheduleID), end), []string{"sch_1", ""})
			return errors.Join(err, err2, err3, err4, err5)
		})
	},
	"an occurrence has one row": func(t *testing.T, _ Home, s store.Store) {
		o := occurrenceAt("oc_1", 1)
		update(t, s, func(tx store.Tx) error { return tx.InsertOccurrence(o) })
		twice := occurrenceAt("oc_2", 1)
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertOccurrence(twice) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveOccurrence(twice) })
		o.State, o.Reason, o.Outcome, o.RunID, o.EndedAt = store.OccurrenceLate, "r", "failed", "run_1", at(4)
		other := occurrenceAt("oc_3", 1)
		other.ScheduleID, other.Manual, other.Rehearsal, other.Covers = "sch_2", true, true, 7
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.SaveOccurrence(o), tx.InsertOccurrence(other)) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.RunOccurrence("run_1")
			same(t, "of the run", got, o)
			all, _, err2 := tx.Occurrences("", store.Page{})
			same(t, "all", all, []store.Occurrence{other, o})
			_, err3 := tx.RunOccurrence("")
			if !errors.Is(err3, store.ErrNotFound) {
				t.Errorf("of no run: %v", err3)
			}
			return errors.Join(err, err2)
		})
	},
	"what a wrong clock called missed is forgotten": func(t *testing.T, _ Home, s store.Store) {
		missed, other := occurrenceAt("oc_2", 20), occurrenceAt("oc_4", 20)
		missed.State, other.State, other.ScheduleID = store.OccurrenceMissed, store.OccurrenceMissed, "sch_2"
		early := occurrenceAt("oc_1", 10)
		early.State = store.OccurrenceMissed
		update(t, s, func(tx store.Tx) error {
			return errors.Join(tx.InsertOccurrence(early), tx.InsertOccurrence(missed), tx.InsertOccurrence(occurrenceAt("oc_3", 30)), tx.InsertOccurrence(other),
				tx.ForgetMissed("sch_1", at(10)))
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.OccurrenceAt("sch_1", at(30))
			same(t, "kept", got, occurrenceAt("oc_3", 30))
			if _, err := tx.OccurrenceAt("sch_1", at(20)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("forgotten: %v", err)
			}
			all, _, err2 := tx.Occurrences("", store.Page{})
			same(t, "all", ids(all, occurrenceID), []string{"oc_4", "oc_3", "oc_1"})
			return errors.Join(err, err2)
		})
	},
	"old occurrences go": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			other := occurrenceAt("oc_9", 1)
			other.ScheduleID = "sch_2"
			return errors.Join(tx.InsertOccurrence(occurrenceAt("oc_1", 1)), tx.InsertOccurrence(occurrenceAt("oc_2", 2)), tx.InsertOccurrence(other),
				tx.InsertOccurrence(occurrenceAt("oc_3", 3)), tx.PruneOccurrences("sch_1", 2), tx.PruneOccurrences("sch_2", 2))
		})
		view(t, s, func(tx store.Tx) error {
			got, next, err := tx.Occurrences("sch_1", store.Page{Limit: 1})
			rest, _, err2 := tx.Occurrences("sch_1", store.Page{After: next})
			same(t, "kept", ids(append(got, rest...), occurrenceID), []string{"oc_3", "oc_2"})
			all, _, err3 := tx.Occurrences("", store.Page{})
			same(t, "of all", len(all), 3)
			return errors.Join(err, err2, err3)
		})
	},
}
