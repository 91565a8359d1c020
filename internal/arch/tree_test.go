package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A ban is text that must not stand in the tree.
type ban struct {
	name  string
	text  *regexp.Regexp
	where func(file string) bool // files it holds for; nil: all
}

var bans = []ban{
	{"a path of one machine", regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:,])/(?:work|tmp/wt|root/[\w.]+)/`), nil},
	{"somebody's home folder", regexp.MustCompile(`/(?:home|Users)/[a-z][\w-]*/`), outside("testdata")},
	{"a merge left open", regexp.MustCompile(`(?m)^(?:<{7}|>{7}) `), nil},
	{"work left undone", regexp.MustCompile(`\b(?:TODO|FIXME|XXX)\b`), goFile},
	{"work left undone", regexp.MustCompile(`(?i)\b(?:not (?:yet )?implemented|for now)\b`), goFile},
}

// homes are invented home folders that examples and fixtures may use.
var homes = regexp.MustCompile(`/(?:home|Users)/(?:you|me|owner|user|alice|bob|ada)/`)

// own is this file, which must spell out what it forbids.
const own = "internal/arch/tree_test.go"

func outside(folder string) func(string) bool {
	return func(file string) bool { return !slices.Contains(strings.Split(file, "/"), folder) }
}

func goFile(file string) bool { return strings.HasSuffix(file, ".go") }

// scan calls visit for each text file of the tree that belongs to the project.
func scan(tree fs.FS, visit func(file string, text []byte)) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist"}, path.Base(name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" || name == own {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) < 0 {
			visit(name, text)
		}
		return nil
	})
}

// find returns the first piece of text that a ban forbids in a file.
func find(b ban, file string, text []byte) string {
	if b.where != nil && !b.where(file) {
		return ""
	}
	for _, hit := range b.text.FindAll(text, -1) {
		if !homes.Match(hit) {
			return strings.TrimSpace(string(hit))
		}
	}
	return ""
}

func TestTheTreeIsFreeOfLeftovers(t *testing.T) {
	files := 0
	err := scan(os.DirFS(root), func(file string, text []byte) {
		files++
		for _, b := range bans {
			if hit := find(b, file, text); hit != "" {
				t.Errorf("%s holds %s: %q", file, b.name, hit)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("looked at only %d files", files)
	}
}

// skipping is a call that skips a test, on the handles that tests use.
var skipping = regexp.MustCompile(`\b(?:t|b|f|tb)\.Skip(?:f|Now)?\(`)

func TestSuitesAreSkippedInOnePlaceOnly(t *testing.T) {
	err := scan(os.DirFS(root), func(file string, text []byte) {
		if !strings.HasSuffix(file, "_test.go") && !ForTests(path.Dir(file)) || strings.HasPrefix(file, "internal/testenv/") {
			return
		}
		if hit := skipping.Find(text); hit != nil {
			t.Errorf("%s calls %s…): use testenv, which skips aloud", file, hit)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBansFindWhatTheyForbidAndNothingElse(t *testing.T) {
	for _, tt := range []struct {
		file, text string
		found      bool
	}{
		{"a.md", "see /work/notes.md", true},
		{"a.md", "(/tmp/wt/x)", true},
		{"a.md", "deliverables go to <fleet>/work/<crew>/", false},
		{"a.md", "homework/a.md and /workshop/", false},
		{"a.go", `"/home/somebody/x"`, true},
		{"a.go", `"/home/alice/x"`, false},
		{"internal/x/testdata/paths.jsonl", `"/home/somebody/x"`, false},
		{"a.go", "// TODO: later", true},
		{"a.md", "a TODO list", false},
		{"a.go", "todoList", false},
		{"a.md", "<<<<<<< main\n", true},
		{"a.md", "=======\n", false},
	} {
		hit := ""
		for _, b := range bans {
			if h := find(b, tt.file, []byte(tt.text)); h != "" {
				hit = h
			}
		}
		if (hit != "") != tt.found {
			t.Errorf("%s with %q: found %q", tt.file, tt.text, hit)
		}
	}
}
