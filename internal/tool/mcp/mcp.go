// Package mcp lends a model the tools of MCP servers, programs and addresses
// that the owner named in the configuration.
//
// What a server says about itself is somebody else's text. A person approves
// it once, with mercury mcp approve; its tools' names, descriptions and schemas
// are kept with their hashes, and a model is only ever told what was approved.
// A tool that says something else when its server is next started is no longer
// run until it is approved anew.
//
// A server starts at its first call and stops when it was idle for a while.
// Telling a model what there is asks no server, so a dead or slow one delays
// nothing but its own calls; one that fails is left alone for a while, longer
// each time. Results are bounded, and marked as foreign. Whether a call may
// happen is decided elsewhere.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
)

// Server is one configured server: a command that speaks over its standard
// streams, or an address.
type Server struct {
	Name    string
	Command []string
	URL     string
	// Secrets hands out the variables of the command, or the headers of the
	// address, when the server is started.
	Secrets func() (map[string]string, error)
}

// Kept is where approvals are kept; a store.Store is one.
type Kept interface {
	View(ctx context.Context, fn func(store.Tx) error) error
	Update(ctx context.Context, fn func(store.Tx) error) error
}

// Options tune a Client. A zero field means its default.
type Options struct {
	Version string
	Dir     string            // where commands start; default the folder of the system for temporary files
	HTTP    http.RoundTripper // carries requests to addresses; default http.DefaultTransport

	// Veil, if not nil, prepares a server's command so that it does not reach
	// what is hidden from every tool. A sandbox.ErrUnveiled starts it as it is.
	Veil func(ctx context.Context, c sandbox.Command) (*sandbox.Process, error)

	Idle  time.Duration // how long a server without calls is kept; default 5 minutes
	Start time.Duration // how long starting and listing may take; default 20 s
	Call  time.Duration // how long one call may take; default 2 minutes
	Retry time.Duration // how long a failed server is left alone the first time, doubled each time up to 5 minutes; default 1 s

	Log *slog.Logger // default discards
}

// retryMax is the longest that a failing server is left alone.
const retryMax = 5 * time.Minute

// Client speaks to the configured servers. It is safe for use by many
// goroutines.
type Client struct {
	kept    Kept
	opts    Options
	names   []string // of the servers, sorted
	servers map[string]*server
}

// New returns a client of the given servers. It starts none.
func New(kept Kept, servers []Server, o Options) *Client {
	o.Idle = cmp.Or(o.Idle, 5*time.Minute)
	o.Start = cmp.Or(o.Start, 20*time.Second)
	o.Call = cmp.Or(o.Call, 2*time.Minute)
	o.Retry = cmp.Or(o.Retry, time.Second)
	o.Version = cmp.Or(o.Version, "dev")
	if o.HTTP == nil {
		o.HTTP = http.DefaultTransport
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{kept: kept, opts: o, servers: map[string]*server{}}
	for _, s := range servers {
		c.servers[s.Name] = &server{Server: s, opts: o, turn: make(chan struct{}, 1)}
	}
	c.names = slices.Sorted(maps.Keys(c.servers))
	return c
}

// Run waits until ctx ends and then stops every server that is running.
func (c *Client) Run(ctx context.Context) error {
	<-ctx.Done()
	c.Close()
	return ctx.Err()
}

// Close stops every server that is running, and waits until they are gone.
func (c *Client) Close() {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(s.close)
	}
	all.Wait()
}

// The states of a server, and of a tool of it.
const (
	StateNew      = "new"      // nobody has approved it
	StateApproved = "approved" // what it says is what was approved
	StateChanged  = "changed"  // it says something else now
	StateGone     = "gone"     // approved, but the server has it no more
	StateRefused  = "refused"  // it cannot be offered; Why says why
)

// Found is one tool of a server.
type Found struct {
	Name        string `json:"name" doc:"as the model calls it"`
	Own         string `json:"own_name" doc:"as the server calls it"`
	Description string `json:"description"`
	Schema      string `json:"schema" doc:"JSON Schema of its arguments"`
	State       string `json:"state" doc:"new, approved, changed, gone or refused"`
	ReadOnly    bool   `json:"read_only" doc:"approved to run again after a crash, or before approval what the server says"`
	Why         string `json:"why,omitempty"`
}

// Catalogue is what a server says it has, beside what was approved of it.
type Catalogue struct {
	Server string  `json:"server"`
	Where  string  `json:"where" doc:"its command or address"`
	State  string  `json:"state" doc:"new, approved or changed"`
	Digest string  `json:"digest,omitempty" doc:"names exactly what it says now; an approval is for one digest"`
	Tools  []Found `json:"tools"`
}

// List says what is approved of each configured server. It asks no server.
func (c *Client) List(ctx context.Context) ([]Catalogue, error) {
	pins, err := c.pins(ctx)
	if err != nil {
		return nil, err
	}
	var out []Catalogue
	for _, name := range c.names {
		s := c.servers[name]
		p := pins[name]
		cat := Catalogue{Server: name, Where: s.where(), State: p.state(s.Server), Tools: []Found{}}
		for _, t := range p.Tools {
			cat.Tools = append(cat.Tools, t.found(name))
		}
		out = append(out, cat)
	}
	return out, nil
}

// Test starts a server if it does not run and says what it has, compared with
// what was approved.
func (c *Client) Test(ctx context.Context, name string) (Catalogue, error) {
	s, err := c.named(name)
	if err != nil {
		return Catalogue{}, err
	}
	pins, err := c.pins(ctx)
	if err != nil {
		return Catalogue{}, err
	}
	offers, err := s.list(ctx)
	if err != nil {
		return Catalogue{}, err
	}
	return compare(s.Server, pins[name], offers), nil
}

// Approve lets models use what the server has now, provided that is still what
// digest names. The tools in readOnly, by their own names, may be run again
// after a crash; a name that is no tool is an error.
func (c *Client) Approve(ctx context.Context, name, digest string, readOnly []string) (Catalogue, error) {
	s, err := c.named(name)
	if err != nil {
		return Catalogue{}, err
	}
	offers, err := s.list(ctx)
	if err != nil {
		return Catalogue{}, err
	}
	if now := digestOf(s.Server, offers); now != digest {
		return Catalogue{}, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("%s says something else than what was shown", name),
			Help: "Look at it again with `mercury mcp test " + name + "`."}
	}
	p := pin{Where: s.whereHash(), At: time.Now().UTC()}
	for _, o := range offers {
		if o.refused == "" {
			p.Tools = append(p.Tools, pinned{Name: o.Name, Description: o.Description, Schema: o.Schema, Hash: o.hash(), ReadOnly: slices.Contains(readOnly, o.Name)})
		}
	}
	for _, r := range readOnly {
		if !slices.ContainsFunc(p.Tools, func(t pinned) bool { return t.Name == r }) {
			return Catalogue{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("%s has no tool %q", name, r)}
		}
	}
	if err := c.keep(ctx, name, p); err != nil {
		return Catalogue{}, err
	}
	return compare(s.Server, p, offers), nil
}

func (c *Client) named(name string) (*server, error) {
	if s := c.servers[name]; s != nil {
		return s, nil
	}
	help := "No server is configured under mcp.servers in mercury.yaml."
	if len(c.names) > 0 {
		help = "There are: " + strings.Join(c.names, ", ") + "."
	}
	return nil, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no MCP server %q", name), Help: help}
}

// errEnded means the server went away during a call.
var errEnded = errors.New("the server ended")
