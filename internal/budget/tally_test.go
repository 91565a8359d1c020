package budget_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// watched is a transaction at a moment of the test's choice, which remembers
// from when on the ledger was read.
type watched struct {
	store.Tx
	now   time.Time
	since *time.Time
}

func (w watched) Now() time.Time { return w.now }

func (w watched) SumUsage(by string, from, to time.Time, zone *time.Location) ([]store.UsageSum, error) {
	*w.since = from
	return w.Tx.SumUsage(by, from, to, zone)
}

func TestATallyCountsWhatTheLedgerDoesAndReadsOnlyWhatIsNew(t *testing.T) {
	l := open(t)
	b := budget.Book{Caps: budget.Caps{DailyTokens: 1_000_000, MonthlyTokens: 10_000_000, MonthlyMoney: 50}, Zone: time.UTC, Price: prices}
	tallied := b
	tallied.Tally = &budget.Tally{}
	noon := time.Date(2026, 12, 10, 12, 0, 0, 0, time.UTC)
	row := func(n int, state string, at time.Time, tokens int64) {
		l.update(func(tx store.Tx) error {
			return tx.PutLedger(store.LedgerRow{ID: fmt.Sprint("lg_", n), Profile: []string{"main", "bot/b"}[n%2], Purpose: "turn",
				Provider: "one", Model: []string{"priced", "other"}[n/2%2], State: state, Usage: mercury.Usage{Input: tokens, Output: 1}, At: at})
		})
	}
	// look compares both books, and tells how long before now the tally read.
	look := func(now time.Time) (read time.Duration) {
		t.Helper()
		l.update(func(tx store.Tx) error {
			var whole, since time.Time
			want, err := b.States(watched{tx, now, &whole})
			if err != nil {
				return err
			}
			got, err := tallied.States(watched{tx, now, &since})
			if !reflect.DeepEqual(got, want) {
				t.Errorf("at %s: %+v, want %+v", now, got, want)
			}
			read = now.Sub(since)
			return err
		})
		return read
	}
	for n := range 20 {
		row(n, "settled", noon.Add(-time.Duration(n)*17*time.Minute), int64(100*n))
	}
	if read := look(noon); read > 10*time.Minute {
		t.Errorf("it read %s back", read)
	}
	// A call that hangs holds its place until it is settled.
	row(100, "reserved", noon, 5000)
	for n := range 6 {
		at := noon.Add(time.Duration(n) * 9 * time.Minute)
		row(200+n, "settled", at.Add(time.Second), 70)
		look(at.Add(time.Minute))
	}
	later := noon.Add(time.Hour)
	if read := look(later); read != time.Hour {
		t.Errorf("it read %s back, want to the call that hangs", read)
	}
	row(100, "settled", noon, 3)
	if read := look(later); read > 10*time.Minute {
		t.Errorf("it read %s back", read)
	}
	// The clock goes back, and calls come into what was counted already.
	back := later.Add(-40 * time.Minute)
	row(300, "settled", back, 4000)
	look(back)
	look(later)
	row(301, "settled", later, 1)
	look(later.Add(11 * time.Minute))
	// The next day and month begin with nothing.
	look(noon.AddDate(0, 0, 1))
	look(noon.AddDate(0, 1, 0))
}
