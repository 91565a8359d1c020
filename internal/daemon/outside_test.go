package daemon

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/web"
)

// public resolves every name to one public address.
func public(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

func outsideOf(t *testing.T, c *config.Config) (*outside, *gate) {
	t.Helper()
	kept, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	g := newGate(gateOptions{home: t.TempDir(), fence: sandbox.New(sandbox.Options{}), secrets: noSecrets(), services: services(c), resolve: public})
	return newOutside(c, config.Home{}, t.TempDir(), "test", kept, g, http.DefaultTransport), g
}

func TestGitHubsToolsAreThereWhenATokenIs(t *testing.T) {
	c := config.Default()
	for _, token := range []string{"", "ghp_x"} {
		c.GitHub.Token = config.NewSecret(token)
		o, g := outsideOf(t, c)
		set, err := o.tools(t.Context(), g, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(set.Names(), func(name string) bool { return name == "find_tools" })
		want := []string{"fetch_url", "web_search"}
		if token != "" {
			want = []string{"create_issue", "create_pr", "fetch_url", "github_api", "list_issues", "review_pr", "web_search"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("with the token %q: %v", token, names)
		}
		again, err := o.tools(t.Context(), g, nil, nil)
		if err != nil || again != set {
			t.Errorf("the set changes by itself: %v", err)
		}
	}
}

func TestConfiguredServicesPassTheGateAndWhatIsComposedDoesNot(t *testing.T) {
	c := config.Default()
	c.GitHub.Token = config.NewSecret("ghp_x")
	o, g := outsideOf(t, c)
	set, err := o.tools(t.Context(), g, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		taint      []string
		want       mercury.Verdict
	}{
		{"web_search", `{"query":"rivers"}`, []string{"web:x"}, mercury.Allow},
		{"list_issues", `{"repo":"a/b"}`, []string{"web:x"}, mercury.Allow},
		{"fetch_url", `{"url":"https://example.com/"}`, nil, mercury.Allow},
		{"fetch_url", `{"url":"https://example.com/?d=secret"}`, []string{"web:x"}, mercury.Ask},
		{"fetch_url", `{"url":"http://127.0.0.1:6174/api/status"}`, nil, mercury.Deny},
		{"create_issue", `{"repo":"a/b","title":"x"}`, nil, mercury.Ask},
		{"github_api", `{"method":"DELETE","path":"/repos/a/b"}`, nil, mercury.Ask},
	} {
		p := set.Prepare(t.Context(), tool.Call{ID: "c", Name: tt.name, Args: []byte(tt.args), Taint: tt.taint,
			Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Mode: "guided", Interactive: true}})
		if p.Judgement.Verdict != tt.want {
			t.Errorf("%s %s is %v (%s)", tt.name, tt.args, p.Judgement.Verdict, p.Judgement.Rule)
		}
	}
}

func TestWhatIsConnectedToIsWhatTheGateFoundGood(t *testing.T) {
	_, g := outsideOf(t, config.Default())
	ch := checker{g}
	target, err := ch.Check(t.Context(), "https://example.com/a")
	if err != nil || len(target.Addrs) != 1 || target.Addrs[0].String() != "93.184.216.34:443" {
		t.Fatalf("%+v, %v", target, err)
	}
	if next, err := ch.Follow(t.Context(), target, "../b?c"); err != nil || next.URL != "https://example.com/b?c" {
		t.Errorf("%+v, %v", next, err)
	}
	for _, bad := range []string{"http://169.254.169.254/", "http://localhost/", "file:///etc/passwd", "https://example.com:22/", "https://example.com:4444/"} {
		if next, err := ch.Follow(t.Context(), target, bad); err == nil {
			t.Errorf("%s is followed: %+v", bad, next)
		}
		if _, err := ch.Check(t.Context(), bad); err == nil && !strings.Contains(bad, ":4444") {
			t.Errorf("%s is fetched", bad)
		}
	}
	var _ web.Checker = ch
}
