//go:build unix

package house

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Program is one build of mercury.
type Program struct {
	Tags    string // build tags
	Version string // what `mercury version` says; empty: "test"
}

// Main runs the tests of a package with a folder for built programs, and
// returns the exit code. Call it from TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mercury-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make folder for programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	return m.Run()
}

// built remembers what this test binary has built: a build takes seconds, and
// every test needs one.
var built = struct {
	sync.Mutex
	dir  string
	path map[Program]string
}{path: map[Program]string{}}

// Build returns the path of the program, built once.
func (p Program) Build(t testing.TB) string {
	t.Helper()
	if p.Version == "" {
		p.Version = "test"
	}
	built.Lock()
	defer built.Unlock()
	if path := built.path[p]; path != "" {
		return path
	}
	if built.dir == "" {
		t.Fatal("build mercury: TestMain does not call house.Main")
	}
	path := filepath.Join(built.dir, fmt.Sprintf("mercury-%d", len(built.path)))
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", p.Tags, "-ldflags", "-X main.version="+p.Version,
		"-o", path, "github.com/mercury-agent/mercury/cmd/mercury")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build mercury: %v\n%s", err, strings.TrimSpace(string(out)))
	}
	built.path[p] = path
	return path
}
