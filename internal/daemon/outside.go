package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/github"
	"github.com/mercury-agent/mercury/internal/tool/mcp"
	"github.com/mercury-agent/mercury/internal/tool/web"
)

// outside makes the tools that reach beyond this machine.
type outside struct {
	fixed []tool.Tool // fetch_url, web_search and GitHub's
	mcp   *mcp.Client

	mu      sync.Mutex
	version string // of what MCP servers lent when set was made
	set     *tool.Set
}

// newOutside reads the configuration of these tools. Secrets are handed out
// for one use each and kept by no tool.
func newOutside(c *config.Config, home config.Home, workspace, version string, kept store.Store, g *gate, via http.RoundTripper) *outside {
	o := web.Options{Agent: "Mercury/" + version, Spool: filepath.Join(home.Files(), "spool"), HTTP: via, Search: searchService(c)}
	out := &outside{fixed: []tool.Tool{web.Fetch(checker{g}, o), web.Search(o)}}
	if c.GitHub.Token.IsSet() {
		out.fixed = append(out.fixed, github.Tools(github.Options{Address: c.GitHub.APIURL, Token: c.GitHub.Token.Value,
			Owner: c.GitHub.DefaultOwner, Repo: c.GitHub.DefaultRepo, Agent: "Mercury/" + version, HTTP: via})...)
	}
	out.mcp = mcp.New(kept, mcpServers(c), mcp.Options{Version: version, Dir: workspace, HTTP: via,
		Veil: func(ctx context.Context, c sandbox.Command) (*sandbox.Process, error) {
			return g.fence.VeilServer(ctx, c, []string{home.Dir()})
		}})
	return out
}

func searchService(c *config.Config) web.Service {
	return web.Service{Provider: c.WebSearch.Provider, URL: c.WebSearch.URL, Key: c.WebSearch.Key.Value}
}

// services are the addresses that the owner's configuration names for tools.
func services(c *config.Config) []string {
	list := []string{searchService(c).Address()}
	if c.GitHub.Token.IsSet() {
		list = append(list, github.Address(c.GitHub.APIURL))
	}
	return list
}

func mcpServers(c *config.Config) []mcp.Server {
	var list []mcp.Server
	for name, s := range c.MCP.Servers {
		if s.Disabled {
			continue
		}
		from := s.Env
		if s.URL != "" {
			from = s.Headers
		}
		list = append(list, mcp.Server{Name: name, Command: s.Command, URL: s.URL, Secrets: func() (map[string]string, error) {
			out := map[string]string{}
			for k, secret := range from {
				v, err := secret.Value()
				if err != nil {
					return nil, err
				}
				out[k] = v
			}
			return out, nil
		}})
	}
	return list
}

// again returns the same tools for another gate.
func (o *outside) again() *outside { return &outside{fixed: o.fixed, mcp: o.mcp} }

// tools returns the set of the given tools and these, behind the gate; these
// are found when they are looked for. It is the same set while MCP servers
// lend the same tools.
func (o *outside) tools(ctx context.Context, g tool.Gate, core, more []tool.Tool) (*tool.Set, error) {
	all := slices.Concat(more, o.fixed)
	names := []string{tool.FindTools} // the set's own, where something can be found
	for _, t := range slices.Concat(core, all) {
		names = append(names, t.Spec().Name)
	}
	lent, version, err := o.mcp.Tools(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list MCP tools: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.set == nil || o.version != version {
		o.set, o.version = tool.NewTieredSet(g, core, append(all, lent...)), version
	}
	return o.set, nil
}

// checker lets the web tools ask the gate's own rules which addresses may be
// connected to.
type checker struct{ gate *gate }

// Check implements web.Checker. The gate has judged the call, so what it only
// asks about has been answered.
func (c checker) Check(ctx context.Context, raw string) (web.Target, error) {
	t, j := c.gate.permission(ctx).CheckURL(ctx, raw)
	if j.Verdict == mercury.Deny {
		return web.Target{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New(j.Why)}
	}
	return web.Target{URL: t.URL, Addrs: t.Addrs}, nil
}

// Follow implements web.Checker. Nobody was asked about where a server sends
// us, so only what needs no question is followed.
func (c checker) Follow(ctx context.Context, from web.Target, location string) (web.Target, error) {
	t, j := c.gate.permission(ctx).CheckRedirect(ctx, permission.Target{URL: from.URL}, location)
	switch j.Verdict {
	case mercury.Allow:
		return web.Target{URL: t.URL, Addrs: t.Addrs}, nil
	case mercury.Ask:
		return web.Target{}, &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("it redirects to %s, and %s", t.URL, j.Why), Help: "Fetch that address itself if it is wanted."}
	}
	return web.Target{}, &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("it redirects to what may not be fetched: %s", j.Why)}
}
