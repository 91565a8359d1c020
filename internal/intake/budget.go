package intake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Budget is what a day and a month may cost.
type Budget interface {
	Book() budget.Book
	// Set changes a cap in the settings, from the next turn on. key is
	// daily_tokens, monthly_tokens, daily_money or monthly_money; 0 is no cap.
	// It is safe to repeat.
	Set(ctx context.Context, key, value string) error
}

const budgetArgs = "[set AMOUNT [day|month]|once|today|hold|reset]"

func budgetWords(*engine.Tx, Call) ([]string, error) {
	return []string{"set 2m", "set 20m month", "set $2", "set off", "once", "today", "hold", "reset"}, nil
}

var errNoBudget = &mercury.Error{Kind: mercury.Invalid, Err: errors.New("no budget is kept here")}

// setBudget changes a cap before the reply is recorded: the settings are a
// file, which no transaction can hold.
func (i *Intake) setBudget(call Call) (any, error) {
	if i.opts.Budget == nil {
		return nil, errNoBudget
	}
	words := strings.Fields(strings.ToLower(call.Args))
	if len(words) == 0 || words[0] != "set" {
		return "", nil
	}
	key, value, err := readCap(words[1:])
	if err != nil {
		return nil, err
	}
	return key, i.opts.Budget.Set(call.Context, key, value)
}

// readCap reads an amount and its period, such as "2m month", "$5" or "off".
func readCap(words []string) (key, value string, err error) {
	period := "daily"
	if n := len(words); n > 1 {
		switch words[n-1] {
		case "month", "monthly":
			period, words = "monthly", words[:n-1]
		case "day", "daily":
			words = words[:n-1]
		}
	}
	bad := invalid(fmt.Sprintf("%q is no amount", strings.Join(words, " ")), "Say tokens, such as 500k or 2m, or money, such as $5; off is no cap.")
	if len(words) != 1 {
		return "", "", bad
	}
	text := words[0]
	if text == "off" {
		return period + "_tokens", "0", nil
	}
	if money, ok := strings.CutPrefix(text, "$"); ok {
		if money == "off" {
			return period + "_money", "0", nil
		}
		if v, err := strconv.ParseFloat(money, 64); err != nil || !(v >= 0 && v < 1e9) {
			return "", "", bad
		}
		return period + "_money", money, nil
	}
	factor := 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "m": 1e6} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, factor = rest, by
		}
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || !(v >= 0 && v*factor < 1e15) {
		return "", "", bad
	}
	return period + "_tokens", strconv.FormatInt(int64(v*factor), 10), nil
}

func (i *Intake) budget(tx *engine.Tx, call Call) (Reply, error) {
	if i.opts.Budget == nil {
		return Reply{}, errNoBudget
	}
	book := i.opts.Budget.Book()
	if key, _ := call.Found.(string); key != "" {
		return Reply{Text: "Set: budget." + key + " holds from the next step on. /budget shows it."}, nil
	}
	text, err := "", error(nil)
	switch strings.ToLower(strings.TrimSpace(call.Args)) {
	case "", "show":
		text, err = BudgetText(book, tx)
	case "once":
		text, err = "The next run that finds the budget used up goes on to its end.", book.Once(tx)
	case "today":
		text, err = "No budget until midnight. /budget hold ends that.", book.LiftToday(tx)
	case "hold":
		text, err = "The budget holds again.", book.Hold(tx)
	case "reset":
		text, err = "Counted anew from now on. What was used stays in /usage.", book.Reset(tx)
	default:
		return Reply{}, invalid(fmt.Sprintf("%q is not known here", call.Args), "Say set AMOUNT, once, today, hold or reset.")
	}
	if err == nil && call.Args != "" && call.Args != "show" {
		err = tx.Audit(store.AuditRow{Actor: call.Actor, Act: "budget", Subject: call.Conversation, Detail: call.Args})
	}
	return Reply{Text: text}, err
}

// BudgetText says what is used of each cap, and what was said about it.
func BudgetText(book budget.Book, tx store.Tx) (string, error) {
	states, err := book.States(tx)
	if err != nil {
		return "", err
	}
	if len(states) == 0 {
		return "There is no budget. /budget set 2m allows two million tokens a day.", nil
	}
	var b strings.Builder
	for _, s := range states {
		fmt.Fprintf(&b, "%s (%d%%)", s.Words(), s.Percent())
		if s.Unknown {
			b.WriteString(", and models whose price is not known")
		}
		b.WriteByte('\n')
	}
	lifted, err := book.Lifted(tx)
	if err != nil {
		return "", err
	}
	if lifted {
		b.WriteString("Until midnight nothing stops for it.")
	} else {
		fmt.Fprintf(&b, "From %d%% on answers are brief, at %d%% schedules stop, at %d%% I ask.", budget.Concise, budget.Warn, budget.Full)
	}
	return b.String(), nil
}
