package file

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// A hundred thousand swaps of a folder for a link to one outside: no call of
// any tool shows, changes, removes or adds anything there.
func TestAHundredThousandSwapsLetNothingOutAndNothingIn(t *testing.T) {
	const swaps, rounds = 100_000, 200
	w := tooltest.NewWorld(t)
	files := New(Options{Hidden: []string{w.Home}, Trash: t.TempDir()})
	set := tool.NewSet(fence{w.Workspace}, append(files.Core(), files.More()...)...)
	path := filepath.Join(w.Workspace, "d")
	folder("secret.txt", "harmless")(path)
	link(w.Outside)(path + ".other")
	var turns atomic.Int64
	done := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() { // each swap is one call of the system: the path is always there
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, path+".other", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			turns.Add(1)
		}
	})
	calls := []struct{ name, args string }{
		{"read_file", `{"path":"d/secret.txt"}`}, {"write_file", `{"path":"d/secret.txt","content":"overwritten"}`},
		{"edit_file", `{"path":"d/secret.txt","old_string":"harmless","new_string":"overwritten"}`},
		{"delete_file", `{"path":"d/secret.txt"}`}, {"move_file", `{"from":"d/secret.txt","to":"moved.txt"}`},
		{"write_file", `{"path":"m.txt","content":"x"}`}, {"move_file", `{"from":"m.txt","to":"d/m.txt"}`},
		{"list_dir", `{"path":"d"}`}, {"search_text", `{"pattern":"CANARY|harmless","path":"d"}`},
		{"find_files", `{"pattern":"**","path":"d"}`}, {"delete_file", `{"path":"moved.txt"}`},
	}
	ran := map[string]int{}
	for i := 0; i < rounds || turns.Load() < swaps && !t.Failed(); i++ {
		for _, c := range calls {
			p := set.Prepare(t.Context(), w.Call(c.name, c.args))
			if p.Run == nil {
				continue
			}
			out, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			noSecret(t)(out)
			if !out.IsError {
				ran[c.name]++
			}
		}
	}
	close(done)
	over.Wait()
	for _, name := range []string{"read_file", "write_file", "delete_file", "move_file", "list_dir"} {
		if ran[name] == 0 {
			t.Errorf("no call of %s succeeded, which proves nothing", name)
		}
	}
	t.Logf("%d swaps, calls that succeeded: %v", turns.Load(), ran)
	if b, err := os.ReadFile(filepath.Join(w.Outside, "secret.txt")); err != nil || string(b) != tooltest.Secret+"\n" {
		t.Errorf("the file outside is now %q, %v", b, err)
	}
	if entries, err := os.ReadDir(w.Outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
}
