package budget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func (l *ledger) report(b budget.Book, by string, from, to time.Time) (r budget.Report) {
	l.t.Helper()
	l.update(func(tx store.Tx) (err error) { r, err = b.Report(tx, by, from, to); return err })
	return r
}

func TestUsageIsTheSameSumWhateverItIsShownBy(t *testing.T) {
	l := open(t)
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	l.put("main", "one/priced", noon, mercury.Usage{Input: 1000, Output: 100})
	l.put("main", "two/other", noon.AddDate(0, 0, -1), mercury.Usage{Input: 300, Cached: 200})
	l.put("bot/b", "one/priced", noon, mercury.Usage{Input: 50, Estimated: true})
	b := budget.Book{Zone: time.UTC, Price: prices}
	from, to := noon.AddDate(0, 0, -2), noon.AddDate(0, 0, 1)
	for by, want := range map[string]string{
		"model":        "one/priced 1150, two/other 120",
		"bot":          "main 1220, bot/b 50",
		"purpose":      "turn 1270",
		"conversation": " 1270",
		"day":          "2026-03-02 120, 2026-03-03 1150",
	} {
		r := l.report(b, by, from, to)
		var got []string
		for _, line := range r.Lines {
			got = append(got, fmt.Sprint(line.Group, " ", line.Usage.Weight()))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("by %s: %v, want %s", by, got, want)
		}
		if tot := r.Total; tot.Calls != 3 || tot.Usage.Input != 1350 || tot.Unpriced != 300 || tot.Money != 0.0125 || !tot.Usage.Estimated {
			t.Errorf("by %s: total %+v", by, tot)
		}
	}
	if bars := l.report(b, "day", from, to).Bars(10); bars != "2026-03-02  █           120\n2026-03-03  ██████████  1,150\n" {
		t.Errorf("drawn as\n%s", bars)
	}
}

func TestAMonthIsToldAheadOnceAnythingOfItIsKnown(t *testing.T) {
	l := open(t)
	b := budget.Book{Zone: time.UTC, Price: prices}
	l.put("main", "one/priced", time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC), mercury.Usage{Input: 3000})
	ahead := func(now time.Time) (f budget.Forecast, ok bool) {
		l.update(func(tx store.Tx) (err error) { f, ok, err = b.Ahead(tx, now); return err })
		return f, ok
	}
	if _, ok := ahead(time.Date(2026, 4, 1, 1, 0, 0, 0, time.UTC)); ok {
		t.Error("an hour tells the month")
	}
	if f, ok := ahead(time.Date(2026, 4, 11, 0, 0, 0, 0, time.UTC)); !ok || f.Tokens != 9000 {
		t.Errorf("%+v, %v", f, ok)
	}
}
