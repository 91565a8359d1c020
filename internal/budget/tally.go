package budget

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// settling is how old a row of the ledger is before a Tally takes it as it
// stands: longer than another process takes to commit one, or its clock is off.
const settling = time.Minute

// A Tally remembers what the settled past of a day or month adds up to, so
// that a look at the budget reads only the last minutes of the ledger and costs
// the same at a month's end as at its beginning. A row that is still reserved,
// and what came after it, is read each time. The zero Tally is ready; its
// readers may be several goroutines.
type Tally struct {
	mu   sync.Mutex
	past map[int64]past // by the beginning of the span, in microseconds
}

// past is what was used before a moment.
type past struct {
	until time.Time
	sums  map[spender]mercury.Usage
}

// A spender is who used which model: a profile, and provider/model.
type spender struct{ profile, source string }

// maxSpans is how many beginnings of spans are remembered: a day, a month and
// those that a person set back meanwhile.
const maxSpans = 8

// sums adds up [from, to) of the ledger. A nil Tally reads all of it.
func (t *Tally) sums(tx store.Tx, from, to time.Time) (map[spender]mercury.Usage, error) {
	if t == nil {
		all := map[spender]mercury.Usage{}
		return all, addUsage(all, tx, from, to)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, err := t.advance(tx, from)
	if err != nil {
		return nil, err
	}
	sums := maps.Clone(before.sums)
	return sums, addUsage(sums, tx, before.until, to)
}

// advance returns what is remembered of the span that begins at from, after it
// has taken in what has settled since. The lock is held.
func (t *Tally) advance(tx store.Tx, from time.Time) (past, error) {
	p, known := t.past[from.UnixMicro()]
	edge := tx.Now().Add(-settling)
	if !known || tx.Now().Before(p.until) { // the clock went back: what comes now counts too
		delete(t.past, from.UnixMicro())
		p = past{until: from, sums: map[spender]mercury.Usage{}}
	}
	if edge.Sub(p.until) < settling {
		return p, nil
	}
	open, found, err := tx.FirstReserved(p.until, edge)
	if err != nil {
		return p, err
	}
	if found {
		edge = open
	}
	if err := addUsage(p.sums, tx, p.until, edge); err != nil {
		delete(t.past, from.UnixMicro()) // its sums may be half of it
		return p, err
	}
	p.until = edge
	if t.past == nil || len(t.past) >= maxSpans {
		t.past = map[int64]past{}
	}
	t.past[from.UnixMicro()] = p
	return p, nil
}

// addUsage adds what was used in [from, to).
func addUsage(sums map[spender]mercury.Usage, tx store.Tx, from, to time.Time) error {
	rows, err := tx.SumUsage("profile source", from, to, nil)
	for _, r := range rows {
		profile, source, _ := strings.Cut(r.Group, " ")
		who := spender{profile, source}
		sums[who] = sums[who].Add(r.Usage)
	}
	return err
}
