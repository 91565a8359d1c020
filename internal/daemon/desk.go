package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// modelDesk is where conversations ask about models.
type modelDesk struct {
	home   config.Home
	config func() *config.Config // the one in use
}

// listedModels is how many names of one provider a chat is shown.
const listedModels = 12

func (d modelDesk) Answering() []string {
	c := d.config()
	return append([]string{c.Model}, c.Fallbacks...)
}

func (d modelDesk) Known() []string {
	kept := readOffers(d.home)
	var names []string
	for _, provider := range slices.Sorted(maps.Keys(kept)) {
		for _, m := range kept[provider].Models {
			names = append(names, provider+"/"+m)
		}
	}
	return names
}

// List shows every name of one provider, or the first of each.
func (d modelDesk) List(ctx context.Context, provider string) (string, error) {
	c := d.config()
	offers, err := Offers(ctx, c, d.home, strings.ToLower(strings.TrimSpace(provider)), false)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, o := range offers {
		if o.Error != "" {
			fmt.Fprintf(&b, "%s: %s\n", o.Provider, o.Error)
			continue
		}
		fmt.Fprintf(&b, "%s, %s:\n", o.Provider, mercury.Count(len(o.Models), "model", "models"))
		shown := o.Models
		if provider == "" && len(shown) > listedModels {
			shown = shown[:listedModels]
		}
		for _, m := range shown {
			mark := ""
			if o.Provider+"/"+m == c.Model {
				mark = " (answers now)"
			}
			fmt.Fprintf(&b, "  %s/%s%s\n", o.Provider, m, mark)
		}
		if len(shown) < len(o.Models) {
			fmt.Fprintf(&b, "  and %d more: /models %s\n", len(o.Models)-len(shown), o.Provider)
		}
	}
	if b.Len() == 0 {
		return "No provider was found. A key in the environment or a model server on this machine is found by itself.", nil
	}
	b.WriteString("/model NAME lets another one answer.")
	return b.String(), nil
}

// Use writes the name into mercury.yaml, which the house takes up by itself.
// The next turn shows whether the model answers.
func (d modelDesk) Use(ctx context.Context, name string) (string, error) {
	name = strings.TrimSpace(name)
	full, err := ResolveModel(d.config(), d.home, name)
	if mercury.KindOf(err) == mercury.NotFound {
		if _, err := Offers(ctx, d.config(), d.home, "", false); err != nil {
			return "", err
		}
		full, err = ResolveModel(d.config(), d.home, name)
	}
	name = full
	if err != nil {
		return "", err
	}
	src := config.Source{Home: d.home, Flags: map[string]string{"model": name}}
	c, err := config.Load(src)
	if err != nil {
		return "", err
	}
	if err := c.Configured(); err != nil {
		return "", err
	}
	_, err = config.Set(src, "model", name)
	return name, err
}
