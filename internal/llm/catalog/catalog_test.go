package catalog_test

import (
	"math"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAModelIsFoundByAnyOfItsNames(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-5-mini":                  "gpt-5-mini",
		"gpt-5-mini-2025-08-07":       "gpt-5-mini",
		"gpt-5":                       "gpt-5",
		"gpt-5-2025-08-07":            "gpt-5",
		"openai/GPT-4o":               "gpt-4o",
		"claude-sonnet-4-5-20250929":  "claude-sonnet-4",
		"anthropic/claude-sonnet-4-5": "claude-sonnet-4",
		"claude-sonnet-99":            "claude-",
		"gpt-5.9-hyper":               "",
		"qwen3:8b":                    "",
		"o3-deep-research":            "",
	} {
		if m, ok := catalog.Find(name); m.Name != want || ok != (want != "") {
			t.Errorf("%s is taken for %q, want %q", name, m.Name, want)
		}
	}
	if m, _ := catalog.Find("claude-sonnet-99"); m.Known() {
		t.Error("a model that nobody knows has a price")
	}
}

func TestTheTableIsWhole(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, catalog.Dated()); err != nil {
		t.Error(err)
	}
	if catalog.Currency() != "USD" {
		t.Errorf("prices in %q", catalog.Currency())
	}
}

func TestACostCountsEachKindOfTokenOnce(t *testing.T) {
	p := catalog.Price{Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15}
	u := mercury.Usage{Input: 1_000_000, Cached: 600_000, CacheWrite: 100_000, Output: 10_000}
	want := 0.3*3 + 0.6*0.3 + 0.1*3.75 + 0.01*15
	if got := p.Of(u); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (catalog.Price{Input: 1, Output: 1}).Of(u); math.Abs(got-1.01) > 1e-9 {
		t.Errorf("without reduced prices: %v", got)
	}
}
