//go:build unix

package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// fence is a gate that allows what lies in the workspace, as it is resolved
// at that moment.
type fence struct{ workspace string }

func (g fence) Judge(_ context.Context, r tool.Request) mercury.Judgement {
	for _, a := range r.Accesses {
		if !within(a.Target, g.workspace) {
			return mercury.Judgement{Verdict: mercury.Deny, Rule: "fence"}
		}
	}
	return mercury.Judgement{Verdict: mercury.Allow, Rule: "fence"}
}

// A swapper puts two things at one path by turns, as fast as it can. Each turn
// is one rename, so that the path is there nearly always.
type swapper struct {
	turns atomic.Int64
	done  chan struct{}
	over  sync.WaitGroup
}

func swap(path string, a, b func(at string)) *swapper {
	s := &swapper{done: make(chan struct{})}
	s.over.Go(func() {
		spare := path + ".spare"
		for {
			select {
			case <-s.done:
				return
			default:
			}
			put := a
			if s.turns.Add(1)%2 == 0 {
				put = b
			}
			_ = os.RemoveAll(spare)
			put(spare)
			if os.Rename(spare, path) != nil { // a folder in the way
				_ = os.RemoveAll(path)
				_ = os.Rename(spare, path)
			}
		}
	})
	return s
}

func (s *swapper) stop() {
	close(s.done)
	s.over.Wait()
}

// turnsMin is how often the path must have changed for a race to prove
// something.
const turnsMin = 300

func rounds(t *testing.T) int {
	if testing.Short() {
		return 300
	}
	return 3000
}

// race makes calls while path is swapped, and returns how many of them ran.
func race(t *testing.T, w tooltest.World, s *swapper, name, args string, look func(tool.Output)) (ran int) {
	t.Helper()
	set := tool.NewSet(fence{w.Workspace}, Tools(Options{Hidden: []string{w.Home}})...)
	from := s.turns.Load()
	for i := 0; i < rounds(t) || s.turns.Load() < from+turnsMin; i++ {
		p := set.Prepare(t.Context(), w.Call(name, args))
		if p.Run == nil {
			continue
		}
		out, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !out.IsError {
			ran++
		}
		look(out)
	}
	return ran
}

func noSecret(t *testing.T) func(tool.Output) {
	return func(out tool.Output) {
		if strings.Contains(out.Text+out.Diff, tooltest.Secret) {
			t.Fatalf("the secret came out: %.200q", out.Text)
		}
	}
}

func file(text string) func(string) {
	return func(at string) { _ = os.WriteFile(at, []byte(text), 0o644) }
}

func link(target string) func(string) {
	return func(at string) { _ = os.Symlink(target, at) }
}

func folder(name, text string) func(string) {
	return func(at string) {
		_ = os.Mkdir(at, 0o755)
		_ = os.WriteFile(filepath.Join(at, name), []byte(text), 0o644)
	}
}

func TestAFileSwappedForALinkNeverShowsItsTarget(t *testing.T) {
	w := tooltest.NewWorld(t)
	s := swap(filepath.Join(w.Workspace, "r.txt"), file("harmless"), link(filepath.Join(w.Outside, "secret.txt")))
	defer s.stop()
	if race(t, w, s, "read_file", `{"path":"r.txt"}`, noSecret(t)) == 0 {
		t.Error("no read succeeded, which proves nothing")
	}
}

func TestAFolderSwappedForALinkNeverShowsItsTarget(t *testing.T) {
	for _, tt := range []struct{ name, args string }{
		{"read_file", `{"path":"d/secret.txt"}`},
		{"search_text", `{"pattern":"CANARY|harmless","path":"."}`},
		{"search_text", `{"pattern":"CANARY|harmless","path":"d"}`},
	} {
		t.Run(tt.name+tt.args, func(t *testing.T) {
			w := tooltest.NewWorld(t)
			must(t, os.Remove(filepath.Join(w.Workspace, "long.txt")))
			s := swap(filepath.Join(w.Workspace, "d"), folder("secret.txt", "harmless"), link(w.Outside))
			defer s.stop()
			if race(t, w, s, tt.name, tt.args, noSecret(t)) == 0 {
				t.Error("no call succeeded, which proves nothing")
			}
		})
	}
}

func TestAWriteNeverFollowsALinkSwappedIn(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args string
		dir              bool
	}{
		{"the file", "write_file", `{"path":"r.txt","content":"overwritten"}`, false},
		{"the file, edited", "edit_file", `{"path":"r.txt","old_string":"a","new_string":"overwritten"}`, false},
		{"the folder", "write_file", `{"path":"d/secret.txt","content":"overwritten"}`, true},
		{"the folder, with a new one in it", "write_file", `{"path":"d/new/file.txt","content":"overwritten"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tooltest.NewWorld(t)
			secret := filepath.Join(w.Outside, "secret.txt")
			s := swap(filepath.Join(w.Workspace, "r.txt"), file("harmless"), link(secret))
			if tt.dir {
				s.stop()
				s = swap(filepath.Join(w.Workspace, "d"), folder("secret.txt", "harmless"), link(w.Outside))
			}
			// A file that changes all the time is one that others change.
			if race(t, w, s, tt.tool, tt.args, noSecret(t)) == 0 && tt.dir {
				t.Error("no write succeeded, which proves nothing")
			}
			s.stop()
			if b, err := os.ReadFile(secret); err != nil || string(b) != tooltest.Secret+"\n" {
				t.Errorf("the file outside is now %q, %v", b, err)
			}
			if entries, err := os.ReadDir(w.Outside); err != nil || len(entries) != 1 {
				t.Errorf("outside there is now %v, %v", entries, err)
			}
		})
	}
}

func TestAPipeSwappedInDoesNotBlock(t *testing.T) {
	w := tooltest.NewWorld(t)
	pipe := func(at string) { _ = mkfifo(at) }
	for _, tt := range []struct {
		path, args string
		put        func(string)
	}{
		{"r.txt", `{"path":"r.txt"}`, file("harmless")},
		{"d", `{"path":"d/secret.txt"}`, folder("secret.txt", "harmless")},
	} {
		s := swap(filepath.Join(w.Workspace, tt.path), tt.put, pipe)
		race(t, w, s, "read_file", tt.args, noSecret(t))
		s.stop()
	}
}
