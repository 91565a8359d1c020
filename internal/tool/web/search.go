package web

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/foreign"
)

//go:embed search.md
var searchUsage string

// Limits of one search.
const (
	resultsUsual = 8
	resultsMost  = 20
	queryMax     = 400     // bytes, as the services allow
	answerMax    = 1 << 20 // bytes of an answer
	snippetMax   = 300     // bytes of one snippet or title
)

// Service is a search service. The zero value is DuckDuckGo.
type Service struct {
	Provider string // a name of Providers; empty: duckduckgo
	URL      string // where it listens; empty: its usual address
	// Key hands out the service's key for one request; nil where it needs none.
	Key func() (string, error)
}

// Address is where searches are sent, without what is searched for. It is the
// Target of web_search's access.
func (s Service) Address() string {
	address := cmp.Or(s.URL, providers[s.name()].url)
	if s.name() == "searxng" && !strings.HasSuffix(address, "/search") {
		address = strings.TrimSuffix(address, "/") + "/search"
	}
	return address
}

func (s Service) name() string { return cmp.Or(s.Provider, "duckduckgo") }

type searchInput struct {
	Query string `json:"query"`
	Count int    `json:"count,omitempty" jsonschema:"1 to 20, default 8"`
}

// found is one result.
type found struct{ title, url, snippet string }

// Search returns the tool that asks the configured service. A service that is
// none of Providers is a mistake of ours and panics.
func Search(o Options) tool.Tool {
	service := o.Search
	p, ok := providers[service.name()]
	if !ok {
		panic("web: no search service is called " + service.Provider)
	}
	via := o.HTTP
	if via == nil {
		via = http.DefaultTransport
	}
	s := searcher{service: service, provider: p, agent: cmp.Or(o.Agent, "Mercury"), client: &http.Client{
		Transport: via, Timeout: cmp.Or(o.Whole, wholeTime),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return tool.New("web_search", searchUsage, mercury.Read,
		func(in searchInput) []mercury.Access {
			return []mercury.Access{{Kind: mercury.FetchURL, Target: service.Address(), Detail: in.Query}}
		},
		func(ctx context.Context, c tool.Call, in searchInput) (tool.Output, error) {
			if !granted(c, service.Address()) {
				return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("the search was not granted")}
			}
			return s.search(ctx, in)
		})
}

type searcher struct {
	service  Service
	provider provider
	agent    string
	client   *http.Client
}

func (s searcher) search(ctx context.Context, in searchInput) (tool.Output, error) {
	query := strings.Join(strings.Fields(in.Query), " ")
	if query == "" || len(query) > queryMax {
		return tool.Output{}, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("the query must have 1 to %d bytes", queryMax)}
	}
	count := min(max(in.Count, 0), resultsMost)
	if count == 0 {
		count = resultsUsual
	}
	results, err := s.ask(ctx, query, count)
	out := tool.Output{Taint: []string{"web:" + s.host()}}
	if err != nil {
		return out, err
	}
	var b strings.Builder
	end := foreign.Begin(&b, "a search at "+s.host())
	n := 0
	for _, r := range results {
		if u, err := url.Parse(r.url); n == count || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue
		}
		n++
		fmt.Fprintf(&b, "%d. %s\n   %s\n", n, line(r.title), r.url)
		if r.snippet != "" {
			fmt.Fprintf(&b, "   %s\n", line(r.snippet))
		}
	}
	if n == 0 {
		b.WriteString("Nothing was found. Try other words.\n")
	}
	end()
	out.Text = b.String()
	return out, nil
}

// ask sends one search and reads its results.
func (s searcher) ask(ctx context.Context, query string, count int) ([]found, error) {
	var key string
	if s.provider.key != nil {
		if s.service.Key != nil {
			k, err := s.service.Key()
			if err != nil {
				return nil, err
			}
			key = k
		}
		if key == "" {
			return nil, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%s has no key", s.service.name()),
				Help: "The owner must set web_search.key in mercury.yaml."}
		}
	}
	req, err := s.provider.request(s.service.Address(), query, count)
	if err != nil {
		return nil, fmt.Errorf("prepare the search: %w", err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (compatible; "+s.agent+")")
	if s.provider.key != nil {
		s.provider.key(req, key)
	}
	resp, err := s.client.Do(req.WithContext(ctx))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, plainly(s.service.Address(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return nil, plainly(s.service.Address(), err)
	}
	if err := s.refused(resp); err != nil {
		return nil, err
	}
	results, err := s.provider.parse(body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", s.host(), err)
	}
	return results, nil
}

// refused says what an answer that is no success means.
func (s searcher) refused(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusPaymentRequired:
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%s refuses to search (%d)", s.host(), code),
			Help: "The owner must look at web_search in mercury.yaml: brave and tavily need a valid key, searxng must allow the format json."}
	case code == http.StatusTooManyRequests || code == http.StatusAccepted:
		return &mercury.Error{Kind: mercury.Transient, After: time.Minute, Err: fmt.Errorf("%s wants no more searches at present", s.host()),
			Help: "Wait a minute; or the owner sets another web_search.provider in mercury.yaml."}
	case code >= 500:
		return &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%s is in trouble (%d)", s.host(), code)}
	default:
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%s answers %d", s.host(), code)}
	}
}

func (s searcher) host() string { return host(s.service.Address()) }

// line is a text on one line of bounded length.
func line(text string) string {
	text = strings.Join(strings.Fields(tool.Clean(text)), " ")
	if len(text) > snippetMax {
		text = strings.ToValidUTF8(text[:snippetMax], "") + "…"
	}
	return text
}
