//go:build unix

package permission

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestTheExampleOfTheManualIsTrue(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "permissions.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(manual), "```console\n")
	example, _, _ = strings.Cut(example, "```")
	_, asked, _ := strings.Cut(example, "<<'EOF'\n")
	asked, answered, ok := strings.Cut(asked, "EOF\n")
	if !ok {
		t.Fatal("the manual has no example")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	checker := NewChecker(CheckOptions{Dir: dir, Scopes: []mercury.Scope{ParseScope(dir + ":rw")}})
	want := strings.Split(strings.TrimSpace(answered), "\n")
	for i, line := range strings.Split(strings.TrimSpace(asked), "\n") {
		got, err := checker.Check(t.Context(), []byte(line))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(got)
		if string(b) != want[i] {
			t.Errorf("%s\ngives %s\nnot   %s", line, b, want[i])
		}
	}
}

func TestALineThatIsNoQuestionIsAnError(t *testing.T) {
	checker := NewChecker(CheckOptions{Dir: t.TempDir()})
	for _, line := range []string{"", "x", "[]", `{"id":"1"}`, `{"op":"move","path":"x"}`, `{"url":"x","dns":{"x":["y"]}}`} {
		if a, err := checker.Check(t.Context(), []byte(line)); err == nil {
			t.Errorf("%q is answered with %+v", line, a)
		}
	}
}

func TestACheckAnswersForItsMode(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	scopes := []mercury.Scope{ParseScope(dir + ":rw")}
	for mode, want := range map[string]string{"": "ask", ModeAsk: "ask", ModeGuided: "allow", ModeAllowAll: "allow"} {
		checker := NewChecker(CheckOptions{Dir: dir, Scopes: scopes, Mode: mode})
		a, err := checker.Check(t.Context(), []byte(`{"op":"delete","path":"x"}`))
		if err != nil || a.Verdict != want {
			t.Errorf("mode %q: %+v, %v", mode, a, err)
		}
	}
}

func TestAScopeIsReadFromItsFlag(t *testing.T) {
	for text, want := range map[string]string{"/a": "{/a true false false}", "/a:rw": "{/a true true false}", "a": "{a true false false}"} {
		if got := fmt.Sprint(ParseScope(text)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
