package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Groups are what usage can be shown by, as a person says it.
var Groups = []string{"model", "bot", "conversation", "day", "purpose"}

// A Line is what one group has used.
type Line struct {
	Group string        `json:"group" doc:"provider/model, name of the bot, id of the conversation, date or purpose"`
	Calls int64         `json:"calls"`
	Usage mercury.Usage `json:"usage"`
	Cost
}

// Report is what a span of time has used.
type Report struct {
	By       string    `json:"by"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Currency string    `json:"currency"`
	Lines    []Line    `json:"lines"`
	Total    Line      `json:"total"`
}

// Report adds up the calls of a span by model, bot, conversation, day or
// purpose: days in order, the others with the largest first.
func (b Book) Report(tx store.Tx, by string, from, to time.Time) (Report, error) {
	r := Report{By: by, From: from, To: to, Currency: catalog.Currency(), Total: Line{Group: "total"}}
	var err error
	switch by {
	case "model":
		r.Lines, err = b.lines(tx, "source", from, to, func(group string) (string, string) { return group, group })
	case "bot":
		r.Lines, err = b.lines(tx, "profile source", from, to, apart)
	case "conversation", "purpose":
		r.Lines, err = b.lines(tx, by+" source", from, to, apart)
	case "day":
		for at := from; at.Before(to) && err == nil; {
			begin, end, key := b.Span(Day, at)
			var day []Line
			day, err = b.lines(tx, "source", later(from, begin), earlier(to, end), func(group string) (string, string) { return key, group })
			r.Lines = append(r.Lines, day...)
			at = end
		}
	default:
		return r, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("usage cannot be shown by %q", by), Help: "By " + strings.Join(Groups, ", ") + "."}
	}
	if err != nil {
		return r, err
	}
	for _, l := range r.Lines {
		r.Total.include(l.Calls, l.Usage, l.Cost)
	}
	if by != "day" {
		slices.SortStableFunc(r.Lines, func(a, b Line) int {
			return cmp.Or(cmp.Compare(b.Usage.Weight(), a.Usage.Weight()), strings.Compare(a.Group, b.Group))
		})
	}
	return r, nil
}

func (l *Line) include(calls int64, u mercury.Usage, c Cost) {
	l.Calls += calls
	l.Usage = l.Usage.Add(u)
	l.Cost.add(c)
}

// lines sums a span; of says of a group of the store which line it belongs to
// and which model it is about.
func (b Book) lines(tx store.Tx, by string, from, to time.Time, of func(group string) (line, source string)) ([]Line, error) {
	sums, err := tx.SumUsage(by, from, to, b.Zone)
	if err != nil {
		return nil, fmt.Errorf("sum usage: %w", err)
	}
	var lines []Line
	at := map[string]int{}
	for _, s := range sums {
		name, source := of(s.Group)
		i, ok := at[name]
		if !ok {
			i, at[name] = len(lines), len(lines)
			lines = append(lines, Line{Group: name})
		}
		lines[i].include(s.Calls, s.Usage, b.Of(source, s.Usage))
	}
	return lines, nil
}

// apart divides a group of the store that is both; a model's name has no space.
func apart(group string) (line, source string) {
	i := strings.LastIndexByte(group, ' ')
	return group[:i], group[i+1:]
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Forecast is what a month will have used at its end if it goes on as so far.
type Forecast struct {
	Tokens int64   `json:"tokens" doc:"cached input counts a tenth"`
	Money  float64 `json:"money"`
}

// leastPast is how much of a month must be over before it is told ahead.
const leastPast = 12 * time.Hour

// Ahead tells the month of now ahead from what it has used; false while too
// little of it is over.
func (b Book) Ahead(tx store.Tx, now time.Time) (Forecast, bool, error) {
	from, to, _ := b.Span(Month, now)
	past := now.Sub(from)
	if past < leastPast {
		return Forecast{}, false, nil
	}
	r, err := b.Report(tx, "model", from, now)
	if err != nil {
		return Forecast{}, false, err
	}
	whole := float64(to.Sub(from)) / float64(past)
	return Forecast{Tokens: int64(float64(r.Total.Usage.Weight()) * whole), Money: r.Total.Money * whole}, true, nil
}
