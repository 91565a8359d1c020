package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
)

const (
	offerFresh = 6 * time.Hour    // how long a provider's list is taken from the cache
	offerWait  = 10 * time.Second // for one provider's list
)

// An Offer is what one provider says it has.
type Offer struct {
	Provider string    `json:"provider"`
	Title    string    `json:"title,omitempty"`
	Models   []string  `json:"models"` // by the provider's own names, in its order
	Asked    time.Time `json:"asked_at,omitzero"`
	Error    string    `json:"error,omitempty"` // why there is no list, in the provider's own words
}

// Offers asks providers what they have: those of the configuration, and the
// keyless servers of this machine that answer. With only, it asks that one
// alone. A list that was fetched within six hours is taken from files/models.json
// unless fresh is set. What fails is in its Offer; the error is for an unknown
// provider.
func Offers(ctx context.Context, c *config.Config, home config.Home, only string, fresh bool) ([]Offer, error) {
	titles := map[string]string{}
	for _, k := range config.KnownProviders() {
		titles[k.Name] = k.Title
	}
	names := slices.Sorted(maps.Keys(c.Providers))
	local := map[string]config.Found{}
	if _, configured := c.Providers[only]; only == "" || !configured {
		for _, f := range config.Discover(ctx, config.Source{Home: home}) {
			if _, written := c.Providers[f.Provider.Name]; f.Models != nil && !written {
				local[f.Provider.Name] = f
				names = append(names, f.Provider.Name)
			}
		}
	}
	if only != "" {
		if !slices.Contains(names, only) {
			return nil, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no provider %q here", only),
				Help: "These can be asked: " + cmp.Or(strings.Join(names, ", "), "none") + ". A known one needs its key in the environment or in .env; another one an entry below providers in mercury.yaml."}
		}
		names = []string{only}
	}
	cache := readOffers(home)
	offers := make([]Offer, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		if f, ok := local[name]; ok {
			offers[i] = Offer{Provider: name, Title: f.Provider.Title, Models: f.Models, Asked: time.Now()}
			continue
		}
		if kept, ok := cache[name]; ok && !fresh && time.Since(kept.Asked) < offerFresh && kept.Base == c.Providers[name].BaseURL {
			offers[i] = kept.Offer
			continue
		}
		asking.Go(func() {
			offers[i] = Offer{Provider: name, Title: titles[name], Models: []string{}, Asked: time.Now()}
			models, err := listModels(ctx, c, name)
			if err != nil {
				offers[i].Error = err.Error()
				if help := mercury.HelpOf(err); help != "" {
					offers[i].Error += ". " + help
				}
				return
			}
			offers[i].Models = models
		})
	}
	asking.Wait()
	keepOffers(home, c, cache, offers)
	return offers, nil
}

// listModels asks one provider of the configuration over its own wire.
func listModels(ctx context.Context, c *config.Config, name string) ([]string, error) {
	hide := newSecrets(c, "")
	transport, err := newTransport(c.HTTP)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	model, err := client(c, name, transport)
	if err != nil {
		return nil, err
	}
	lister, ok := model.(interface {
		Models(context.Context) ([]string, error)
	})
	if !ok {
		return nil, errors.New("it has no list of models")
	}
	ctx, cancel := context.WithTimeout(ctx, offerWait)
	defer cancel()
	models, err := lister.Models(ctx)
	return models, hide.hideIn(err)
}

// keptOffer is one line of the cache. Another address makes it stale.
type keptOffer struct {
	Offer
	Base string `json:"base_url"`
}

func offersFile(home config.Home) string { return filepath.Join(home.Files(), "models.json") }

// readOffers returns what was listed before. A cache that cannot be read is
// an empty one.
func readOffers(home config.Home) map[string]keptOffer {
	kept := map[string]keptOffer{}
	text, err := os.ReadFile(offersFile(home))
	if err != nil || json.Unmarshal(text, &kept) != nil {
		return map[string]keptOffer{}
	}
	return kept
}

func keepOffers(home config.Home, c *config.Config, cache map[string]keptOffer, offers []Offer) {
	changed := false
	for _, o := range offers {
		if p, ok := c.Providers[o.Provider]; ok && o.Error == "" && !cache[o.Provider].Asked.Equal(o.Asked) {
			cache[o.Provider], changed = keptOffer{o, p.BaseURL}, true
		}
	}
	text, err := json.Marshal(cache)
	if err != nil || !changed || !home.Exists() {
		return
	}
	// Without the cache the list is asked for again next time; nothing is lost.
	if os.MkdirAll(home.Files(), 0o700) == nil {
		_ = atomicfile.Write(offersFile(home), text, 0o600)
	}
}

// ResolveModel returns the model that a person means by name, written
// provider/model: as it stands where the provider is known, else the one
// provider that was seen to list a model of that name. It asks nobody.
func ResolveModel(c *config.Config, home config.Home, name string) (string, error) {
	provider, _, ok := config.SplitModel(name)
	if ok {
		if _, configured := c.Providers[provider]; configured || slices.ContainsFunc(config.KnownProviders(), func(k config.Known) bool { return k.Name == provider }) {
			return name, nil
		}
	}
	var have []string
	for provider, kept := range readOffers(home) {
		if slices.Contains(kept.Models, name) {
			have = append(have, provider+"/"+name)
		}
	}
	slices.Sort(have)
	switch {
	case len(have) == 1:
		return have[0], nil
	case len(have) > 1:
		return "", &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("several providers have %q", name), Help: "Say which: " + strings.Join(have, " or ") + "."}
	}
	return "", &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("no provider here is known to have %q", name),
		Help: "Write it as provider/model; `mercury models list` shows what there is."}
}
