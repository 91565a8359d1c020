package argv

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestPlainStringsBecomeTheWordsAShellWouldMake(t *testing.T) {
	for in, want := range map[string][]string{
		"ls":                        {"ls"},
		"\t ls   -la \n":            {"ls", "-la"},
		`cat my\ file.txt`:          {"cat", "my file.txt"},
		`cat no"te"s.txt`:           {"cat", "notes.txt"},
		`echo "a\"b" 'c\d' "e\f"`:   {"echo", `a"b`, `c\d`, `e\f`},
		`find . -name \*.md`:        {"find", ".", "-name", "*.md"},
		"ls \\\n-la":                {"ls", "-la"},
		`git diff HEAD~1`:           {"git", "diff", "HEAD~1"},
		`ls a=b foo#bar`:            {"ls", "a=b", "foo#bar"},
		`grep '' f`:                 {"grep", "", "f"},
		`echo '$(id)' "a;b" x\>y`:   {"echo", "$(id)", "a;b", "x>y"},
		"cat docs/r\u00e9sum\u00e9": {"cat", "docs/résumé"},
	} {
		got, err := Parse(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Parse(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestShellSyntaxIsRefused(t *testing.T) {
	for _, in := range []string{
		"", "   ", "# ls", "ls #", "ls;", "ls &", "ls | wc", "ls && pwd", "! ls", "(ls)", "{ ls; }",
		"A=b ls", "A=b", "ls > x", "ls 2>&1", "cat <<< a", "echo $HOME", "echo \"$HOME\"", "echo `id`",
		"echo ${", "ls *", "ls ?", "ls [a]", "ls {a,b}", "ls ~", "ls ~root", "echo a=~", "echo !!",
		"ls $'a'", `ls $"a"`, "ls 'x", `ls \`, "time ls", "if ls; then :; fi", "f() { ls; }", "coproc ls",
		"[[ a ]]", "((1))", "export A=b", "ls\npwd", "ls\x00", "ls\r", "ls\x0b-la", "ls\u00a0-la",
		"cat a\u202e", "ls\u200b", "ls\u200d", "ls \x7f", "ls \xff", "ls\u2028id", "echo a(b)", "ls ]",
	} {
		if got, err := Parse(in); !errors.Is(err, ErrSyntax) {
			t.Errorf("Parse(%q) = %q, %v; want a refusal", in, got, err)
		}
	}
}

func TestHeadsAreFoundWhereverAParserCanSeeThem(t *testing.T) {
	for in, want := range map[string][]string{
		"ls | wc -l":                           {"ls", "wc"},
		"a; b && c || d &":                     {"a", "b", "c", "d"},
		"echo $(id) `who` \"$(pwd)\"":          {"echo", "id", "who", "pwd"},
		"cat <(id)":                            {"cat", "id"},
		"env -i A=b -u X nice -n 5 make":       {"env", "nice", "make"},
		"timeout -k 1 5 xargs -n1 rm":          {"timeout", "xargs", "rm"},
		"bash -lc 'a; b'":                      {"bash", "a", "b"},
		"sh -c \"sh -c 'a'\"":                  {"sh", "a"},
		"eval \"a b\"; command -v x":           {"eval", "a", "command"},
		"find . -exec rm {} \\; -ok cp {} x +": {"find", "rm", "cp"},
		"for i in 1; do a; done; f() { b; }":   {"a", "b"},
		"cat <<EOF\n$(id)\nEOF":                {"cat", "id"},
		"sh <<'EOF'\nmake\nEOF":                {"sh", "make"},
		"bash <<< 'make x'":                    {"bash", "make"},
		"echo 'make x' | sh":                   {"echo", "sh", "make"},
		"$x ls":                                {"?"},
		"{make,x}":                             {"make"},
		"make${IFS}x":                          {"make"},
		"ma$@ke":                               {"make"},
		"$'\\x6dake' x":                        {"make"},
		"ls\nid \"":                            {"ls", "id"},
		"cat <<EOF | sh\nmake\nEOF":            {"cat", "sh", "make"},
		"flock f -c 'make x'":                  {"flock", "make"},
		"env -S 'make x'":                      {"env", "make"},
	} {
		if got := Heads(in); !slices.Equal(got, want) {
			t.Errorf("Heads(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFunctionsThatMultiplyThemselvesAreSeen(t *testing.T) {
	for in, want := range map[string]bool{
		":(){ :|:& };:":           true,
		"b() { b | b & }; b":      true,
		"f() { f & f; }; f":       true,
		"f() { g | g; }; f":       false,
		"f() { f; }":              false,
		"while true; do x & done": false,
	} {
		if got := len(Read(in).Bombs) > 0; got != want {
			t.Errorf("Read(%q) finds a bomb: %v, want %v", in, got, want)
		}
	}
}

func TestAQuotedVectorReadsBack(t *testing.T) {
	words := []string{"ls", "a b", "it's", "$x", "", "*", "é"}
	got, err := Parse(Quote(words))
	if err != nil || !slices.Equal(got, words) {
		t.Errorf("Parse(Quote(%q)) = %q, %v", words, got, err)
	}
}

// FuzzParse compares every accepted string with what sh makes of it.
func FuzzParse(f *testing.F) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		testenv.Missing(f, "sh", "install a POSIX shell")
	}
	for _, s := range []string{
		"ls -la", `a "b c" 'd e' f\ g`, `"a\"b\\c\d"`, "a\\\nb", `''`, "a~b", "x#y", "é ü", `"a'b"`, "^ % , :",
		`a"b"c'd'e`, "a\tb", `\\\\`, `\'`, `a\"b`, "do then", "a=b", "--", "-n", `"\$x"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		late := time.AfterFunc(5*time.Second, func() { panic("too slow: " + strconv.Quote(s)) })
		defer late.Stop()
		Read(s)
		// A leading program of our own keeps sh from finding one.
		words, err := Parse("x " + s)
		if err != nil {
			return
		}
		// The word is given as an argument of printf, whose own format is fixed.
		cmd := exec.Command(sh, "-c", "printf '%s\\0' x "+s)
		cmd.Env = []string{"PATH=/nonexistent", "LC_ALL=C"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("sh refuses %q, which Parse reads as %q: %v", s, words, err)
		}
		got := strings.Split(string(bytes.TrimSuffix(out, []byte{0})), "\x00")
		if !slices.Equal(got, words) {
			t.Fatalf("Parse(%q) = %q, sh says %q", s, words, got)
		}
	})
}
