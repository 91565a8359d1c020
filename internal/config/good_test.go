package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestABrokenFileStartsOnTheLastGoodCopyAndSaysSo(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": "owner: Ada # first\n"})
	src := Source{Home: h, Getenv: variables(nil)}
	c, degraded, err := LoadOrLastGood(src)
	if err != nil || degraded != nil {
		t.Fatal(degraded, err)
	}
	if err := c.Keep(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(h.Good()); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy: %v, %v", info, err)
	}
	for _, broken := range []string{"owner: Eve\nzebra: 1\n", "owner: \"", strings.Repeat("#", maxFile+1)} {
		if err := os.WriteFile(h.Config(), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		c, degraded, err = LoadOrLastGood(src)
		var problems Problems
		if err != nil || c.Owner != "Ada" || !errors.As(degraded, &problems) || mercury.HelpOf(degraded) == "" {
			t.Fatalf("got %+v, %v, %v", c, degraded, err)
		}
		if err := c.Keep(); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(h.Good()); string(got) != "owner: Ada # first\n" {
			t.Fatalf("the copy became %q", got)
		}
	}
}

func TestWithoutAGoodCopyABrokenFileIsAnError(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"none":                      {"mercury.yaml": "zebra: 1\n"},
		"broken too":                {"mercury.yaml": "zebra: 1\n", "mercury.yaml.good": "name: [\n"},
		"with a lost restriction":   {"mercury.yaml": "zebra: 1\n", "mercury.yaml.good": "permissions: { forbid: [x] }\n"},
		"with a value out of range": {"mercury.yaml": "zebra: 1\n", "mercury.yaml.good": "backup: { keep: 0 }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c, degraded, err := LoadOrLastGood(Source{Home: homeWith(t, files), Getenv: variables(nil)})
			if c != nil || degraded != nil || mercury.KindOf(err) != mercury.Setup || !strings.Contains(err.Error(), "zebra") {
				t.Errorf("got %v, %v, %v", c, degraded, err)
			}
		})
	}
}

// After an upgrade both the file and its copy may hold a key that the new
// version does not know.
func TestAKeyThatAnUpgradeRemovedDoesNotStopTheStart(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": "owner: Ada\nretired: 1\n", "mercury.yaml.good": "owner: Ada\nretired: 1\n", ".env": "broken line\nOPENAI_API_KEY=k\n"})
	c, degraded, err := LoadOrLastGood(Source{Home: h, Getenv: variables(nil)})
	if err != nil || c.Owner != "Ada" || c.Model == "" || degraded == nil || !strings.Contains(degraded.Error(), "retired") {
		t.Errorf("got %+v, %v, %v", c, degraded, err)
	}
}
