package schedule

import (
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// restored marks a schedule of a home that was brought back from a copy. What
// came due since the copy was made was perhaps done by the original.
const restored = "the home was restored from a backup"

// Hold pauses every active schedule of a restored home until LetGo.
func Hold(tx store.Tx) error {
	return each(tx, func(sch store.Schedule) error {
		if sch.State != store.ScheduleActive {
			return nil
		}
		sch.State, sch.Reason, sch.NextAt = store.SchedulePaused, restored, time.Time{}
		return tx.SaveSchedule(sch)
	})
}

// Held lists, for people, what Hold paused.
func Held(tx store.Tx) (lines []string, err error) {
	err = each(tx, func(sch store.Schedule) error {
		if held(sch) {
			lines = append(lines, fmt.Sprintf("%s (%s)", sch.Name, sch.Spec))
		}
		return nil
	})
	return lines, err
}

// LetGo lets what Hold paused come again. What was due meanwhile is missed,
// whatever its rule for missed times says.
func LetGo(tx store.Tx) error {
	return each(tx, func(sch store.Schedule) error {
		if !held(sch) {
			return nil
		}
		sch.State, sch.NextAt = store.ScheduleActive, sch.Due
		if sch.Due.After(tx.Now()) {
			sch.Reason = ""
		}
		return tx.SaveSchedule(sch)
	})
}

func held(sch store.Schedule) bool {
	return sch.State == store.SchedulePaused && sch.Reason == restored
}

func each(tx store.Tx, fn func(store.Schedule) error) error {
	for after := ""; ; {
		page, next, err := tx.Schedules(store.Page{After: after, Limit: 1000})
		if err != nil {
			return err
		}
		for _, sch := range page {
			if err := fn(sch); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}
