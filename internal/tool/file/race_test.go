//go:build unix

package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// swap puts a and b at path by turns, as fast as it can, until stopped. Each
// turn is one rename, so that path is there nearly always.
func swap(t *testing.T, path string, a, b func(at string)) (stop func() (turns int)) {
	t.Helper()
	done := make(chan struct{})
	turns := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		spare := path + ".spare"
		for ; ; turns++ {
			select {
			case <-done:
				return
			default:
			}
			make := a
			if turns%2 == 1 {
				make = b
			}
			_ = os.RemoveAll(spare)
			make(spare)
			if os.Rename(spare, path) != nil { // a folder in the way
				_ = os.RemoveAll(path)
				_ = os.Rename(spare, path)
			}
		}
	})
	return func() int { close(done); wg.Wait(); return turns }
}

func rounds(t *testing.T) int {
	if testing.Short() {
		return 500
	}
	return 8000
}

// race makes calls while path is swapped, and returns how many of them ran.
func race(t *testing.T, w tooltest.World, name, args string, look func(tool.Output)) (ran int) {
	t.Helper()
	set := tool.NewSet(fence{w.Workspace}, Tools(Options{Hidden: []string{w.Home}})...)
	for range rounds(t) {
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
	stop := swap(t, filepath.Join(w.Workspace, "r.txt"), file("harmless"), link(filepath.Join(w.Outside, "secret.txt")))
	ran := race(t, w, "read_file", `{"path":"r.txt"}`, noSecret(t))
	if turns := stop(); ran == 0 || turns < 100 {
		t.Errorf("%d reads against %d turns prove nothing", ran, turns)
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
			stop := swap(t, filepath.Join(w.Workspace, "d"), folder("secret.txt", "harmless"), link(w.Outside))
			ran := race(t, w, tt.name, tt.args, noSecret(t))
			if turns := stop(); ran == 0 || turns < 100 {
				t.Errorf("%d calls against %d turns prove nothing", ran, turns)
			}
		})
	}
}

func TestAWriteNeverFollowsALinkSwappedIn(t *testing.T) {
	for _, tt := range []struct{ name, tool, args string }{
		{"the file", "write_file", `{"path":"r.txt","content":"overwritten"}`},
		{"the file, edited", "edit_file", `{"path":"r.txt","old_string":"a","new_string":"overwritten"}`},
		{"the folder", "write_file", `{"path":"d/secret.txt","content":"overwritten"}`},
		{"the folder, with a new one in it", "write_file", `{"path":"d/new/file.txt","content":"overwritten"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tooltest.NewWorld(t)
			secret := filepath.Join(w.Outside, "secret.txt")
			stopFile := swap(t, filepath.Join(w.Workspace, "r.txt"), file("harmless"), link(secret))
			stopDir := swap(t, filepath.Join(w.Workspace, "d"), folder("secret.txt", "harmless"), link(w.Outside))
			race(t, w, tt.tool, tt.args, noSecret(t))
			if stopFile()+stopDir() < 200 {
				t.Error("too few turns prove nothing")
			}
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
	stop := swap(t, filepath.Join(w.Workspace, "r.txt"), file("harmless"), pipe)
	stopDir := swap(t, filepath.Join(w.Workspace, "d"), folder("secret.txt", "harmless"), pipe)
	race(t, w, "read_file", `{"path":"r.txt"}`, noSecret(t))
	race(t, w, "read_file", `{"path":"d/secret.txt"}`, noSecret(t))
	stop()
	stopDir()
}
