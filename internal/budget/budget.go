// Package budget knows what a day and a month may cost, what they have cost so
// far, and what a person has said about it since. It reads the ledger, where
// every call of a model stands with what its provider reported; reserved calls
// count with the most they may cost, so that runs side by side share what is
// left. What a person allows for today lasts until midnight in the zone.
//
// Tokens are counted as Usage.Weight does. The caps in tokens hold for the main
// agent and what works for it; bots have caps of their own. Those in money
// cover all.
package budget

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Caps are what may be used. Zero is no cap.
type Caps struct {
	DailyTokens   int64
	MonthlyTokens int64
	DailyMoney    float64
	MonthlyMoney  float64
}

// Shares of a cap, in percent.
const (
	Concise = 70  // answers become brief
	Warn    = 80  // its person is told; what nobody waits for stops
	Full    = 100 // nothing more without a word
)

// A Book adds up what was used and says what is left. Its fields are set
// before it is used.
type Book struct {
	Caps  Caps
	Zone  *time.Location                                             // whose midnight counts; nil: the machine's
	Price func(provider, model string) (p catalog.Price, known bool) // nil: none is known
	Tally *Tally                                                     // nil: the ledger is read whole each time
}

// botPrefix begins the profiles of bots in the ledger.
const botPrefix = "bot/"

// A Period is a day or a month.
type Period string

const (
	Day   Period = "day"
	Month Period = "month"
)

// State is how much of one cap is used.
type State struct {
	Period  Period
	Key     string // of the day or month, such as 2026-12-01
	Money   bool   // in money, else in tokens
	Used    float64
	Cap     float64
	Unknown bool // money: some of it has no known price, and is not counted
}

// Percent is the used part of the cap, rounded down; 0 without a cap.
func (s State) Percent() int {
	if s.Cap <= 0 {
		return 0
	}
	return int(s.Used * 100 / s.Cap)
}

// Unit is what is counted: tokens, or a currency.
func (s State) Unit() string {
	if s.Money {
		return catalog.Currency()
	}
	return "tokens"
}

// Words say how much is used of how much.
func (s State) Words() string {
	what := "today"
	if s.Period == Month {
		what = "this month"
	}
	if s.Money {
		return fmt.Sprintf("%.2f of %.2f %s %s", s.Used, s.Cap, catalog.Currency(), what)
	}
	return fmt.Sprintf("%s of %s tokens %s", Number(int64(s.Used)), Number(int64(s.Cap)), what)
}

// Number writes n with a comma at each thousand.
func Number(n int64) string {
	text := fmt.Sprint(max(n, -n))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if n < 0 {
		return "-" + text
	}
	return text
}

// States returns every cap that is set with what is used of it.
func (b Book) States(tx store.Tx) ([]State, error) {
	var out []State
	for _, p := range []struct {
		period Period
		tokens int64
		money  float64
	}{{Day, b.Caps.DailyTokens, b.Caps.DailyMoney}, {Month, b.Caps.MonthlyTokens, b.Caps.MonthlyMoney}} {
		if p.tokens <= 0 && p.money <= 0 {
			continue
		}
		from, to, key := b.Span(p.period, tx.Now())
		from, err := since(tx, p.period, key, from)
		if err != nil {
			return nil, err
		}
		sums, err := b.Tally.sums(tx, from, to)
		if err != nil {
			return nil, fmt.Errorf("count what was used: %w", err)
		}
		if p.tokens > 0 {
			out = append(out, State{Period: p.period, Key: key, Used: float64(tokens(sums)), Cap: float64(p.tokens)})
		}
		if p.money > 0 {
			cost := b.costs(sums)
			out = append(out, State{Period: p.period, Key: key, Money: true, Used: cost.Money, Cap: p.money, Unknown: cost.Unpriced > 0})
		}
	}
	return out, nil
}

// Fullest is the state with the largest part used; the zero State without any.
func Fullest(states []State) (most State) {
	for _, s := range states {
		if most.Cap == 0 || s.Percent() > most.Percent() {
			most = s
		}
	}
	return most
}

// Span is the day or month of t in the book's zone.
func (b Book) Span(p Period, t time.Time) (from, to time.Time, key string) {
	zone := b.Zone
	if zone == nil {
		zone = time.Local
	}
	year, month, day := t.In(zone).Date()
	if p == Month {
		from = time.Date(year, month, 1, 0, 0, 0, 0, zone)
		return from, from.AddDate(0, 1, 0), from.Format("2006-01")
	}
	from = time.Date(year, month, day, 0, 0, 0, 0, zone)
	return from, time.Date(year, month, day+1, 0, 0, 0, 0, zone), from.Format(time.DateOnly)
}

// tokens is what counts against the caps of the main agent.
func tokens(sums map[spender]mercury.Usage) int64 {
	var used int64
	for who, u := range sums {
		if !strings.HasPrefix(who.profile, botPrefix) {
			used += u.Weight()
		}
	}
	return used
}

// costs is what all of it has cost in money.
func (b Book) costs(sums map[spender]mercury.Usage) (c Cost) {
	for who, u := range sums {
		c.add(b.Of(who.source, u))
	}
	return c
}

// Cost is what a span has cost in money.
type Cost struct {
	Money    float64 `json:"money"`
	Unpriced int64   `json:"unpriced_tokens,omitempty"` // tokens in and out whose price is not known
}

// Cost adds up what all calls of a span have cost.
func (b Book) Cost(tx store.Tx, from, to time.Time) (c Cost, err error) {
	sums, err := tx.SumUsage("source", from, to, b.Zone)
	if err != nil {
		return c, fmt.Errorf("count money: %w", err)
	}
	for _, s := range sums {
		c.add(b.Of(s.Group, s.Usage))
	}
	return c, nil
}

func (c *Cost) add(d Cost) { c.Money, c.Unpriced = c.Money+d.Money, c.Unpriced+d.Unpriced }

// Of is what usage of a model, written provider/model, costs.
func (b Book) Of(source string, u mercury.Usage) Cost {
	provider, model, _ := strings.Cut(source, "/")
	if b.Price != nil {
		if p, known := b.Price(provider, model); known {
			return Cost{Money: p.Of(u)}
		}
	}
	return Cost{Unpriced: u.Input + u.Output}
}

// metaPrefix begins the facts that persons have set.
const metaPrefix = "budget/"

// since is from when on a period is counted: its beginning, or when a person
// has set it back.
func since(tx store.Tx, p Period, key string, from time.Time) (time.Time, error) {
	value, err := fact(tx, "reset/"+string(p))
	if err != nil {
		return from, err
	}
	at, text, _ := strings.Cut(value, " ")
	if at != key {
		return from, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return from, nil
	}
	return t, nil
}

func fact(tx store.Tx, key string) (string, error) {
	value, err := tx.MetaValue(metaPrefix + key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("read what was said of the budget: %w", err)
	}
	return value, nil
}

// Reset counts the day and the month from now on anew. The ledger stays.
func (b Book) Reset(tx store.Tx) error {
	now := tx.Now()
	for _, p := range []Period{Day, Month} {
		_, _, key := b.Span(p, now)
		if err := tx.SetMeta(metaPrefix+"reset/"+string(p), key+" "+now.Format(time.RFC3339Nano)); err != nil {
			return fmt.Errorf("set the budget back: %w", err)
		}
	}
	return nil
}

// LiftToday lets everything go on until midnight, whatever it costs.
func (b Book) LiftToday(tx store.Tx) error {
	_, _, key := b.Span(Day, tx.Now())
	return tx.SetMeta(metaPrefix+"lifted", key)
}

// Hold ends what LiftToday and Once have allowed.
func (b Book) Hold(tx store.Tx) error {
	return errors.Join(tx.SetMeta(metaPrefix+"lifted", ""), tx.SetMeta(metaPrefix+"once", ""))
}

// Once lets the next run that finds the budget used up go on to its end.
func (b Book) Once(tx store.Tx) error { return tx.SetMeta(metaPrefix+"once", "next") }

// TakeOnce reports whether a run may go on beyond the budget because of Once,
// and makes it that run's alone.
func (b Book) TakeOnce(tx store.Tx, run string) (bool, error) {
	value, err := fact(tx, "once")
	switch {
	case err != nil:
		return false, err
	case value == run:
		return true, nil
	case value != "next":
		return false, nil
	}
	return true, tx.SetMeta(metaPrefix+"once", run)
}

// Lifted reports whether a person has said that today does not count.
func (b Book) Lifted(tx store.Tx) (bool, error) {
	value, err := fact(tx, "lifted")
	_, _, key := b.Span(Day, tx.Now())
	return value == key, err
}

// Crossed returns the shares of caps, of Warn and Full, that are reached and
// were not told yet, and marks them as told.
func (b Book) Crossed(tx store.Tx) (crossed []State, err error) {
	states, err := b.States(tx)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		level := 0
		switch percent := s.Percent(); {
		case percent >= Full:
			level = Full
		case percent >= Warn:
			level = Warn
		default:
			continue
		}
		name := fmt.Sprintf("told/%s/%t", s.Period, s.Money)
		mark := fmt.Sprintf("%s %d", s.Key, level)
		told, err := fact(tx, name)
		if err != nil {
			return nil, err
		}
		if told == mark || told == fmt.Sprintf("%s %d", s.Key, Full) {
			continue
		}
		if err := tx.SetMeta(metaPrefix+name, mark); err != nil {
			return nil, fmt.Errorf("mark the budget as told: %w", err)
		}
		crossed = append(crossed, s)
	}
	return crossed, nil
}

// Tight says in words why work that nobody waits for stops now; empty if it
// may go on.
func (b Book) Tight(tx store.Tx) (string, error) {
	states, err := b.States(tx)
	if err != nil {
		return "", err
	}
	s := Fullest(states)
	if s.Percent() < Warn {
		return "", nil
	}
	if lifted, err := b.Lifted(tx); err != nil || lifted {
		return "", err
	}
	return s.Words() + " are used; the rest is for people", nil
}
