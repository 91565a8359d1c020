package daemon

import (
	"context"
	"net"
	"net/url"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm/catalog"
)

// treasury is what a day and a month may cost, by the configuration in use.
type treasury struct {
	home    config.Home
	current *current
}

func (t treasury) Book() budget.Book { return t.current.now.Load().book() }

// Set writes a cap into mercury.yaml, which the house takes up by itself.
func (t treasury) Set(_ context.Context, key, value string) error {
	_, err := config.Set(config.Source{Home: t.home}, "budget."+key, value)
	return err
}

func (p *profiles) book() budget.Book {
	b := p.config.Budget
	return budget.Book{
		Caps: budget.Caps{DailyTokens: b.DailyTokens, MonthlyTokens: b.MonthlyTokens, DailyMoney: b.DailyMoney, MonthlyMoney: b.MonthlyMoney},
		Zone: p.zone, Price: func(provider, model string) (catalog.Price, bool) { return price(p.config, provider, model) },
		Tally: p.tally,
	}
}

// price is what a model costs: as configured, nothing where it runs on this
// machine, else as the table of models has it.
func price(c *config.Config, provider, model string) (catalog.Price, bool) {
	if own, ok := c.Prices[provider+"/"+model]; ok {
		return catalog.Price{Input: own.Input, CachedInput: own.CachedInput, Output: own.Output}, true
	}
	if p, ok := c.Providers[provider]; ok && here(p.BaseURL) {
		return catalog.Price{}, true
	}
	known, ok := catalog.Find(model)
	return known.Price, ok && known.Known()
}

// here reports whether an address is one of this machine.
func here(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
