package config

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	probeTimeout = 800 * time.Millisecond // a server on this machine answers in a few
	probeLimit   = 1 << 20                // bytes of a model list
)

// Found is a provider that could be used as it is.
type Found struct {
	Provider Known
	Key      Origin   // the variable that holds the key; zero for keyless servers
	Models   []string // what a local server offers; nil for others, which are not asked
	Model    string   // the proposal, written provider/model
}

// Discover looks for providers: first those whose key is in the environment or
// in .env of the home, without calling them, then keyless servers on this
// machine, asked for their models all at once, each for less than a second. A
// server that has no model to talk to is not found.
func Discover(ctx context.Context, src Source) []Found {
	env, _ := readEnvironment(src.Home, src.getenv())
	known := KnownProviders()
	if src.getenv()("MERCURY_DISCOVER") == "off" {
		known = slices.DeleteFunc(known, func(k Known) bool { return len(k.Env) == 0 })
	}
	return discover(ctx, env, known)
}

func discover(ctx context.Context, env *environment, known []Known) []Found {
	// Loopback is never reached through a proxy, and nothing is kept open.
	client := &http.Client{
		Timeout:   probeTimeout,
		Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	var keyed []Found
	locals := make([]*Found, len(known))
	var probes sync.WaitGroup
	for i, k := range known {
		if len(k.Env) > 0 {
			if _, origin, ok := k.key(env); ok {
				keyed = append(keyed, Found{Provider: k, Key: origin, Model: k.Name + "/" + k.Model})
			}
			continue
		}
		probes.Go(func() {
			models := probe(ctx, client, k.BaseURL)
			at := slices.IndexFunc(models, talks)
			if at >= 0 {
				locals[i] = &Found{Provider: k, Models: models, Model: k.Name + "/" + models[at]}
			}
		})
	}
	probes.Wait()
	for _, f := range locals {
		if f != nil {
			keyed = append(keyed, *f)
		}
	}
	return keyed
}

// talks reports whether a model's name is not that of one that only embeds,
// ranks or transcribes.
func talks(model string) bool {
	name := strings.ToLower(model)
	return !slices.ContainsFunc([]string{"embed", "rerank", "whisper", "bge-", "minilm"}, func(s string) bool { return strings.Contains(name, s) })
}

// probe returns the models that the server at base lists; nil when none
// answers in time with a list.
func probe(ctx context.Context, client *http.Client, base string) []string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, probeLimit)).Decode(&list) != nil {
		return nil
	}
	var models []string
	for _, m := range list.Data {
		if m.ID != "" {
			models = append(models, m.ID)
		}
	}
	return models
}

// Use makes f the model of c, for this process only.
func (c *Config) Use(f Found) {
	p, written := c.Providers[f.Provider.Name]
	if !written {
		p = Provider{API: f.Provider.API, BaseURL: f.Provider.BaseURL}
	}
	c.Providers[f.Provider.Name] = p
	c.Model = f.Model
	c.origins["model"] = Origin{Source: Discovered}
}
