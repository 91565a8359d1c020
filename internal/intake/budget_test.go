package intake

import (
	"context"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/budget"
)

type purse struct{ key, value string }

func (p *purse) Book() budget.Book { return budget.Book{Caps: budget.Caps{DailyTokens: 1_000_000}} }

func (p *purse) Set(_ context.Context, key, value string) error {
	p.key, p.value = key, value
	return nil
}

func TestTheBudgetIsShownSetLiftedAndHeld(t *testing.T) {
	p := &purse{}
	h := newHouse(t, Options{Budget: p})
	for said, want := range map[string]struct{ reply, key, value string }{
		"/budget":                {"0 of 1,000,000 tokens today (0%)", "", ""},
		"/budget set 2m":         {"budget.daily_tokens", "daily_tokens", "2000000"},
		"/budget set 1.5M month": {"budget.monthly_tokens", "monthly_tokens", "1500000"},
		"/budget set $5 day":     {"budget.daily_money", "daily_money", "5"},
		"/budget set off":        {"budget.daily_tokens", "daily_tokens", "0"},
		"/budget set plenty":     {"no amount", "", ""},
		"/budget set -5":         {"no amount", "", ""},
		"/budget once":           {"goes on to its end", "", ""},
		"/budget today":          {"until midnight", "", ""},
		"/budget hold":           {"holds again", "", ""},
		"/budget reset":          {"Counted anew", "", ""},
		"/budget burn":           {"not known here", "", ""},
	} {
		*p = purse{}
		if r := h.say(said); !strings.Contains(r.Reply, want.reply) || p.key != want.key || p.value != want.value {
			t.Errorf("%s: %q, set %q to %q", said, r.Reply, p.key, p.value)
		}
	}
	if r := h.accept(h.from("ben", "/budget today")); !strings.Contains(r.Reply, "no permission") {
		t.Errorf("a member: %q", r.Reply)
	}
}
