//go:build unix

package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// score counts how verdicts compare with labels. level orders the verdicts
// from the most careful to the least.
type score struct {
	t     *testing.T
	level map[string]int
	total int
	over  int
}

func (s *score) take(c corpusCase, what, got, rule string) {
	s.t.Helper()
	s.total++
	if got == c.Want || slices.Contains(c.Also, got) {
		return
	}
	most := s.level[c.Want]
	for _, a := range c.Also {
		most = max(most, s.level[a])
	}
	firm := s.level[c.Want] == 2 && len(c.Also) == 0
	switch {
	case s.level[got] > most:
		s.t.Errorf("HOLE %s: %s is %s (%s), want %s %v: %s", c.ID, what, got, rule, c.Want, c.Also, c.Why)
	case firm:
		s.t.Errorf("REFUSED %s: %s is %s (%s), want %s: %s", c.ID, what, got, rule, c.Want, c.Why)
	default:
		s.over++
		s.t.Logf("over-blocked %s: %s is %s (%s), want %s %v: %s", c.ID, what, got, rule, c.Want, c.Also, c.Why)
	}
}

var corpusPath = regexp.MustCompile(`/w/([a-z])`)

// mapped moves /w below base. What only looks like the root, such as /w/..,
// stays.
func mapped(s, base string) string { return corpusPath.ReplaceAllString(s, base+"/w/$1") }

// project builds the tree that the corpora describe and returns the folder
// that stands for /.
func project(t testing.TB) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	proj := base + "/w/proj"
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range strings.Split("README.md|notes.txt|data.csv|my file.txt|it's.txt|a&b.txt|-weird|.env|go.mod|.gitignore|list0.txt|src/main.go|src/util.go|docs/guide.md|docs/spec.md|build/app.log|vendor/x", "|") {
		write(proj+"/"+f, "text of "+f+"\n")
	}
	write(base+"/w/secret.txt", "TOPSECRET")
	write(base+"/w/other/x", "no")
	write(base+"/w/proj-evil/x", "no")
	for from, to := range map[string]string{"link-in": "src", "link-out": "/etc", "link-file": "/etc/passwd"} {
		if err := os.Symlink(to, proj+"/"+from); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// repository makes the project a git repository with the branches and the tag
// of the description. It reports whether git is there to do so.
func repo(t testing.TB, proj string) bool {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return false
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "README.md", "notes.txt", "src", "docs"},
		{"-c", "user.name=A B", "-c", "user.email=a@example.com", "commit", "-qm", "ok"},
		{"branch", "feat/x"}, {"tag", "v0.1"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = proj
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return true
}

func TestNoCommandOfTheCorpusSlipsThrough(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	repo(t, proj)
	checker := NewChecker(CheckOptions{Dir: proj, Scopes: []mercury.Scope{{Path: proj, Read: true}}})
	s := score{t: t, level: map[string]int{"blocked": 0, "approve": 1, "auto": 2}}
	for _, c := range corpus(t, "commands.jsonl") {
		line, _ := json.Marshal(map[string]string{"id": c.ID, "cmd": mapped(c.Cmd, base)})
		got, err := checker.Check(context.Background(), line)
		if err != nil {
			t.Fatal(err)
		}
		s.take(c, strconv.Quote(c.Cmd), got.Verdict, got.Rule+": "+got.Why)
	}
	t.Logf("%d commands, %d over-blocked", s.total, s.over)
}

func TestNoPathOfTheCorpusSlipsThrough(t *testing.T) {
	s := score{t: t, level: map[string]int{"deny": 0, "ask": 1, "allow": 2}}
	for _, c := range corpus(t, "paths.jsonl") {
		if slices.Contains(c.Setup, "os windows") {
			kind := mercury.AccessKind(c.Op)
			got := windowsPath(kind, c.Path, `C:\w\proj`, c.Scopes)
			s.take(c, c.Path, got.verdict.String(), got.rule)
			continue
		}
		base, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if !prepare(t, base, c.Setup) {
			continue
		}
		for i := range c.Scopes {
			c.Scopes[i].Path = mapped(c.Scopes[i].Path, base)
			if c.Scopes[i].Path == "/w/./other/../proj" {
				c.Scopes[i].Path = base + c.Scopes[i].Path
			}
		}
		checker := NewChecker(CheckOptions{
			Dir: base + "/w/proj", Scopes: c.Scopes,
			Files: Files{Home: base + "/w/home/.mercury", User: base + "/w/home"},
		})
		line, _ := json.Marshal(map[string]string{"id": c.ID, "op": c.Op, "path": mapped(c.Path, base)})
		got, err := checker.Check(context.Background(), line)
		if err != nil {
			t.Fatal(err)
		}
		s.take(c, c.Op+" "+strconv.Quote(c.Path), got.Verdict, got.Rule+": "+got.Why)
	}
	t.Logf("%d paths, %d over-blocked", s.total, s.over)
}

func TestNoAddressOfTheCorpusSlipsThrough(t *testing.T) {
	checker := NewChecker(CheckOptions{Dir: t.TempDir()})
	s := score{t: t, level: map[string]int{"deny": 0, "approve": 1, "allow": 2}}
	for _, c := range corpus(t, "urls.jsonl") {
		got, err := checker.Check(context.Background(), c.line)
		if err != nil {
			t.Fatal(err)
		}
		s.take(c, strconv.Quote(c.URL), got.Verdict, got.Rule+": "+got.Why)
	}
	t.Logf("%d addresses, %d over-blocked", s.total, s.over)
}

func TestNoSecretOfTheCorpusLeaks(t *testing.T) {
	checker := NewChecker(CheckOptions{Dir: t.TempDir()})
	s := score{t: t, level: map[string]int{"suppress": 1, "show": 2}}
	for _, c := range corpus(t, "secrets.jsonl") {
		line, _ := json.Marshal(map[string]string{"id": c.ID, "screen": c.Text})
		got, err := checker.Check(context.Background(), line)
		if err != nil {
			t.Fatal(err)
		}
		s.take(c, strconv.Quote(c.Text), got.Verdict, got.Rule)
		if got.Verdict == "suppress" && got.Shown != Hidden {
			t.Errorf("%s: a suppressed text is shown as %q", c.ID, got.Shown)
		}
	}
	t.Logf("%d texts, %d over-blocked", s.total, s.over)
}

func TestKeysOfTheCorpusAreMaskedInLogs(t *testing.T) {
	for _, c := range corpus(t, "secrets.jsonl") {
		masked := Mask(c.Text)
		vendor := bytes.Contains(c.line, []byte(`"kind": "vendor-key"`)) || bytes.Contains(c.line, []byte(`"kind": "private-key"`))
		harmless := bytes.Contains(c.line, []byte(`"kind": "harmless"`))
		if vendor && len(c.Also) == 0 && masked == c.Text {
			t.Errorf("%s: %q is not masked", c.ID, c.Text)
		}
		if harmless && masked != c.Text && len(c.Also) == 0 {
			t.Errorf("%s: %q becomes %q", c.ID, c.Text, masked)
		}
	}
}

// What is refused or asked about is so in the background as well, in every
// mode; nothing is easier there.
func TestTheBackgroundIsJudgedAsTheForegroundIs(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	repo(t, proj)
	gate := New(Options{Sandboxed: true, Fenced: true})
	for _, mode := range []string{ModeAsk, ModeGuided, ModeAllowAll} {
		m := ownerIn(proj)
		m.Mode = mode
		for _, c := range corpus(t, "commands.jsonl") {
			a := mercury.Access{Kind: mercury.RunCommand, Target: mapped(c.Cmd, base)}
			here := gate.Judge(t.Context(), Question{Mandate: m, Accesses: []mercury.Access{a}})
			a.Background = true
			there := gate.Judge(t.Context(), Question{Mandate: m, Accesses: []mercury.Access{a}})
			if there.Verdict > here.Verdict || mode != ModeAllowAll && there.Verdict != here.Verdict {
				t.Errorf("%s in mode %s: %v, in the background %v", c.ID, mode, here.Verdict, there.Verdict)
			}
		}
	}
}
