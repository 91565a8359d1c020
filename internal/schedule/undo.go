package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// snapshot is a schedule as undo keeps it.
type snapshot struct {
	State    string         `json:"state"`
	Schedule store.Schedule `json:"schedule"`
}

func keepUndo(tx *engine.Tx, c tool.Call, before *store.Schedule, after store.Schedule) error {
	row := store.UndoRow{ID: mercury.NewID("un"), RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.ID, Tool: c.Name,
		Act: UndoAct, Path: after.ID, At: tx.Now()}
	if before != nil {
		row.Before = string(mustJSON(snapshot{before.State, *before}))
	}
	row.After = string(mustJSON(snapshot{after.State, after}))
	return tx.PutUndo(row)
}

// UndoAct marks what a run did to schedules among what it did.
const UndoAct = "schedule"

// Undo takes back one change that a run made to a schedule, or says what that
// would do. A schedule that was changed since is left alone.
func (s *Schedules) Undo(_ context.Context, tx store.Tx, row store.UndoRow, apply bool) (can bool, text string, err error) {
	var e *engine.Tx
	if apply {
		if e, err = engineTx(tx); err != nil {
			return false, "", err
		}
	}
	now, err := tx.Schedule(row.Path)
	if errors.Is(err, store.ErrNotFound) {
		return false, "it is not there any more", nil
	}
	if err != nil {
		return false, "", err
	}
	var before, after snapshot
	if err := json.Unmarshal([]byte(row.After), &after); err != nil {
		return false, "", fmt.Errorf("read what was done to %s: %w", row.Path, err)
	}
	// What is due next moves on by itself; anything else is a change.
	if now.State != after.State && now.State != store.ScheduleDone || !now.UpdatedAt.Equal(after.Schedule.UpdatedAt) {
		return false, now.Name + " has changed since", nil
	}
	if row.Before == "" {
		if apply {
			_, err = s.Remove(e, row.Path)
		}
		return true, "the schedule " + now.Name + " is removed", err
	}
	if err := json.Unmarshal([]byte(row.Before), &before); err != nil {
		return false, "", fmt.Errorf("read what %s was: %w", row.Path, err)
	}
	if apply {
		back := before.Schedule
		back.ID, back.State, back.CreatedAt, back.UpdatedAt = now.ID, before.State, now.CreatedAt, tx.Now()
		back.Fails, back.Rehearsed = now.Fails, now.Rehearsed
		if back.State == store.ScheduleActive {
			if err := s.reckon(&back, s.opts.Clock.Now()); err != nil {
				return false, "", err
			}
			if back.Due.IsZero() {
				back.State = store.ScheduleDone
			}
		}
		if err := e.SaveSchedule(back); err != nil {
			return false, "", err
		}
		s.kick(e)
	}
	return true, "the schedule " + before.Schedule.Name + " is as it was", nil
}
