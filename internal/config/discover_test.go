package config

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

func TestDiscoverFindsKeysFirstThenServersThatHaveAModelToTalkTo(t *testing.T) {
	serve := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })

	known := []Known{
		{Name: "works", API: "openai", BaseURL: serve(200, `{"data":[{"id":"nomic-embed-text"},{"id":"qwen3:8b"}]}`)},
		{Name: "keyed", API: "openai", BaseURL: "http://never.invalid", Env: []string{"OTHER", "KEYED"}, Model: "m"},
		{Name: "unkeyed", API: "openai", BaseURL: "http://never.invalid", Env: []string{"NOT"}, Model: "m"},
		{Name: "only-embeds", BaseURL: serve(200, `{"data":[{"id":"bge-m3"}]}`)},
		{Name: "empty", BaseURL: serve(200, `{"data":[]}`)},
		{Name: "refuses", BaseURL: serve(401, `{"data":[{"id":"x"}]}`)},
		{Name: "other", BaseURL: serve(200, `<html>`)},
		{Name: "hangs", BaseURL: hangs.URL},
		{Name: "closed", BaseURL: "http://127.0.0.1:1"},
	}
	env := &environment{process: variables(map[string]string{"KEYED": "k"})}
	began := time.Now()
	found := discover(context.Background(), env, known)
	if took := time.Since(began); took > 5*probeTimeout {
		t.Errorf("it took %v", took)
	}
	var models []string
	for _, f := range found {
		models = append(models, f.Model)
	}
	if !slices.Equal(models, []string{"keyed/m", "works/qwen3:8b"}) {
		t.Fatalf("found %v", models)
	}
	if found[0].Key.Name != "KEYED" || len(found[1].Models) != 2 {
		t.Errorf("found %+v", found)
	}

	c, err := Load(Source{Home: homeWith(t, nil), Getenv: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	c.Use(found[1])
	if err := c.Configured(); err != nil || c.Providers["works"].BaseURL != known[0].BaseURL {
		t.Errorf("the found server cannot be used: %v, %+v", err, c.Providers)
	}
}

func TestNoServerIsLookedForWhenDiscoveryIsOff(t *testing.T) {
	home, err := HomeAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	found := Discover(t.Context(), Source{Home: home, Getenv: func(name string) string {
		return map[string]string{"MERCURY_DISCOVER": "off", "GROQ_API_KEY": "gsk-x"}[name]
	}})
	if len(found) != 1 || found[0].Provider.Name != "groq" {
		t.Errorf("found %+v", found)
	}
}
