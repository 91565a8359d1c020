package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// provider is one kind of search service.
type provider struct {
	url     string                            // its usual address; empty: it must be configured
	key     func(r *http.Request, key string) // puts the key in; nil: it needs none
	request func(address, query string, count int) (*http.Request, error)
	parse   func(body []byte) ([]found, error)
}

// providers are the services by name:
//   - brave: https://api-dashboard.search.brave.com/app/documentation/web-search
//   - tavily: https://docs.tavily.com/documentation/api-reference/endpoint/search
//   - searxng: https://docs.searxng.org/dev/search_api.html, one's own server
//   - duckduckgo: its page without scripts; it needs no key and is not meant
//     for many searches
var providers = map[string]provider{
	"brave": {
		url: "https://api.search.brave.com/res/v1/web/search",
		key: func(r *http.Request, key string) { r.Header.Set("X-Subscription-Token", key) },
		request: func(address, query string, count int) (*http.Request, error) {
			return get(address, url.Values{"q": {query}, "count": {strconv.Itoa(count)}, "text_decorations": {"false"}})
		},
		parse: func(body []byte) ([]found, error) {
			var v struct {
				Web struct {
					Results []struct{ Title, URL, Description string }
				}
			}
			if err := json.Unmarshal(body, &v); err != nil {
				return nil, err
			}
			var out []found
			for _, r := range v.Web.Results {
				out = append(out, found{plain(r.Title), r.URL, plain(r.Description)})
			}
			return out, nil
		},
	},
	"tavily": {
		url: "https://api.tavily.com/search",
		key: func(r *http.Request, key string) { r.Header.Set("Authorization", "Bearer "+key) },
		request: func(address, query string, count int) (*http.Request, error) {
			body, err := json.Marshal(map[string]any{"query": query, "max_results": count})
			if err != nil {
				return nil, err
			}
			r, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			r.Header.Set("Content-Type", "application/json")
			return r, nil
		},
		parse: resultsWithContent,
	},
	"searxng": {
		request: func(address, query string, _ int) (*http.Request, error) {
			return get(address, url.Values{"q": {query}, "format": {"json"}})
		},
		parse: resultsWithContent,
	},
	"duckduckgo": {
		url: "https://html.duckduckgo.com/html/",
		request: func(address, query string, _ int) (*http.Request, error) {
			return get(address, url.Values{"q": {query}})
		},
		parse: duckResults,
	},
}

// Providers are the names of the search services, sorted.
func Providers() []string { return slices.Sorted(maps.Keys(providers)) }

func get(address string, q url.Values) (*http.Request, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	u.RawQuery = q.Encode()
	r, err := http.NewRequest(http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/html;q=0.9")
	return r, nil
}

// resultsWithContent reads the form that Tavily and SearXNG share.
func resultsWithContent(body []byte) ([]found, error) {
	var v struct {
		Results []struct{ Title, URL, Content string }
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, err
	}
	var out []found
	for _, r := range v.Results {
		out = append(out, found{r.Title, r.URL, r.Content})
	}
	return out, nil
}

// duckResults reads the page of results. Its links lead through DuckDuckGo
// with the address in uddg; advertisements have no such address of their own.
func duckResults(body []byte) ([]found, error) {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var out []found
	challenged := false
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			switch {
			case classed(n, "anomaly-modal"), classed(n, "anomaly-modal__title"):
				challenged = true
			case classed(n, "result--ad"):
				return
			case classed(n, "result__a"):
				out = append(out, found{title: textOf(n), url: duckTarget(attribute(n, "href"))})
				return
			case classed(n, "result__snippet") && len(out) > 0:
				out[len(out)-1].snippet = textOf(n)
				return
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	if challenged && len(out) == 0 {
		return nil, &mercury.Error{Kind: mercury.Transient, Err: errors.New("it asks whether a person is searching"),
			Help: "Wait some minutes; or the owner sets web_search in mercury.yaml to brave, tavily or searxng."}
	}
	return out, nil
}

func duckTarget(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	if to := u.Query().Get("uddg"); to != "" {
		return to
	}
	if u.Scheme == "" && u.Host != "" {
		u.Scheme = "https"
	}
	return u.String()
}

func classed(n *html.Node, class string) bool {
	return slices.Contains(strings.Fields(attribute(n, "class")), class)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// plain takes the marks out of a title or snippet.
func plain(s string) string {
	if !strings.ContainsAny(s, "<&") {
		return s
	}
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Text())
		}
	}
}
