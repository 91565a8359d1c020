package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
)

// running is a house that only notes what it is told.
type running struct {
	live
	taken    []*config.Config
	problems []string // each time, what was shown
	waiting  []string
	fail     error
	log      strings.Builder
}

func startLive(t *testing.T, yaml string) *running {
	t.Helper()
	home, err := config.HomeAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, home.Config(), yaml)
	src := config.Source{Home: home, Getenv: func(string) string { return "" }}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{}
	r.live = live{source: src, now: c, log: slog.New(slog.NewTextHandler(&r.log, nil)),
		take: func(_ context.Context, c *config.Config) ([]string, error) {
			if r.fail != nil {
				return nil, r.fail
			}
			r.taken = append(r.taken, c)
			return slices.DeleteFunc(config.Changed(r.now, c), func(k string) bool { return k != "web.listen" }), nil
		},
		say: func(problem string, waiting []string) {
			r.problems, r.waiting = append(r.problems, problem), waiting
		}}
	return r
}

const working = "model: local/a\nproviders: { local: { base_url: \"http://127.0.0.1:1/v1\" } }\nname: One\n"

func TestAChangedConfigurationIsTakenUpAndABrokenOneSaidOnce(t *testing.T) {
	r := startLive(t, working)
	file := r.source.Home.Config()
	now := func(yaml string) { t.Helper(); write(t, file, yaml); r.look(t.Context()) }

	now(working)
	if len(r.taken) != 0 {
		t.Fatal("nothing changed, and something was taken up")
	}
	now(strings.Replace(working, "One", "Two", 1))
	if len(r.taken) != 1 || r.taken[0].Name != "Two" || r.problems[len(r.problems)-1] != "" {
		t.Fatalf("took %d, said %q", len(r.taken), r.problems)
	}
	if good, err := os.ReadFile(r.source.Home.Good()); err != nil || !strings.Contains(string(good), "Two") {
		t.Errorf("the good copy holds %q, %v", good, err)
	}

	for _, broken := range []string{working + "permisions: {}\n", working[:len(working)-8] + "\"", "", "model: openai/x\n"} {
		now(broken)
		now(broken)
		if said := r.problems[len(r.problems)-1]; len(r.taken) != 1 || !strings.Contains(said, "the former one stays in use") {
			t.Errorf("%q: took %d, said %q", broken, len(r.taken), said)
		}
	}
	if n := strings.Count(r.log.String(), "cannot be used"); n != 4 {
		t.Errorf("four broken files were logged %d times:\n%s", n, r.log.String())
	}
	os.Remove(file)
	r.look(t.Context())
	if len(r.taken) != 1 {
		t.Error("a file that is gone was taken for an empty one")
	}

	r.fail = errors.New("no")
	now(strings.Replace(working, "One", "Three", 1))
	if r.now.Name != "Two" || !strings.Contains(r.problems[len(r.problems)-1], "no") {
		t.Errorf("a failed change: %s in use, said %q", r.now.Name, r.problems[len(r.problems)-1])
	}
	r.fail = nil
	now(strings.Replace(working, "One", "Three", 1) + "web: { listen: \"127.0.0.1:7\" }\n")
	if r.now.Name != "Three" || r.problems[len(r.problems)-1] != "" || !slices.Equal(r.waiting, []string{"web.listen"}) {
		t.Errorf("mended: %s in use, said %q, waiting %q", r.now.Name, r.problems[len(r.problems)-1], r.waiting)
	}
	r.look(t.Context())
	if !slices.Equal(r.waiting, []string{"web.listen"}) {
		t.Errorf("what waits was forgotten: %q", r.waiting)
	}
}

func TestAModelThatWasFoundStaysWhenTheFileNamesNone(t *testing.T) {
	r := startLive(t, "name: One\n")
	r.now.Use(config.Found{Provider: config.Known{Name: "local", API: "openai", BaseURL: "http://127.0.0.1:1/v1"}, Model: "local/found"})
	write(t, r.source.Home.Config(), "name: Two\n")
	r.look(t.Context())
	if len(r.taken) != 1 || r.taken[0].Model != "local/found" || r.taken[0].Configured() != nil {
		t.Errorf("took %d, said %q", len(r.taken), r.problems)
	}
}

func TestAReloadByHandSaysWhatItDid(t *testing.T) {
	r := startLive(t, working)
	says := func(want string) {
		t.Helper()
		text, err := r.Reload(t.Context())
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("it says %q, want %q in it", text, want)
		}
	}
	says("nothing has changed")
	write(t, r.source.Home.Config(), strings.Replace(working, "One", "Two", 1)+"web: { listen: \"127.0.0.1:1\" }\n")
	says("name")
	says("Waits for the next start: web.listen")
	write(t, r.source.Home.Config(), "permisions: {}\n")
	says("the former one stays in use")
	if r.now.Name != "Two" {
		t.Errorf("in use is %q", r.now.Name)
	}
}
