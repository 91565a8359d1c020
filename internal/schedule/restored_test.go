package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestARestoredHomeStartsNothingAndMakesUpForNothing(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		passed := r.add(Draft{When: "every 6h", Prompt: "x"})
		once := r.add(Draft{When: "in 2 hours", Send: "x"})
		ahead := r.add(Draft{When: "every 48h", Prompt: "x"})
		paused := r.add(Draft{When: "every 1h", Prompt: "x"})
		r.update(func(tx *engine.Tx) error {
			_, err := r.schedules.Pause(tx, paused.ID, "a person did")
			return err
		})
		r.update(func(tx *engine.Tx) error { return Hold(tx) })
		r.view(func(tx store.Tx) error {
			lines, err := Held(tx)
			if len(lines) != 3 {
				t.Errorf("held are %q", lines)
			}
			return err
		})
		r.start()
		time.Sleep(14 * time.Hour)
		synctest.Wait()
		for _, sch := range []store.Schedule{passed, once, ahead, paused} {
			equal(t, "held", r.states(sch.ID), []string{})
		}
		r.stop()
		r.update(func(tx *engine.Tx) error { return LetGo(tx) })
		r.start()
		synctest.Wait()
		if n := r.turns.Load(); n != 0 {
			t.Errorf("%d were made up for", n)
		}
		equal(t, "passed", r.states(passed.ID), []string{"01T06:00 missed", "01T12:00 missed"})
		equal(t, "once", r.states(once.ID), []string{"01T02:00 missed"})
		equal(t, "ahead", r.states(ahead.ID), []string{})
		time.Sleep(40 * time.Hour)
		synctest.Wait()
		equal(t, "ahead", r.states(ahead.ID), []string{"03T00:00 ran"})
		if got := r.states(passed.ID); len(got) < 3 || got[2] != "01T18:00 ran" {
			t.Errorf("afterwards came %q", got)
		}
		if sch := r.schedule(paused.ID); sch.State != store.SchedulePaused {
			t.Errorf("what a person paused is %s", sch.State)
		}
	})
}
