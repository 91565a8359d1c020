package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Each file in testdata/problems is a mercury.yaml, a line of equals signs,
// and the problems that loading it shows.
func TestWhatIsWrongIsShownAtItsPlaceWithItsRemedy(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	const line = "=====\n"
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(strings.ReplaceAll(string(b), "\r\n", "\n"), line)
			h := homeWith(t, map[string]string{"mercury.yaml": text})
			_, err = Load(Source{Home: h, Getenv: variables(nil)})
			if err == nil {
				t.Fatal("it loaded")
			}
			var problems Problems
			if !errors.As(err, &problems) || mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
				t.Errorf("not a Setup error with help that holds the problems: %#v", err)
			}
			for _, p := range problems {
				if p.Help == "" || p.File == "" || p.Line == 0 || p.Excerpt == "" {
					t.Errorf("a problem without its place or its remedy: %+v", p)
				}
			}
			shown := strings.ReplaceAll(problems.Error(), h.Config(), "mercury.yaml") + "\n"
			golden(t, file, []byte(text+line+shown))
		})
	}
}

const canary = "zx9canary7zx9canary7zx9"

func TestNoProblemShowsASecret(t *testing.T) {
	for _, text := range []string{
		"providers: {openai: {api_key: " + canary + ", base_url: 1}}\n",
		"providers:\n  openai:\n    api_key: \"" + canary + "\n    base_url: x\n",
		"providers:\n  openai:\n    apikey: " + canary + "\n",
		"providers:\n  openai:\n    api_key: [" + canary + "]\n",
		"providers:\n  openai:\n    headers: { Authorization: Bearer " + canary + ", x: [1] }\n",
		"providers:\n  openai:\n    headers:\n      X-Any: " + canary + "\n      X-Any: 2\n",
		"database: { url: 'postgres://u:pa ss@h/db', foo: 1 }\n",
		"database: { url: \"mysql://user:" + canary + "@host/db\" }\n",
		"channels:\n  telegram:\n    token: '123456:" + canary + "'\n    toekn: x\n",
		"model: " + canary + "\n",
		"log: {level: " + canary + "}\n",
		"web: {listen: " + canary + "}\n",
		"http: { proxy: \"user:" + canary + "@proxy\" }\n",
		canary + "\n",
		"github: {token: \"" + canary + "${\"}\n",
	} {
		h := homeWith(t, map[string]string{"mercury.yaml": text})
		_, err := Load(Source{Home: h, Getenv: variables(nil)})
		if err == nil {
			t.Errorf("%q loaded", text)
			continue
		}
		if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "pa ss") {
			t.Errorf("the secret of %q is shown:\n%v", text, err)
		}
	}
}

func TestASuggestionIsGivenOnlyForANameThatMayBeMeant(t *testing.T) {
	names := []string{"api", "base_url", "api_key", "headers", "permissions", "fallbacks"}
	for got, want := range map[string]string{
		"apiKey": "api_key", "apikey": "api_key", "permisions": "permissions", "baseUrl": "base_url",
		"fallback": "fallbacks", "hedaers": "headers", "zebra": "", "": "", strings.Repeat("a", 1000): "",
	} {
		if s := nearest(got, names); s != want {
			t.Errorf("nearest(%.20q) = %q, want %q", got, s, want)
		}
	}
}
