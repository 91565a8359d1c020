package budget

import (
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm/catalog"
)

// Price words what tokens have cost: money where prices are known, and that
// they are not where they are not.
func (c Cost) String() string {
	money := fmt.Sprintf("%.2f %s", c.Money, catalog.Currency())
	switch {
	case c.Unpriced == 0:
		return money
	case c.Money == 0:
		return "price unknown"
	}
	return money + " and more, price unknown"
}

// Bars draws the lines of a report one below the other, width characters for
// the longest.
func (r Report) Bars(width int) string {
	var most int64
	long := 0
	for _, l := range r.Lines {
		most = max(most, l.Usage.Weight())
		long = max(long, len([]rune(l.Group)))
	}
	var b strings.Builder
	for _, l := range r.Lines {
		n := 0
		if w := l.Usage.Weight(); most > 0 && w > 0 {
			n = max(1, int(w*int64(width)/most))
		}
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", long, l.Group, width, strings.Repeat("█", n), Number(l.Usage.Weight()))
	}
	return b.String()
}
