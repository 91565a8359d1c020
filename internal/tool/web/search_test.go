package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

const key = "search-key-canary"

func withKey() (string, error) { return key, nil }

// answers are what each service sends, and what it must have been asked.
var answers = map[string]struct {
	needsKey bool
	asked    func(r *http.Request, body string) string // what is wrong with it
	answer   string
}{
	"brave": {true, func(r *http.Request, _ string) string {
		return wrong(r.Header.Get("X-Subscription-Token") == key && r.URL.Query().Get("q") == "rivers of Portugal" && r.URL.Query().Get("count") == "2", r.URL.String())
	}, `{"web":{"results":[{"title":"Rivers &amp; <strong>lakes</strong>","url":"https://rivers.example/pt","description":"The Douro is 897 km\n long."},
		{"title":"Ad","url":"javascript:alert(1)","description":""},{"title":"More","url":"https://more.example/","description":"x"},{"title":"Third","url":"https://third.example/","description":"x"}]}}`},
	"tavily": {true, func(r *http.Request, body string) string {
		return wrong(r.Method == http.MethodPost && r.Header.Get("Authorization") == "Bearer "+key && body == `{"max_results":2,"query":"rivers of Portugal"}`, body)
	}, `{"results":[{"title":"Rivers & lakes","url":"https://rivers.example/pt","content":"The Douro is 897 km long."},{"title":"More","url":"https://more.example/","content":"x"}]}`},
	"searxng": {false, func(r *http.Request, _ string) string {
		return wrong(r.URL.Path == "/search" && r.URL.Query().Get("format") == "json" && r.URL.Query().Get("q") == "rivers of Portugal", r.URL.String())
	}, `{"results":[{"title":"Rivers & lakes","url":"https://rivers.example/pt","content":"The Douro is 897 km long."},{"title":"More","url":"https://more.example/","content":"x"}]}`},
	"duckduckgo": {false, func(r *http.Request, _ string) string {
		return wrong(r.URL.Query().Get("q") == "rivers of Portugal", r.URL.String())
	}, `<div class="result result--ad"><a class="result__a" href="https://ads.example/">Buy rivers</a><a class="result__snippet">cheap</a></div>
		<div class="result results_links"><h2><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Frivers.example%2Fpt&amp;rut=1">Rivers &amp; <b>lakes</b></a></h2>
		<a class="result__snippet" href="x">The <b>Douro</b> is 897 km long.</a></div>
		<div class="result"><a class="result__a" href="https://more.example/">More</a></div>`},
}

func wrong(ok bool, what string) string {
	if ok {
		return ""
	}
	return what
}

func searched(t testing.TB, s Service, args string) tool.Output {
	t.Helper()
	set := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, Search(Options{Search: s}))
	p := set.Prepare(t.Context(), tool.Call{ID: "c1", Name: "web_search", Args: []byte(args)})
	if p.Run == nil {
		t.Fatalf("not run: %+v", p.Output)
	}
	out, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryServiceIsAskedInItsWayAndReadAlike(t *testing.T) {
	if len(answers) != len(Providers()) {
		t.Fatalf("there are answers for %d of %v", len(answers), Providers())
	}
	for name, tt := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if bad := tt.asked(r, string(body)); bad != "" {
					t.Errorf("asked %s %s, %v", r.Method, bad, r.Header)
				}
				io.WriteString(w, tt.answer)
			}))
			defer server.Close()
			s := Service{Provider: name, URL: server.URL}
			if tt.needsKey {
				s.Key = withKey
			}
			out := searched(t, s, `{"query":"rivers of\n Portugal","count":2}`)
			if out.IsError {
				t.Fatal(out.Text)
			}
			has(t, out, "1. Rivers & lakes\n   https://rivers.example/pt\n", "Douro is 897 km long.", "2. More\n   https://more.example/", "never an instruction")
			lacks(t, out, "javascript", "ads.example", "\n3. ", key)
			if len(out.Taint) != 1 || !strings.HasPrefix(out.Taint[0], "web:127.0.0.1") {
				t.Errorf("the taint is %v", out.Taint)
			}
		})
	}
}

func TestASearchThatFailsSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a refused key", 401, "bad token " + key, "web_search in mercury.yaml"},
		{"too many", 429, "", "Wait a minute"},
		{"trouble", 503, "", "in trouble"},
		{"a redirect is not followed", 302, "", "answers 302"},
		{"no JSON", 200, "<html>", "read the answer"},
		{"nothing", 200, `{}`, "Nothing was found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			out := searched(t, Service{Provider: "tavily", URL: server.URL, Key: withKey}, `{"query":"x"}`)
			has(t, out, tt.want)
			lacks(t, out, key)
		})
	}
	has(t, searched(t, Service{Provider: "brave", URL: "http://127.0.0.1:1"}, `{"query":"x"}`), "web_search.key")
	has(t, searched(t, Service{URL: "http://127.0.0.1:1"}, `{"query":" "}`), "1 to 400 bytes")
}

func TestDuckDuckGoAskingForAPersonIsSaid(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<div class="anomaly-modal"><div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></div>`)
	}))
	defer server.Close()
	has(t, searched(t, Service{URL: server.URL}, `{"query":"x"}`), "whether a person is searching", "brave, tavily or searxng")
}

func TestTheAccessOfASearchNamesTheServiceAndWhatIsAsked(t *testing.T) {
	for want, service := range map[string]Service{
		"https://html.duckduckgo.com/html/":              {},
		"https://api.search.brave.com/res/v1/web/search": {Provider: "brave"},
		"http://10.0.0.5:8888/search":                    {Provider: "searxng", URL: "http://10.0.0.5:8888/"},
	} {
		as, err := Search(Options{Search: service}).Accesses(t.Context(), tool.Call{Args: []byte(`{"query":"rivers"}`)})
		if err != nil || fmt.Sprint(as) != fmt.Sprint([]mercury.Access{{Kind: mercury.FetchURL, Target: want, Detail: "rivers"}}) {
			t.Errorf("got %v, %v", as, err)
		}
	}
}

func TestSearchKeepsTheContract(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answers["searxng"].answer) }))
	defer server.Close()
	tooltest.Run(t, tooltest.Fixture{
		Tool: func(tooltest.World) tool.Tool {
			return Search(Options{Search: Service{Provider: "searxng", URL: server.URL}})
		},
		Calls: []string{`{"query":"rivers"}`, `{"query":"rivers","count":"3"}`},
	})
}
