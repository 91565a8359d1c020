package sqlstore

import (
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

func scanSchedule(s scanner) (store.Schedule, error) {
	var v store.Schedule
	var id, state, data string
	var next, created int64
	var r reader
	if err := s.Scan(&id, &state, &next, &data, &created); err != nil {
		return v, err
	}
	r.decode(data, &v)
	v.ID, v.State, v.NextAt, v.CreatedAt = id, state, moment(next), moment(created)
	v.Anchor, v.Due, v.UpdatedAt = exact(v.Anchor), exact(v.Due), exact(v.UpdatedAt)
	return v, r.err
}

// exact is a time as the columns have it.
func exact(t time.Time) time.Time { return moment(micros(t)) }

func (tx *Tx) InsertSchedule(s store.Schedule) error {
	return inserted(tx.exec("schedule.insert", s.ID, s.State, micros(s.NextAt), scheduleData(s), micros(s.CreatedAt)))
}

func (tx *Tx) SaveSchedule(s store.Schedule) error {
	return touched(tx.exec("schedule.save", s.State, micros(s.NextAt), scheduleData(s), s.ID))
}

func scheduleData(s store.Schedule) string {
	s.Anchor, s.Due, s.UpdatedAt = exact(s.Anchor), exact(s.Due), exact(s.UpdatedAt)
	return encode(s)
}

func (tx *Tx) Schedule(id string) (store.Schedule, error) {
	rows, err := tx.query("schedule.get", id)
	return first(tx, rows, err, scanSchedule)
}

func (tx *Tx) LockSchedule(id string) (store.Schedule, error) {
	rows, err := tx.query("schedule.lock", id)
	return first(tx, rows, err, scanSchedule)
}

func (tx *Tx) Schedules(p store.Page) ([]store.Schedule, string, error) {
	n, err := before(p)
	if err != nil {
		return nil, "", err
	}
	size := limit(p)
	rows, err := tx.query("schedule.list", n, size+1)
	found, err := all(tx, rows, err, numberedRow(scanSchedule))
	out, next := cut(found, size)
	return out, next, err
}

func (tx *Tx) DueSchedules(now time.Time, limit int) ([]store.Schedule, error) {
	rows, err := tx.query("schedule.due", micros(now), limit)
	return all(tx, rows, err, scanSchedule)
}

func (tx *Tx) NextSchedule() (time.Time, bool, error) { return tx.earliest("schedule.next") }

func scanOccurrence(s scanner) (store.Occurrence, error) {
	var o store.Occurrence
	var due, manual, rehearsal, covers, at, ended int64
	err := s.Scan(&o.ID, &o.ScheduleID, &due, &o.State, &o.Reason, &o.Outcome, &o.RunID, &manual, &rehearsal, &covers, &at, &ended)
	o.DueAt, o.Manual, o.Rehearsal, o.Covers = moment(due), manual != 0, rehearsal != 0, int(covers)
	o.At, o.EndedAt = moment(at), moment(ended)
	return o, err
}

func (tx *Tx) InsertOccurrence(o store.Occurrence) error {
	return inserted(tx.exec("occurrence.insert", o.ID, o.ScheduleID, micros(o.DueAt), o.State, o.Reason, o.Outcome, o.RunID,
		flag(o.Manual), flag(o.Rehearsal), int64(max(o.Covers, 1)), micros(o.At), micros(o.EndedAt)))
}

func (tx *Tx) SaveOccurrence(o store.Occurrence) error {
	return touched(tx.exec("occurrence.save", o.State, o.Reason, o.Outcome, o.RunID, micros(o.EndedAt), o.ID))
}

func (tx *Tx) OccurrenceAt(scheduleID string, due time.Time) (store.Occurrence, error) {
	rows, err := tx.query("occurrence.at", scheduleID, micros(due))
	return first(tx, rows, err, scanOccurrence)
}

func (tx *Tx) ForgetMissed(scheduleID string, t time.Time) error {
	_, err := tx.exec("occurrence.forget", scheduleID, micros(t))
	return err
}

func (tx *Tx) RunOccurrence(runID string) (store.Occurrence, error) {
	rows, err := tx.query("occurrence.run", runID)
	return first(tx, rows, err, scanOccurrence)
}

func (tx *Tx) Occurrences(scheduleID string, p store.Page) ([]store.Occurrence, string, error) {
	n, err := before(p)
	if err != nil {
		return nil, "", err
	}
	size := limit(p)
	name, args := "occurrence.list", []any{n, size + 1}
	if scheduleID != "" {
		name, args = "occurrence.of", []any{scheduleID, n, size + 1}
	}
	rows, err := tx.query(name, args...)
	found, err := all(tx, rows, err, numberedRow(scanOccurrence))
	out, next := cut(found, size)
	return out, next, err
}

func (tx *Tx) PruneOccurrences(scheduleID string, keep int) error {
	_, err := tx.exec("occurrence.prune", scheduleID, scheduleID, keep)
	return err
}
