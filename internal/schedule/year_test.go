package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// A gap is a stretch of wall clock time in which nothing could act: Mercury
// was not running, the machine slept, or the clock was set over it.
type gap struct{ from, to time.Time }

func TestAYearOfFortySchedulesLosesAndDoublesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Zone: oslo(t), Keep: 1 << 30})
		zones := []string{"", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Auckland"}
		whens := []string{"0 8 * * *", "30 2 * * *", "0 9 * * 1-5", "first monday of the month at 10:30", "every 3 days at 7", "0 0 L * *", "every 11h", "15 1 * * 0"}
		missed := []string{"once", "skip", "within 30m"}
		var all []store.Schedule
		for i := range 40 {
			d := Draft{Name: fmt.Sprint(i), When: whens[i%len(whens)], Zone: zones[i%len(zones)], Missed: missed[i%len(missed)], Send: "hello"}
			switch {
			case i == 0:
				d.When = "0 */3 * * *"
			case i%10 == 3:
				d.Send, d.Prompt = "", "what is new?"
			case i%10 == 5:
				d.Jitter = "10m"
			}
			all = append(all, r.add(d))
		}
		begun := r.clock.Now()
		random := rand.New(rand.NewPCG(7, 11))
		var gaps []gap
		down := func(away func()) {
			from := r.clock.Now()
			away()
			gaps = append(gaps, gap{from, r.clock.Now()})
		}
		r.start()
		for end := time.Now().AddDate(1, 0, 0); time.Now().Before(end); {
			time.Sleep(time.Duration(random.IntN(14*24)) * time.Hour)
			time.Sleep(time.Duration(random.IntN(3600)) * time.Second)
			long := time.Duration(1+random.IntN(3000)) * time.Minute
			switch random.IntN(4) {
			case 0: // a restart that takes a while
				down(func() { r.stop(); time.Sleep(long) })
				r.start()
			case 1: // a restart
				down(func() { r.stop() })
				r.start()
			case 2: // a sleep, or the clock set forward
				down(func() { r.clock.move(long) })
			case 3: // the clock set back; what was due then has been
				r.clock.move(-time.Duration(1+random.IntN(90)) * time.Minute)
			}
			synctest.Wait()
		}
		time.Sleep(3 * time.Hour) // past what the clock was set back by
		r.stop()
		ended := r.clock.Now()
		total := 0
		for _, sch := range all {
			total += judge(t, r, sch, begun, ended, gaps)
		}
		if total < 12_000 {
			t.Errorf("only %d occurrences", total)
		}
		t.Logf("%d occurrences, %d gaps, %d turns", total, len(gaps), r.turns.Load())
	})
}

// judge compares the rows of a schedule with its timetable: each time has one
// row, was acted upon at its instant, or lies in a gap.
func judge(t *testing.T, r *rig, sch store.Schedule, begun, ended time.Time, gaps []gap) int {
	t.Helper()
	table, err := r.schedules.table(sch)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int64]store.Occurrence{}
	for _, o := range r.rows(sch.ID) {
		if _, twice := rows[o.DueAt.UnixMicro()]; twice {
			t.Errorf("%s: %v has two rows", sch.Spec, o.DueAt)
		}
		rows[o.DueAt.UnixMicro()] = o
	}
	n := 0
	for due := table.Next(begun); due.Add(jitter(sch, due)).Before(ended); due = table.Next(due) {
		n++
		o, ok := rows[due.UnixMicro()]
		delete(rows, due.UnixMicro())
		if !ok {
			t.Errorf("%s: %v has no row", sch.Spec, due)
			continue
		}
		at := due.Add(jitter(sch, due))
		inGap := false
		for _, g := range gaps {
			inGap = inGap || !at.Before(g.from) && !at.After(g.to)
		}
		// Rows bear the database's time; the clock of the test runs beside it.
		switch {
		case o.State == store.OccurrenceRan && o.Reason == "":
		case !inGap:
			t.Errorf("%s: %v was %s (%s) though nothing was in its way", sch.Spec, due, o.State, o.Reason)
		case o.Reason == "":
			t.Errorf("%s: %v was %s without a reason", sch.Spec, due, o.State)
		}
		if late := o.At.Sub(at); o.State == store.OccurrenceRan && (late < 0 || late > r.schedules.opts.Grace) {
			t.Errorf("%s: %v ran %v after its instant", sch.Spec, due, late)
		}
		if o.EndedAt.IsZero() {
			t.Errorf("%s: %v never ended", sch.Spec, due)
		}
	}
	for _, o := range rows {
		t.Errorf("%s: a row for %v, which is no time of it", sch.Spec, o.DueAt)
	}
	return n
}
