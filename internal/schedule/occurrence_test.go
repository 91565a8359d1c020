package schedule

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// within runs a test on a rig in a bubble whose clock begins at
// 2000-01-01T00:00Z, a Saturday.
func within(t *testing.T, o Options, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		fn(t, r)
		if r.end != nil {
			r.stop()
		}
		r.store.Close()
	})
}

func TestF28_ATimeInThePastIsActedUponAndTheNextOneComes(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "0 * * * *", Prompt: "x"})
		time.Sleep(150 * time.Minute) // 02:30, with nothing running
		r.start()
		synctest.Wait()
		equal(t, "rows", r.states(sch.ID), []string{"01T01:00 missed", "01T02:00 late"})
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "then", r.states(sch.ID)[2:], []string{"01T03:00 ran"})
		equal(t, "turns", r.turns.Load(), 2)
	})
}

func TestF29_WhatIsTooLateForItsRuleDoesNotRunAndIsToldOnce(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		var all []store.Schedule
		for _, name := range []string{"one", "two", "three", "four", "five"} {
			all = append(all, r.add(Draft{Name: name, When: "0 11 * * *", Missed: "within 30m", Prompt: "x"}))
		}
		r.start()
		time.Sleep(10 * time.Hour)
		r.stop()
		time.Sleep(12 * time.Hour) // 22:00
		r.start()
		synctest.Wait()
		for _, sch := range all {
			equal(t, sch.Name, r.states(sch.ID), []string{"01T11:00 missed"})
		}
		equal(t, "turns", r.turns.Load(), 0)
		said := r.sent("local/default")
		if len(said) != 1 || strings.Count(said[0], "missed Sat 1 Jan 11:00") != 5 || !strings.Contains(said[0], "within 30m only") {
			t.Errorf("said %q", said)
		}
		r.stop()
		r.start()
		synctest.Wait()
		equal(t, "told again", len(r.sent("local/default")), 1)
	})
}

func TestF31_OccurrencesOfOneScheduleNeverOverlap(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		r.turn.Store(func(ctx context.Context, w *engine.Work) error {
			select {
			case <-time.After(155 * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			return answer(ctx, w, "done")
		})
		sch := r.add(Draft{When: "every 1m", Prompt: "x"})
		r.start()
		time.Sleep(4*time.Minute + 30*time.Second)
		synctest.Wait()
		equal(t, "rows", r.states(sch.ID), []string{"01T00:01 ran", "01T00:02 skipped", "01T00:03 skipped", "01T00:04 ran"})
		if why := r.rows(sch.ID)[1].Reason; !strings.HasPrefix(why, "the one before still works") {
			t.Errorf("because %q", why)
		}
	})
}

func TestF32_AnEditAfterItsTimeLeavesTomorrowAsItIs(t *testing.T) {
	within(t, Options{Zone: oslo(t)}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "25 6 * * *", Prompt: "x"})
		r.start()
		time.Sleep(21*time.Hour + 37*time.Minute) // 22:37 in Oslo
		r.update(func(tx *engine.Tx) error {
			_, err := r.schedules.Edit(tx, sch.ID, Draft{Prompt: "y", When: "25 6 * * *"})
			return err
		})
		synctest.Wait()
		now := r.schedule(sch.ID)
		next, err := r.schedules.Next(now, 1)
		if err != nil || next[0].Format("02T15:04") != "02T06:25" || now.Text != "y" {
			t.Errorf("next %v, %q, %v", next, now.Text, err)
		}
		equal(t, "rows", r.states(sch.ID), []string{"01T06:25 ran"})
	})
}

func TestF35_AMovedHouseTakesItsSchedulesAlong(t *testing.T) {
	brisbane, err := LoadZone("Australia/Brisbane", nil)
	if err != nil {
		t.Fatal(err)
	}
	within(t, Options{Zone: brisbane}, func(t *testing.T, r *rig) {
		follows := r.add(Draft{When: "every day at 21:00", Prompt: "x"})
		stays := r.add(Draft{When: "every day at 21:00", Zone: "Australia/Brisbane", Prompt: "x"})
		time.Sleep(11*time.Hour + 2*time.Minute) // 21:02 in Brisbane, 12:02 in Oslo
		r.opts.Zone = oslo(t)
		r.stop()
		r.start()
		synctest.Wait()
		equal(t, "at once", r.states(follows.ID), []string{})
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		equal(t, "once, at 21:00 there", r.states(follows.ID), []string{"01T21:00 ran"})
		equal(t, "with a zone of its own", r.states(stays.ID)[0], "01T21:00 late")
	})
}

func TestF37_ATimeIsReadInTheZoneOfTheOwner(t *testing.T) {
	within(t, Options{Zone: oslo(t)}, func(t *testing.T, r *rig) {
		time.Sleep(19 * time.Hour)
		sch := r.add(Draft{When: "at 20:07", Send: "now"})
		r.start()
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		equal(t, "rows", r.states(sch.ID), []string{"01T20:07 ran"})
		equal(t, "state", r.schedule(sch.ID).State, store.ScheduleDone)
	})
}

func TestF40_TheWallClockTimeIsTheSameFor400Days(t *testing.T) {
	within(t, Options{Keep: 500}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "every day at 6:25", Zone: "Europe/Oslo", Send: "up"})
		r.start()
		time.Sleep(400 * 24 * time.Hour)
		synctest.Wait()
		rows := r.states(sch.ID)
		for _, row := range rows {
			if !strings.HasSuffix(row, "T06:25 ran") {
				t.Errorf("got %s", row)
			}
		}
		if len(rows) != 400 || r.schedule(sch.ID).Zone != "Europe/Oslo" {
			t.Errorf("%d rows in %s", len(rows), r.schedule(sch.ID).Zone)
		}
	})
}

func TestF47_AfterManyRestartsTheNextTimesStillCome(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "0 */6 * * *", Send: "x"})
		for range 6 {
			r.start()
			time.Sleep(15 * time.Second)
			r.stop()
		}
		r.start()
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		rows := r.states(sch.ID)
		if len(rows) != 12 || strings.Contains(strings.Join(rows, ","), "missed") {
			t.Errorf("rows %v", rows)
		}
	})
}

func TestADailyOneIsMadeUpForOnItsOwnDayOnly(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		daily := r.add(Draft{When: "0 20 * * *", Prompt: "x"})
		weekly := r.add(Draft{When: "0 20 * * 6", Prompt: "x"})
		once := r.add(Draft{When: "in 20 hours", Send: "x"})
		r.start()
		time.Sleep(time.Hour)
		r.stop()
		time.Sleep(26 * time.Hour) // 03:00 of the next day
		r.start()
		synctest.Wait()
		equal(t, "daily", r.states(daily.ID), []string{"01T20:00 missed"})
		equal(t, "weekly", r.states(weekly.ID), []string{"01T20:00 late"})
		equal(t, "once", r.states(once.ID), []string{"01T20:00 late"})
	})
}

func TestASecondFailureInARowIsToldWithAWayOut(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		var bad atomic.Bool
		bad.Store(true)
		r.turn.Store(func(ctx context.Context, w *engine.Work) error {
			if bad.Load() {
				return w.Settle(ctx, engine.Outcome{State: mercury.RunFailed, Code: "filtered", Error: "The model refused."}, nil)
			}
			return answer(ctx, w, "fine")
		})
		sch := r.add(Draft{Name: "digest", When: "0 * * * *", Prompt: "x"})
		r.start()
		time.Sleep(3*time.Hour + time.Minute)
		synctest.Wait()
		equal(t, "rows", r.states(sch.ID), []string{"01T01:00 ran failed", "01T02:00 ran failed", "01T03:00 ran failed"})
		notices := 0
		for _, text := range r.sent("local/default") {
			if strings.Contains(text, "failed twice in a row") && strings.Contains(text, "/schedules pause "+sch.ID) {
				notices++
			}
		}
		equal(t, "notices with a way out", notices, 1)
		equal(t, "failures are told each time", len(r.sent("local/default")), 4)
		bad.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "in a row", r.schedule(sch.ID).Fails, 0)
	})
}

func TestAResultIsReadWhereItWasAskedFor(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		r.add(Draft{When: "0 * * * *", Prompt: "x"})
		r.add(Draft{When: "30 * * * *", Send: "a text"})
		r.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "sent", r.sent("local/default"), []string{"a text", "done"})
		r.view(func(tx store.Tx) error {
			entries, err := tx.Entries("local/default", 0, 0)
			if len(entries) != 2 || entries[0].Text != "a text" || entries[1].Text != "done" || entries[1].Kind != mercury.NoteEntry {
				t.Errorf("entries %+v", entries)
			}
			return err
		})
	})
}

func TestEachOccurrenceBeginsWithAnEmptyView(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		var seen []string
		r.turn.Store(func(ctx context.Context, w *engine.Work) error {
			err := w.View(ctx, func(tx store.Tx) error {
				c, err := tx.Conversation(w.Run().ConversationID)
				if err != nil {
					return err
				}
				entries, err := tx.Entries(c.ID, max(c.Head-1, 0), 0)
				for _, e := range entries {
					seen = append(seen, string(e.Kind)+":"+e.Text)
				}
				return err
			})
			return errors.Join(err, answer(ctx, w, "done"))
		})
		r.add(Draft{When: "0 * * * *", Prompt: "what is new?"})
		r.start()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		equal(t, "seen", seen, []string{"user:what is new?", "user:what is new?"})
	})
}

func TestASpentBudgetSkipsWhatAsksAModelAndNothingElse(t *testing.T) {
	o := Options{Afford: func(store.Tx, store.Schedule) (string, error) { return "the day's tokens are used", nil }}
	within(t, o, func(t *testing.T, r *rig) {
		dear := r.add(Draft{When: "0 * * * *", Prompt: "x"})
		free := r.add(Draft{When: "0 * * * *", Send: "x"})
		r.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "a prompt", r.rows(dear.ID)[0].State+": "+r.rows(dear.ID)[0].Reason, "skipped: the day's tokens are used")
		equal(t, "a text", r.states(free.ID), []string{"01T01:00 ran"})
	})
}

// R45: a schedule that was paused stays so; what happens in a chat never
// touches one; ending one occurrence leaves the schedule.
func TestPausedStaysPausedAndAStopEndsOneOccurrence(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		r.turn.Store(func(ctx context.Context, w *engine.Work) error {
			<-ctx.Done()
			return ctx.Err()
		})
		sch := r.add(Draft{When: "0 * * * *", Prompt: "x"})
		r.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		run := r.rows(sch.ID)[0].RunID
		r.update(func(tx *engine.Tx) error { return tx.Cancel(run, "stopped by Ada", ada) })
		synctest.Wait()
		o := r.rows(sch.ID)[0]
		equal(t, "it", o.State+": "+o.Reason, "interrupted: stopped by Ada")
		equal(t, "the schedule", r.schedule(sch.ID).State, store.ScheduleActive)
		r.update(func(tx *engine.Tx) error {
			_, err := r.schedules.Pause(tx, sch.ID, "enough")
			return err
		})
		r.stop()
		r.start()
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		equal(t, "while paused", len(r.rows(sch.ID)), 1)
		r.turn.Store(func(ctx context.Context, w *engine.Work) error { return answer(ctx, w, "done") })
		r.update(func(tx *engine.Tx) error {
			_, err := r.schedules.Resume(tx, sch.ID)
			return err
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "resumed", r.states(sch.ID)[1:], []string{"01T07:00 ran"})
	})
}

// R38: a restart keeps the time that comes next, and a changed cadence is for
// the times after the change.
func TestARestartKeepsTheNextTime(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "every 6h", Prompt: "x"})
		due := r.schedule(sch.ID).Due
		r.start()
		time.Sleep(5 * time.Hour)
		r.stop()
		r.start()
		synctest.Wait()
		equal(t, "after a restart", r.schedule(sch.ID).Due, due)
		r.update(func(tx *engine.Tx) error {
			_, err := r.schedules.Edit(tx, sch.ID, Draft{When: "every 2h"})
			return err
		})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		equal(t, "after a change", r.states(sch.ID), []string{"01T07:00 ran"})
	})
}

func TestVeryManyMissedTimesShareARow(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "@seconds * * * * * *", Send: "x", Missed: "skip"})
		time.Sleep(10_000 * time.Second)
		r.start()
		synctest.Wait()
		r.stop()
		n, most := 0, 0
		for _, o := range r.rows(sch.ID) {
			n, most = n+o.Covers, max(most, o.Covers)
		}
		// The newest thousand are kept.
		if n < 900 || n > 10_001 {
			t.Errorf("%d times in the rows, %d in one", n, most)
		}
	})
}

func TestTheSameScheduleOnBothStoresRunsOnceEachTime(t *testing.T) {
	eachStore(t, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "@seconds * * * * * *", Send: "tick"})
		r.start()
		patience := time.After(20 * time.Second)
		for {
			if len(r.rows(sch.ID)) >= 3 {
				break
			}
			select {
			case <-patience:
				t.Fatal("nothing came")
			case <-time.After(20 * time.Millisecond):
			}
		}
		r.stop()
		rows := r.rows(sch.ID)
		seen := map[time.Time]bool{}
		for _, o := range rows {
			if seen[o.DueAt] {
				t.Errorf("%v came twice", o.DueAt)
			}
			seen[o.DueAt] = true
		}
		equal(t, "sent", len(r.sent("local/default")), len(rows))
	})
}

func TestAnAcknowledgementIsRecognisedAndAnAnswerIsNot(t *testing.T) {
	for text, want := range map[string]bool{"HEARTBEAT_OK": true, " **HEARTBEAT_OK** ": true, "All quiet. HEARTBEAT_OK": true, "NO_REPLY": true,
		"HEARTBEAT_OK " + strings.Repeat("x", 300): false, "I said HEARTBEAT_OK yesterday, and today the server is down": false, "": false, "ok": false} {
		if got := Acknowledgement(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestWhatWatchesSpeaksThreeTimesADay(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "0 * * * *", Prompt: "x", Watch: "a.txt"})
		for n := range mostUnasked {
			o := occurrence(sch, r.clock.Now().Add(time.Duration(n)*time.Second), r.clock.Now())
			o.State, o.Outcome = store.OccurrenceRan, "done"
			r.update(func(tx *engine.Tx) error { return tx.InsertOccurrence(o) })
		}
		r.start()
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		rows := r.rows(sch.ID)[mostUnasked:]
		for i, o := range rows {
			spoke := strings.Contains(o.Reason, "unasked today")
			if today := i < 23; today != spoke {
				t.Errorf("%v is %s: %s", o.DueAt, o.State, o.Reason)
			}
		}
	})
}

func TestAClockThatWasFarAheadLeadsNoScheduleAstray(t *testing.T) {
	within(t, Options{}, func(t *testing.T, r *rig) {
		sch := r.add(Draft{When: "0 9 * * *", Send: "x", Missed: "skip"})
		r.start()
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		equal(t, "before", r.states(sch.ID), []string{"01T09:00 ran"})
		r.clock.move(60 * 24 * time.Hour) // a year of the wrong kind
		synctest.Wait()
		r.clock.move(-60*24*time.Hour - 2*time.Hour) // and right again, at 08:00
		synctest.Wait()
		time.Sleep(50 * time.Hour)
		synctest.Wait()
		equal(t, "after", r.states(sch.ID), []string{"01T09:00 ran", "02T09:00 ran", "03T09:00 ran"})
	})
}
