//go:build unix

package file

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// pathCase is one line of testdata/paths.jsonl: what a scope policy says to a
// path in a small world below /w.
type pathCase struct {
	ID, Op, Path, Want, Why string
	Setup, Also             []string
	Scopes                  []mercury.Scope
}

// policy are cases where the path is contained and a rule about its name or
// its verb decides, which is the gate's.
var policy = []string{
	"path-011", "path-047", "path-094", "path-095", "path-097", "path-098", "path-100", "path-101",
	"path-061", // a hard link: the access says so, and a replacing write leaves the other name alone
}

func TestAViewContainsWhatTheScopesSay(t *testing.T) {
	f, err := os.Open("testdata/paths.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	judged := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c pathCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(policy, c.ID) {
			continue
		}
		t.Run(c.ID+" "+c.Why, func(t *testing.T) { c.check(t) })
		judged++
	}
	if judged < 70 {
		t.Errorf("only %d cases", judged)
	}
}

func (c pathCase) check(t *testing.T) {
	if c.elsewhere() {
		return
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := filepath.Join(top, "w")
	at := func(p string) string {
		if p == "/w" || strings.HasPrefix(p, "/w/") {
			return w + p[2:]
		}
		return p
	}
	for _, dir := range []string{"/w/proj/src", "/w/other", "/w/home/.mercury"} {
		must(t, os.MkdirAll(at(dir), 0o755))
	}
	for path, text := range map[string]string{"/w/proj/README.md": "x", "/w/proj/src/a.txt": "a", "/w/secret.txt": "TOPSECRET"} {
		must(t, os.WriteFile(at(path), []byte(text), 0o644))
	}
	for _, step := range c.Setup {
		setUp(t, at, step)
	}
	call := tool.Call{Mandate: mercury.Mandate{Workspace: at("/w/proj")}}
	for _, s := range c.Scopes {
		s.Path = at(s.Path)
		call.Mandate.Scopes = append(call.Mandate.Scopes, s)
	}
	v := NewView(Options{Home: at("/w/home"), Hidden: []string{at("/w/home/.mercury")}}, call)
	refused := v.refuses(c.Op, at(c.Path))
	labels := append([]string{c.Want}, c.Also...)
	switch {
	case refused == nil && !slices.Contains(labels, "allow"):
		t.Errorf("%s %s is opened", c.Op, c.Path)
	case refused != nil && c.Want == "allow" && len(c.Also) == 0:
		t.Errorf("%s %s is refused: %v", c.Op, c.Path, refused)
	}
}

// refuses goes as far as opening, and says what stood in the way. That there
// is no such file is no refusal.
func (v *View) refuses(op, path string) error {
	kind := mercury.ReadPath
	if op != "read" {
		kind = mercury.WritePath
	}
	real, err := v.admit(kind, path)
	if err != nil {
		return err
	}
	dir, err := v.dir(kind, filepath.Dir(real), false, real)
	if os.IsNotExist(err) {
		_, err = v.decides(kind, real)
		return err
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := dir.Lstat(filepath.Base(real))
	if err != nil || op == "read" && info.IsDir() {
		return nil
	}
	if op == "read" {
		f, _, err := v.openIn(dir, filepath.Base(real))
		if err == nil {
			f.Close()
		}
		return err
	}
	return v.plainFile(info)
}

// elsewhere reports whether the case needs another system, or is held by the
// race tests.
func (c pathCase) elsewhere() bool {
	return slices.ContainsFunc(c.Setup, func(step string) bool {
		verb, _, _ := strings.Cut(step, " ")
		return verb == "race-loop" || verb == "os" || verb == "ci-fs"
	})
}

// setUp does one step of a case's setup.
func setUp(t *testing.T, at func(string) string, step string) {
	t.Helper()
	verb, rest, _ := strings.Cut(step, " ")
	words := strings.Fields(rest)
	path := ""
	if len(words) > 0 {
		path = at(words[0])
		if verb != "os" && verb != "ci-fs" {
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		}
	}
	switch verb {
	case "dir":
		must(t, os.MkdirAll(path, 0o755))
	case "file":
		_, text, _ := strings.Cut(rest, " ")
		must(t, os.WriteFile(path, []byte(text), 0o644))
	case "symlink":
		must(t, os.Symlink(at(words[2]), path))
	case "hardlink":
		must(t, os.Link(at(words[2]), path))
	case "fifo":
		must(t, syscall.Mkfifo(path, 0o644))
	case "socket":
		t.Chdir(filepath.Dir(path)) // the name of a socket must be short
		l, err := net.Listen("unix", filepath.Base(path))
		must(t, err)
		t.Cleanup(func() { l.Close() })
	case "repeat":
		n, err := strconv.Atoi(words[2])
		must(t, err)
		must(t, os.WriteFile(path, []byte(strings.Repeat(words[1], n)), 0o644))
	case "bytes":
		b, err := hex.DecodeString(words[1])
		must(t, err)
		must(t, os.WriteFile(path, b, 0o644))
	case "mode":
		mode, err := strconv.ParseUint(words[1], 8, 32)
		must(t, err)
		must(t, os.Chmod(path, os.FileMode(mode)))
	case "move":
		must(t, os.Rename(path, at(words[2])))
	default:
		t.Fatalf("unknown step %q", step)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o644) }
