package file

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// git runs git with no configuration of this machine.
func git(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Need(t, "git"), args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && args[0] == "check-ignore" {
		err = nil // nothing is ignored
	}
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// hard are rules whose meaning is easy to get wrong.
var hard = []string{
	"*.log", "/build", "build/", "a/b", "a/**", "**/b", "a/**/c", "**", "**/", "*", "/*", "!keep", "!a/b/keep.log", "!*/",
	"foo*", "*o?", "[ab]*", "[!a]*", "[^a-c]x", "[]a]", "[a-", `\#x`, `\!x`, "#comment", "x\\ ", "x   ", `a\*b`, "a**b", "***",
	"a/*", "a/*/c", "/a/b/", "b/c", "/**/c", "a//b", "./a", "c/**/", "**a", "**/a/**", "[[:digit:]]*", "[[:nope:]]", "{a,b}",
	"keep.log\r", "\ufeffkeep", "ä*", "?", "??", "a?c", `\a`, `a\`, " ", "!", "/", "//", "[a-c]/b", "*/b", "**/*.log", "[/]b", "a[/]b", "b\t",
}

var names = []string{"a", "b", "c", "foo", "build", "keep", "keep.log", "x.log", "#x", "!x", "x ", "ä1", "1", "{a,b}", "a*b", "ax", "].x"}

// grow makes a random tree of small files and returns its files.
func grow(t *testing.T, r *rand.Rand, dir string) []string {
	t.Helper()
	var files []string
	for range 40 {
		path := names[r.IntN(len(names))]
		for range r.IntN(4) {
			path += "/" + names[r.IntN(len(names))]
		}
		full := filepath.Join(dir, path)
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
			continue // a file stands where a folder would be
		}
		if _, err := os.Lstat(full); err == nil {
			continue
		}
		must0(t, os.WriteFile(full, []byte("x"), 0o644))
		files = append(files, path)
	}
	return files
}

func must0(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rules(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		rule := hard[r.IntN(len(hard))]
		if r.IntN(4) == 0 && !strings.HasPrefix(rule, "!") {
			rule = "!" + rule
		}
		b.WriteString(rule + "\n")
	}
	return b.String()
}

// found lists what find_files finds.
func found(t *testing.T, dir, path string) []string {
	t.Helper()
	w := tooltest.World{Workspace: dir}
	out := do(t, w, "find_files", args(`{"pattern":"**","path":%q}`, path))
	if out.IsError {
		t.Fatal(out.Text)
	}
	if out.Text == "No file matches." {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(out.Text, " \n", "\x00\n")), "\n")
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\x00", " ")
	}
	slices.Sort(lines)
	return lines
}

func TestWhatGitIgnoresIsNotFound(t *testing.T) {
	trees := 40
	if testing.Short() {
		trees = 10
	}
	for seed := range trees {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must0(t, err)
		git(t, dir, "", "init", "-q")
		grow(t, r, dir)
		text := map[string]string{".gitignore": rules(r)}
		for _, sub := range []string{"a", "b", "a/b"} {
			if info, err := os.Stat(filepath.Join(dir, sub)); err == nil && info.IsDir() && r.IntN(2) == 0 {
				text[sub+"/.gitignore"] = rules(r)
			}
		}
		for name, rules := range text {
			must0(t, os.WriteFile(filepath.Join(dir, name), []byte(rules), 0o644))
		}
		want := strings.Split(strings.TrimSuffix(git(t, dir, "", "ls-files", "-o", "-z", "--exclude-per-directory=.gitignore"), "\x00"), "\x00")
		want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
		slices.Sort(want)
		if got := found(t, dir, "."); !slices.Equal(got, want) {
			t.Fatalf("tree %d with %q:\n got %q\nwant %q", seed, text, got, want)
		}
	}
}

func TestSingleRulesMeanWhatGitSays(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must0(t, err)
	git(t, dir, "", "init", "-q")
	var paths []string
	for _, a := range names {
		paths = append(paths, a)
		for _, b := range names[:9] {
			paths = append(paths, a+"/"+b, a+"/"+b+"/c")
		}
	}
	for _, rule := range hard {
		must0(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(rule+"\n"), 0o644))
		ignored := strings.Split(git(t, dir, strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "-z", "--stdin"), "\x00")
		ig := ignores{}.with(dir, rule+"\n")
		for _, p := range paths {
			// Git asks for each folder on the way too.
			got := false
			for parts := strings.Split(p, "/"); ; {
				for i := range parts {
					if ig.ignored(filepath.Join(dir, filepath.Join(parts[:i+1]...)), i < len(parts)-1) {
						got = true
						break
					}
				}
				break
			}
			if want := slices.Contains(ignored, p); got != want {
				t.Errorf("rule %q, path %q: ignored %v, git says %v", rule, p, got, want)
			}
		}
	}
}

func TestRulesFromAboveTheFolderHold(t *testing.T) {
	w := tooltest.NewWorld(t)
	must0(t, os.Mkdir(filepath.Join(w.Workspace, ".git"), 0o755))
	must0(t, os.WriteFile(filepath.Join(w.Workspace, ".gitignore"), []byte("deep.txt\n"), 0o644))
	must0(t, os.WriteFile(filepath.Join(w.Workspace, "sub", "other.txt"), []byte("x"), 0o644))
	if got := found(t, w.Workspace, "sub"); !slices.Equal(got, []string{"sub/other.txt"}) {
		t.Errorf("got %q", got)
	}
	as, err := named(w, "find_files").Accesses(t.Context(), w.Call("find_files", `{"pattern":"*","path":"sub"}`))
	if err != nil || len(as) != 2 || as[1].Target != filepath.Join(w.Workspace, ".gitignore") {
		t.Errorf("the file above is not stated: %v, %v", as, err)
	}
}

func TestASlowPatternIsGivenUp(t *testing.T) {
	steps := wildSteps
	if wild(strings.Repeat("*a", 40), 0, strings.Repeat("a", 60)+"b", &steps) || steps >= 0 {
		t.Errorf("%d steps are left", steps)
	}
}

func FuzzIgnoreRules(f *testing.F) {
	for _, rule := range hard {
		f.Add(rule, "a/b/c")
	}
	f.Fuzz(func(_ *testing.T, text, path string) {
		ignores{}.with("/w", text).ignored(filepath.Join("/w", path), true)
	})
}

func BenchmarkSearchText(b *testing.B) {
	w := tooltest.NewWorld(b)
	for i := range 200 {
		must0(b, os.WriteFile(filepath.Join(w.Workspace, fmt.Sprintf("f%d.txt", i)), []byte(strings.Repeat("some ordinary line of text\n", 2000)), 0o644))
	}
	tl := named(w, "search_text")
	c := w.Call("search_text", `{"pattern":"needle[0-9]+"}`)
	c.Granted, _ = tl.Accesses(b.Context(), c)
	b.SetBytes(200 * 2000 * 27)
	for b.Loop() {
		if _, err := tl.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
