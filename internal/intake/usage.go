package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Anatomy takes the next request of a conversation apart.
type Anatomy func(ctx context.Context, conversation string) (agent.Anatomy, error)

func usageWords(*engine.Tx, Call) ([]string, error) { return budget.Groups, nil }

// usage is what today and this month have used, by model or as asked.
func (i *Intake) usage(tx *engine.Tx, call Call) (Reply, error) {
	if i.opts.Budget == nil {
		return Reply{}, errNoBudget
	}
	by := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(call.Args, "by ")))
	if by == "" {
		by = "model"
	}
	if !slices.Contains(budget.Groups, by) {
		return Reply{}, invalid(fmt.Sprintf("usage cannot be shown by %q", by), "Say "+strings.Join(budget.Groups, ", ")+".")
	}
	text, err := UsageText(i.opts.Budget.Book(), tx, by)
	return Reply{Text: text}, err
}

// mostLines is how many groups of a month a chat is shown.
const mostLines = 10

// UsageText says what today and the month have used, by a group, and what the
// month will have used at its end.
func UsageText(book budget.Book, tx store.Tx, by string) (string, error) {
	now := tx.Now()
	from, to, _ := book.Span(budget.Day, now)
	today, err := book.Report(tx, "model", from, to)
	if err != nil {
		return "", err
	}
	from, _, _ = book.Span(budget.Month, now)
	month, err := book.Report(tx, by, from, to)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Today: %s\nThis month: %s", usageLine(today.Total), usageLine(month.Total))
	if ahead, ok, err := book.Ahead(tx, now); err != nil {
		return "", err
	} else if ok && ahead.Tokens > 0 {
		fmt.Fprintf(&b, "\nAt its end, if it goes on like this: about %s tokens", budget.Number(ahead.Tokens))
		if ahead.Money > 0 {
			fmt.Fprintf(&b, ", %.2f %s", ahead.Money, month.Currency)
		}
		b.WriteByte('.')
	}
	for n, l := range month.Lines {
		if n == 0 {
			fmt.Fprintf(&b, "\n\nThis month by %s:", by)
		}
		if n == mostLines {
			fmt.Fprintf(&b, "\n  and %d more: mercury usage --by %s", len(month.Lines)-n, by)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s", l.Group, usageLine(l))
	}
	return b.String(), nil
}

func usageLine(l budget.Line) string {
	text := fmt.Sprintf("%s, %s tokens in", mercury.Count(l.Calls, "call", "calls"), budget.Number(l.Usage.Input))
	if l.Usage.Cached > 0 {
		text += fmt.Sprintf(" (%s from a cache)", budget.Number(l.Usage.Cached))
	}
	text += fmt.Sprintf(", %s out", budget.Number(l.Usage.Output))
	if l.Usage.Estimated {
		text += ", some of it estimated"
	}
	if l.Calls > 0 {
		text += ", " + l.Cost.String()
	}
	return text
}

func (i *Intake) takeApart(call Call) (any, error) {
	if i.opts.Anatomy == nil {
		return nil, invalid("what is sent cannot be looked at here", "")
	}
	a, err := i.opts.Anatomy(call.Context, call.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return a, err
}

func (i *Intake) context(_ *engine.Tx, call Call) (Reply, error) {
	a, ok := call.Found.(agent.Anatomy)
	if !ok {
		return Reply{Text: "Nothing has been said here yet."}, nil
	}
	return Reply{Text: a.Words()}, nil
}
