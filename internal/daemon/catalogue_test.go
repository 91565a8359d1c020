package daemon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// lists serves the list of models of the OpenAI wire to whoever has the key,
// and counts how often it was asked.
func lists(t *testing.T, key string, models ...string) (url string, asked func() int) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+key || r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"message":"Incorrect API key provided: `+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`","type":"invalid_request_error","code":"invalid_api_key"}}`)
			return
		}
		io.WriteString(w, `{"object":"list","data":[{"id":"`+strings.Join(models, `","object":"model"},{"id":"`)+`","object":"model"}]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", func() int { return n }
}

func TestEachProviderIsAskedForItsOwnListAndTheListIsKept(t *testing.T) {
	t.Setenv("MERCURY_DISCOVER", "off")
	good, asked := lists(t, "key-of-good-0123456789", "large", "small")
	bad, _ := lists(t, "another", "none")
	home, err := config.HomeAt(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Create(); err != nil {
		t.Fatal(err)
	}
	load := func(address string) *config.Config {
		t.Helper()
		write(t, home.Config(), "model: good/large\nproviders:\n  good: { base_url: \""+address+"\", api_key: key-of-good-0123456789 }\n  bad: { base_url: \""+bad+"\", api_key: key-of-bad-0123456789 }\n")
		c, err := config.Load(config.Source{Home: home, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load(good)
	offers, err := Offers(t.Context(), c, home, "", false)
	if err != nil || len(offers) != 2 {
		t.Fatalf("got %+v, %v", offers, err)
	}
	if o := offers[0]; o.Provider != "bad" || !strings.Contains(o.Error, "Incorrect API key") || strings.Contains(o.Error, "key-of-bad") {
		t.Errorf("the one with the wrong key: %+v", o)
	}
	if o := offers[1]; !slices.Equal(o.Models, []string{"large", "small"}) || o.Error != "" {
		t.Errorf("the other: %+v", o)
	}
	for _, step := range []struct {
		what  string
		c     *config.Config
		fresh bool
		asked int
	}{{"again", c, false, 1}, {"afresh", c, true, 2}, {"at another address", load(good + "/"), false, 3}} {
		if _, err := Offers(t.Context(), step.c, home, "good", step.fresh); err != nil || asked() != step.asked {
			t.Errorf("%s: asked %d times, want %d; %v", step.what, asked(), step.asked, err)
		}
	}
	if _, err := Offers(t.Context(), c, home, "nobody", false); mercury.KindOf(err) != mercury.NotFound || !strings.Contains(mercury.HelpOf(err), "bad, good") {
		t.Errorf("an unknown provider: %v", err)
	}

	for name, want := range map[string]string{"small": "good/small", "good/other": "good/other", "openai/gpt-5-mini": "openai/gpt-5-mini", "nowhere/x": "", "huge": ""} {
		if got, err := ResolveModel(c, home, name); got != want || (err != nil) != (want == "") {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if err := os.WriteFile(offersFile(home), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Offers(t.Context(), c, home, "good", false); err != nil || asked() != 4 {
		t.Errorf("with a torn cache: asked %d times, %v", asked(), err)
	}
}
