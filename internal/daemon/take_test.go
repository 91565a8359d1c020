package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	remote "github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// settled waits until the runtime says what ok wants to hear.
func settled(t *testing.T, c *remote.Client, what string, ok func(api.Status) bool) api.Status {
	t.Helper()
	var st api.Status
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if st, err = c.Status(t.Context()); err == nil && ok(st) {
			return st
		}
	}
	t.Fatalf("%s: %+v, %v", what, st, err)
	return st
}

func TestARunningHouseFollowsItsConfiguration(t *testing.T) {
	one, two := llmtest.Start(t, llmtest.Script{Default: "One here."}), llmtest.Start(t, llmtest.Script{Default: "Two here."})
	home, err := config.HomeAt(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Create(); err != nil {
		t.Fatal(err)
	}
	yaml := func(model, rest string) string {
		return fmt.Sprintf("model: %s/m\nproviders:\n  one: { base_url: %q }\n  two: { base_url: %q, api_key: \"${TWO_KEY}\" }\nworkspace: %q\nweb: { listen: \"127.0.0.1:0\" }\n%s",
			model, one.URL+"/v1", two.URL+"/v1", filepath.Join(home.Dir(), "work"), rest)
	}
	write(t, home.Config(), yaml("one", ""))
	src := config.Source{Home: home}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(t.Context(), Options{Home: home, Config: c, Version: "test", Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	r := remote.New(h.Addr(), h.Token())
	asked := 0
	hear := func(want string) {
		t.Helper()
		asked++
		sent, err := r.Send(t.Context(), "talk", remote.Message{Text: fmt.Sprintf("hello %d", asked)})
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if run, err := r.Run(t.Context(), *sent.RunID); err == nil && run.State == "done" || time.Now().After(end) {
				break
			}
		}
		entries, err := r.Entries(t.Context(), "talk", 0)
		if err != nil || len(entries) == 0 || entries[len(entries)-1].Text != want {
			t.Fatalf("heard %+v, %v; want %q", entries, err, want)
		}
	}
	hear("One here.")

	// Another model, whose key comes into .env first.
	if err := config.SetVariable(home, "TWO_KEY", "key-of-two-0123456789"); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Set(src, "model", "two/m"); err != nil {
		t.Fatal(err)
	}
	settled(t, r, "another model", func(st api.Status) bool { return st.Model == "two/m" })
	hear("Two here.")
	if got := h.secrets.Hide("it is key-of-two-0123456789"); strings.Contains(got, "key-of-two") {
		t.Error("the new key is not known as a secret")
	}

	// A broken file changes nothing and is said; mended, nothing is left of it.
	write(t, home.Config(), yaml("one", "permisions: {}\n"))
	st := settled(t, r, "a broken file", func(st api.Status) bool { return len(st.Problems) == 1 })
	if st.State != "degraded" || st.Model != "two/m" || !strings.Contains(st.Problems[0], "the former one stays in use") {
		t.Errorf("got %+v", st)
	}
	hear("Two here.")
	write(t, home.Config(), yaml("one", "name: Nova\nheartbeat: { every: 2h }\n"))
	st = settled(t, r, "mended", func(st api.Status) bool { return len(st.Problems) == 0 })
	if st.Model != "one/m" || st.Name != "Nova" || !slices.Equal(st.Restart, []string{"heartbeat.every"}) {
		t.Errorf("got %+v", st)
	}
	hear("One here.")

	// Rights and people are those of the file from now on.
	write(t, home.Config(), yaml("one", "permissions: { mode: ask }\nroles: { guest: { permissions: [prompt] } }\nchannels: { relay: { url: \"http://127.0.0.1:1\", owners: [me] } }\n"))
	st = settled(t, r, "rights", func(st api.Status) bool { return slices.Contains(st.Restart, "channels.relay.url") })
	now := h.rooms.Load().current.now.Load()
	if now.mode != "ask" || now.people("relay", mercury.Actor{ID: "me"}) != "owner" || slices.Contains(st.Restart, "permissions.mode") {
		t.Errorf("mode %s; restart %q", now.mode, st.Restart)
	}
	if _, err := os.Stat(home.Good()); err != nil {
		t.Errorf("the last good copy: %v", err)
	}
}
