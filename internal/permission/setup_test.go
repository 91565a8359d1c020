//go:build unix

package permission

import (
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// prepare builds the tree of one path case below base. It reports whether the
// case can be tried here.
func prepare(t *testing.T, base string, setup []string) bool {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(path, text string) {
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, []byte(text), 0o644))
	}
	file(base+"/w/proj/README.md", "readme")
	file(base+"/w/proj/src/a.txt", "a")
	file(base+"/w/secret.txt", "TOPSECRET")
	must(os.MkdirAll(base+"/w/other", 0o755))
	for _, step := range setup {
		verb, rest, _ := strings.Cut(mapped(step, base), " ")
		first, more, _ := strings.Cut(rest, " ")
		_, last, _ := strings.Cut(rest, "> ")
		switch verb {
		case "dir":
			must(os.MkdirAll(first, 0o755))
		case "file":
			file(first, more)
		case "symlink":
			must(os.MkdirAll(filepath.Dir(first), 0o755))
			must(os.Symlink(last, first))
		case "hardlink":
			must(os.Link(strings.TrimPrefix(more, "= "), first))
		case "fifo":
			must(syscall.Mkfifo(first, 0o644))
		case "socket":
			// A name relative to the folder, since the system limits its length.
			t.Chdir(filepath.Dir(first))
			l, err := net.Listen("unix", filepath.Base(first))
			must(err)
			t.Cleanup(func() { l.Close() })
		case "sparse", "repeat":
			size := more[strings.LastIndexByte(more, ' ')+1:]
			n, err := strconv.ParseInt(size, 10, 64)
			must(err)
			file(first, "")
			must(os.Truncate(first, n))
		case "bytes":
			b, err := hex.DecodeString(more)
			must(err)
			file(first, string(b))
		case "mode":
			m, err := strconv.ParseUint(more, 8, 32)
			must(err)
			must(os.Chmod(first, os.FileMode(m)))
		case "move":
			must(os.Rename(first, last))
		case "grant", "race-loop": // the decision alone is judged here
		case "ci-fs":
			if _, err := os.Stat(base + "/W"); err != nil {
				return false
			}
		default:
			t.Fatalf("unknown setup verb %q", verb)
		}
	}
	return true
}
