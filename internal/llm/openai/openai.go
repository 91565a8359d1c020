// Package openai speaks Chat Completions, the wire of OpenAI and of a dozen
// providers that copy it, each a little differently; the differences are rows
// of the table in quirks.go. It never retries.
package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// Options tune a Client. A zero field means its default.
type Options struct {
	Provider  string            // configured name; also picks the quirks when the host does not
	BaseURL   string            // default the provider's own
	Key       string            // empty for local servers
	Transport http.RoundTripper // the process's one transport; default http.DefaultTransport
	Header    map[string]string // added to each request
	First     time.Duration     // silence allowed before the first byte; default 3 min, negative none
	Idle      time.Duration     // silence allowed between bytes; default 2 min, negative none
	Quirks    *Quirks           // default Lookup(Provider, BaseURL)
}

// Client asks one provider. It may be used by several goroutines.
type Client struct {
	opts   Options
	quirks Quirks
	header http.Header

	mu      sync.Mutex
	refused map[string]bool // optional fields this server turned down
}

var _ llm.Client = (*Client)(nil)

// New returns a Client.
func New(opts Options) *Client {
	c := &Client{opts: opts, refused: map[string]bool{}}
	if opts.Quirks != nil {
		c.quirks = *opts.Quirks
	} else {
		c.quirks = Lookup(opts.Provider, opts.BaseURL)
	}
	if c.opts.Provider == "" {
		c.opts.Provider = c.quirks.Name
	}
	if c.opts.BaseURL == "" {
		c.opts.BaseURL = c.quirks.BaseURL
	}
	if c.opts.Transport == nil {
		c.opts.Transport = http.DefaultTransport
	}
	c.header = http.Header{
		"Content-Type":    {"application/json"},
		"User-Agent":      {"mercury"},
		"Accept-Encoding": {"identity"}, // compression holds back the first tokens
	}
	for name, value := range opts.Header {
		c.header.Set(name, value)
	}
	switch {
	case opts.Key == "":
	case c.quirks.KeyHeader != "":
		c.header.Set(c.quirks.KeyHeader, opts.Key)
	default:
		c.header.Set("Authorization", "Bearer "+opts.Key)
	}
	return c
}

func (c *Client) call(model string) *wire.Call {
	return &wire.Call{
		Transport: c.opts.Transport,
		Header:    c.header.Clone(),
		First:     c.opts.First,
		Idle:      c.opts.Idle,
		Provider:  c.opts.Provider,
		Model:     model,
		Secret:    c.opts.Key,
		Table:     c.quirks.Codes,
	}
}

// Stream asks once. A server that turns down an optional field of the request
// is asked again at once without it, and not offered it any more.
func (c *Client) Stream(ctx context.Context, req llm.Request, show func(llm.Event)) (llm.Response, error) {
	if show == nil {
		show = func(llm.Event) {}
	}
	call := c.call(req.Model)
	call.URL = c.quirks.endpoint(c.opts.BaseURL, req.Model)
	var body *wire.Body
	for try := 0; ; try++ {
		call.Body = c.encode(req)
		var err error
		body, err = call.Do(ctx)
		if err == nil {
			break
		}
		if try >= 3 || !c.learn(err) {
			return llm.Response{Model: req.Model, Provider: c.opts.Provider}, err
		}
	}
	defer body.Close()
	d := &decoder{call: call, origin: c.opts.Provider + "/" + req.Model, show: show, cumulative: c.quirks.Cumulative}
	if c.quirks.ThinkTags {
		d.think = thinkStart
	}
	err := d.read(body)
	return d.finish(req, err)
}

// optional are the fields a request can do without, by the order in which an
// error text is searched for them.
var optional = []string{"stream_options", "max_completion_tokens", "max_tokens", "reasoning_effort", "prompt_cache_key", "temperature", "parallel_tool_calls", "cache_control"}

// learn notes the optional field that err is about, and reports whether
// leaving it out is worth another request.
func (c *Client) learn(err error) bool {
	e, ok := err.(*llm.Error)
	if !ok || e.Class != llm.BadRequest || e.Status != 400 && e.Status != 422 || !unsupported(e.Raw) {
		return false
	}
	for _, field := range optional {
		if !strings.Contains(e.Raw, field) {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.refused[field] {
			return false
		}
		c.refused[field] = true
		return true
	}
	return false
}

// unsupported reports whether a refusal is about a field's being there rather
// than about its value, which no other request would mend.
func unsupported(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"unsupported", "not support", "unrecognized", "unknown", "unexpected", "extra", "not permitted", "not allowed", "no longer"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

func (c *Client) takes(field string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.refused[field]
}

// Models lists what the provider offers, in its own order.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	call := c.call("")
	call.Method = http.MethodGet
	call.URL = strings.TrimRight(c.opts.BaseURL, "/") + "/models"
	if c.quirks.Name == "azure" && !strings.HasSuffix(c.opts.BaseURL, "/v1") {
		call.URL = strings.TrimRight(c.opts.BaseURL, "/") + "/openai/models?api-version=2024-10-21"
	}
	body, err := call.Do(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	all, err := body.All()
	if err != nil {
		return nil, err
	}
	return modelNames(call, all)
}

// modelNames reads a list of models: under data, under models, or bare.
func modelNames(call *wire.Call, body []byte) ([]string, error) {
	type model struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	var list struct {
		Data   []model `json:"data"`
		Models []model `json:"models"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		if json.Unmarshal(body, &list.Data) != nil {
			return nil, call.Fail(llm.Malformed, "the list of models cannot be read", body, err)
		}
	}
	var names []string
	for _, m := range append(list.Data, list.Models...) {
		name := m.ID
		if name == "" {
			name = m.Name
		}
		names = append(names, strings.TrimPrefix(name, "models/"))
	}
	return names, nil
}
