package mcp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// A server's program sees what its owner sees, but for Mercury's own folder.
func TestAServersProgramDoesNotReachWhatIsHidden(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := sandbox.New(sandbox.Options{Self: self, Scratch: t.TempDir()})
	if f.Probe(t.Context()).Veil == "" {
		testenv.Missing(t, "a way to hide a folder from programs", "allow user namespaces, or run a kernel with Landlock")
	}
	hidden, open := t.TempDir(), t.TempDir()
	for _, dir := range []string{hidden, open} {
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte("TOKEN-OF-THE-API"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Veil: func(ctx context.Context, c sandbox.Command) (*sandbox.Process, error) {
		return f.VeilServer(ctx, c, []string{hidden})
	}}
	c := newClient(t, &facts{meta: map[string]string{}}, o, program(t, "box", "ok", nil))
	approve(t, c, "box")
	has(t, do(t, c, "box_act", act("show "+filepath.Join(open, "token"))), "TOKEN-OF-THE-API")
	if out := do(t, c, "box_act", act("show "+filepath.Join(hidden, "token"))); strings.Contains(out.Text, "TOKEN-OF-THE-API") {
		t.Errorf("it read %s", out.Text)
	}
	has(t, do(t, c, "box_act", act("x")), "done x")

	// One that cannot be started says why, as without a veil.
	gone := program(t, "box", "ok", nil)
	gone.Command = []string{filepath.Join(hidden, "token")}
	if err := os.Chmod(gone.Command[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(t, &facts{meta: map[string]string{}}, o, gone).Test(t.Context(), "box"); err == nil {
		t.Error("a program in what is hidden was started")
	}
}
