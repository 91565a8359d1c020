// Package anthropic speaks the Messages wire. It keeps a model's thinking and
// gives it back unchanged, marks what a prompt cache may hold, and never
// retries.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// BaseURL is Anthropic's own address.
const BaseURL = "https://api.anthropic.com"

const version = "2023-06-01"

// Options tune a Client. A zero field means its default.
type Options struct {
	Provider  string // configured name; default "anthropic"
	BaseURL   string // default BaseURL; with or without /v1
	Key       string
	Transport http.RoundTripper // the process's one transport; default http.DefaultTransport
	Header    map[string]string // added to each request
	First     time.Duration     // silence allowed before the first byte; default 3 min, negative none
	Idle      time.Duration     // silence allowed between bytes; default 2 min, negative none
}

// Client asks Anthropic or a server that copies it. It may be used by several
// goroutines.
type Client struct {
	opts   Options
	header http.Header
}

var _ llm.Client = (*Client)(nil)

// New returns a Client.
func New(opts Options) *Client {
	if opts.Provider == "" {
		opts.Provider = "anthropic"
	}
	if opts.BaseURL == "" {
		opts.BaseURL = BaseURL
	}
	opts.BaseURL = strings.TrimSuffix(strings.TrimRight(opts.BaseURL, "/"), "/v1")
	if opts.Transport == nil {
		opts.Transport = http.DefaultTransport
	}
	c := &Client{opts: opts, header: http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"mercury"},
		"Accept-Encoding":   {"identity"}, // compression holds back the first tokens
		"Anthropic-Version": {version},
	}}
	if opts.Key != "" {
		c.header.Set("X-Api-Key", opts.Key)
	}
	for name, value := range opts.Header {
		c.header.Set(name, value)
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
	}
}

// Stream asks once.
func (c *Client) Stream(ctx context.Context, req llm.Request, show func(llm.Event)) (llm.Response, error) {
	if show == nil {
		show = func(llm.Event) {}
	}
	call := c.call(req.Model)
	call.URL = c.opts.BaseURL + "/v1/messages"
	call.Body = c.encode(req)
	body, err := call.Do(ctx)
	if err != nil {
		return llm.Response{Model: req.Model, Provider: c.opts.Provider}, err
	}
	defer body.Close()
	d := &decoder{call: call, origin: c.opts.Provider + "/" + req.Model, show: show}
	err = d.read(body)
	return d.finish(req, err)
}

// Models lists what the provider offers, newest first.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	call := c.call("")
	call.Method = http.MethodGet
	call.URL = c.opts.BaseURL + "/v1/models?limit=1000"
	body, err := call.Do(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	all, err := body.All()
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(all, &list); err != nil {
		return nil, call.Fail(llm.Malformed, "the list of models cannot be read", all, err)
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	return names, nil
}
