package budget_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// ledger is a store to which calls are added.
type ledger struct {
	store.Store
	t *testing.T
	n int
}

func open(t *testing.T) *ledger {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &ledger{Store: s, t: t}
}

func (l *ledger) put(profile, source string, at time.Time, u mercury.Usage) {
	l.t.Helper()
	l.n++
	l.update(func(tx store.Tx) error {
		return tx.PutLedger(store.LedgerRow{ID: fmt.Sprint("lg_", l.n), Profile: profile, Purpose: "turn", Provider: source[:3], Model: source[4:],
			State: "settled", Usage: u, At: at})
	})
}

func (l *ledger) update(fn func(store.Tx) error) {
	l.t.Helper()
	if err := l.Update(l.t.Context(), fn); err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) states(b budget.Book) (states []budget.State) {
	l.t.Helper()
	l.update(func(tx store.Tx) (err error) { states, err = b.States(tx); return err })
	return states
}

func prices(_, model string) (catalog.Price, bool) {
	return catalog.Price{Input: 10, Output: 20}, model == "priced"
}

func TestWhatIsUsedCountsAgainstEachCap(t *testing.T) {
	l, now := open(t), time.Now()
	l.put("main", "one/priced", now, mercury.Usage{Input: 90_000, Cached: 50_000, Output: 5_000})
	l.put("bot/b", "one/priced", now, mercury.Usage{Input: 100_000})
	l.put("main", "two/other", now, mercury.Usage{Input: 7})
	l.put("main", "one/priced", now.AddDate(0, 0, -40), mercury.Usage{Input: 1_000_000})
	b := budget.Book{Caps: budget.Caps{DailyTokens: 100_000, DailyMoney: 4}, Price: prices}
	states := l.states(b)
	if len(states) != 2 {
		t.Fatalf("%+v", states)
	}
	if tokens := states[0]; tokens.Used != 50_007 || tokens.Percent() != 50 {
		t.Errorf("tokens: %+v", tokens)
	}
	if money := states[1]; math.Abs(money.Used-2.0) > 1e-9 || !money.Unknown || money.Percent() != 50 {
		t.Errorf("money: %+v", money)
	}
}

func TestADayBeginsAtMidnightInTheZone(t *testing.T) {
	zone := time.FixedZone("far", 14*3600)
	b := budget.Book{Zone: zone}
	from, to, key := b.Span(budget.Day, time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC))
	if key != "2026-03-02" || from.UTC().Hour() != 10 || to.Sub(from) != 24*time.Hour {
		t.Errorf("%v to %v, %s", from, to, key)
	}
	if _, _, key := b.Span(budget.Month, time.Date(2026, 2, 28, 10, 0, 0, 0, time.UTC)); key != "2026-03" {
		t.Errorf("month %s", key)
	}
}

func TestEachThresholdIsToldOnce(t *testing.T) {
	l := open(t)
	b := budget.Book{Caps: budget.Caps{DailyTokens: 100}}
	crossed := func() (n int) {
		l.update(func(tx store.Tx) error {
			states, err := b.Crossed(tx)
			n = len(states)
			return err
		})
		return n
	}
	for i, want := range []int{0, 1, 0, 1, 0} {
		l.put("main", "one/m", time.Now(), mercury.Usage{Input: []int64{79, 1, 5, 15, 50}[i]})
		if got := crossed(); got != want {
			t.Errorf("after call %d: told %d times, want %d", i, got, want)
		}
	}
}

func TestWhatAPersonAllowsHoldsAsLongAsTheySaid(t *testing.T) {
	l := open(t)
	b := budget.Book{Caps: budget.Caps{DailyTokens: 100}}
	l.put("main", "one/m", time.Now(), mercury.Usage{Input: 200})
	tight := func() (why string) {
		l.update(func(tx store.Tx) (err error) { why, err = b.Tight(tx); return err })
		return why
	}
	once := func(run string) (ok bool) {
		l.update(func(tx store.Tx) (err error) { ok, err = b.TakeOnce(tx, run); return err })
		return ok
	}
	if tight() == "" || once("run_1") {
		t.Error("a budget that is used up holds nobody back")
	}
	l.update(b.Once)
	first, again, other := once("run_1"), once("run_1"), once("run_2")
	if !first || !again || other {
		t.Error("once is not for one run")
	}
	l.update(b.LiftToday)
	if tight() != "" {
		t.Error("today still counts")
	}
	l.update(b.Hold)
	if tight() == "" || once("run_1") {
		t.Error("what was allowed does not end")
	}
	l.update(b.Reset)
	if states := l.states(b); states[0].Used != 0 {
		t.Errorf("after a reset %+v", states)
	}
}
