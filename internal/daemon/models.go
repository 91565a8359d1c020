package daemon

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/anthropic"
	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/llm/openai"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// models builds the chain of the configured model and its fallbacks.
func models(c *config.Config, transport http.RoundTripper, breaker *llm.Breaker) (*llm.Chain, error) {
	var chain []llm.Model
	for _, name := range append([]string{c.Model}, c.Fallbacks...) {
		provider, model, ok := config.SplitModel(name)
		if !ok {
			return nil, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("model %q has no provider", name),
				Help: "Write it as provider/model, such as openai/gpt-5-mini."}
		}
		client, err := client(c, provider, transport)
		if err != nil {
			if len(chain) > 0 { // a fallback whose key is missing is no reason not to start
				continue
			}
			return nil, err
		}
		chain = append(chain, llm.Model{Provider: provider, Name: model, Client: client})
	}
	return llm.NewChain(chain, llm.ChainOptions{Breaker: breaker}), nil
}

// window is the size of a model's window: as configured, else as the table of
// models has it; 0 if nobody knows.
func window(p config.Provider, model string) int {
	known, _ := catalog.Find(model)
	return cmp.Or(int(p.ContextWindow), known.Window)
}

// client builds the client of one provider.
func client(c *config.Config, name string, transport http.RoundTripper) (llm.Client, error) {
	p, ok := c.Providers[name]
	if !ok {
		return nil, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("there is no provider %q", name),
			Help: "Add it under providers in mercury.yaml."}
	}
	key, err := p.APIKey.Value()
	if err != nil {
		return nil, err
	}
	header := map[string]string{}
	for k, v := range p.Headers {
		if header[k], err = v.Value(); err != nil {
			return nil, err
		}
	}
	first, idle := patience(p.HeaderTimeout, c.HTTP.HeaderTimeout), patience(p.IdleTimeout, c.HTTP.IdleTimeout)
	if p.API == "anthropic" {
		return anthropic.New(anthropic.Options{Provider: name, BaseURL: p.BaseURL, Key: key,
			Transport: transport, Header: header, First: first, Idle: idle}), nil
	}
	o := openai.Options{Provider: name, BaseURL: p.BaseURL, Key: key, Transport: transport, Header: header, First: first, Idle: idle}
	if p.Quirks != "" {
		q := openai.Lookup(p.Quirks, "")
		o.Quirks = &q
	}
	return openai.New(o), nil
}

// patience turns a configured timeout, where 0 means for ever, into a
// client's, where negative does.
func patience(own *config.Duration, usual config.Duration) time.Duration {
	d := usual
	if own != nil {
		d = *own
	}
	if d == 0 {
		return -1
	}
	return d.Std()
}
