package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPolicyPaths(t *testing.T) {
	reports := reports(t)
	w := newWorld(t)
	for path, text := range map[string]string{"/person/.ssh/key": "k", "/person/work/inner/.mercury/token": "t", "/person/.netrc": "n"} {
		if err := os.MkdirAll(filepath.Dir(w.dir+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.dir+path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.work, w.dir+"/alias"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.dir+"/person/.ssh", w.work+"/way-in"); err != nil {
		t.Fatal(err)
	}
	p := Policy{
		ReadWrite: []string{w.dir + "/alias", w.dir + "/person/missing"},
		ReadOnly:  []string{w.dir + "/person", w.self, w.dir + "/person/.ssh"},
		Hidden:    []string{w.home, w.dir + "/person/.ssh", w.dir + "/person/.netrc", w.dir + "/person/none"},
	}
	all := []attempt{
		{"a hidden folder in what may be read", []string{"list", w.dir + "/person/.ssh"}},
		{"a file of it", []string{"read", w.dir + "/person/.ssh/key"}},
		{"the same through a link", []string{"read", w.work + "/way-in/key"}},
		{"a hidden file", []string{"read", w.dir + "/person/.netrc"}},
		{"writing there", []string{"write", w.dir + "/person/.netrc"}},
		{"a new file in what is hidden", []string{"write", w.home + "/new"}},
	}
	open := []attempt{
		{"what lies beside it", []string{"read", w.outside + "/file"}},
		{"the workspace", []string{"write", w.work + "/new"}},
	}
	for _, r := range reports {
		t.Run(string(r.Level), func(t *testing.T) {
			w.tryAll(t, p, r, all)
			for _, a := range open {
				if code, out := w.run(t, p, r, nil, a.Args...); code != escaped {
					t.Errorf("%s: %s", a.Name, out)
				}
			}
			// What is hidden inside the workspace itself.
			q := Policy{ReadWrite: []string{w.work}, ReadOnly: []string{w.self}, Hidden: []string{w.work + "/inner/.mercury"}}
			w.tryAll(t, q, r, []attempt{{"Mercury's folder in the workspace", []string{"read", w.work + "/inner/.mercury/token"}}})
			if code, out := w.run(t, q, r, nil, "write", w.work+"/file"); code != escaped {
				t.Errorf("the workspace around it: %s", out)
			}
		})
	}
}

func TestACommandOutsideItsFenceIsRefused(t *testing.T) {
	r := reports(t)[0]
	w := newWorld(t)
	for dir, want := range map[string]string{w.outside: "not inside its fence", w.home: "not inside its fence", w.dir + "/none": "is gone"} {
		_, err := w.fence(t).prepare(Command{Path: "/bin/true", Args: []string{"true"}, Dir: dir}, w.policy(), r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	left, err := os.ReadDir(w.home + "/fence")
	if err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}

func TestAFenceThatCannotBeBuiltIsSaid(t *testing.T) {
	w := newWorld(t)
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			f := w.fence(t)
			f.report.Store(&r)
			p, err := f.prepare(Command{Path: w.work + "/no-program", Args: []string{"x"}, Dir: w.work}, w.policy(), r)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(); err == nil {
				t.Error("it ran")
			}
			if err := p.Close(); err == nil || !strings.Contains(err.Error(), "no such file") {
				t.Errorf("got %v", err)
			}
			if _, ok := f.Known(); ok {
				t.Error("the next command does not look again")
			}
		})
	}
	f := w.fence(t)
	f.sys.bwrap = "/bin/false"
	p, err := f.prepare(Command{Path: "/bin/true", Args: []string{"true"}, Dir: w.work}, w.policy(), Report{Level: Bwrap})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Run() // false fails
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "could not be built") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherProgramsPlanIsRefused(t *testing.T) {
	for plan, want := range map[string]string{`{"version":99}`: "version 99", `{`: "read the plan", ``: "read the plan"} {
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wr.WriteString(plan); err != nil {
			t.Fatal(err)
		}
		wr.Close()
		fd, err := unix.Dup(int(r.Fd())) // become closes it
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		err = become([]string{strconv.Itoa(fd), "--", "true"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", plan, err)
		}
	}
	for _, args := range [][]string{nil, {"3"}, {"3", "true", "x"}, {"x", "--", "true"}, {"0", "--", "true"}} {
		if become(args) == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestTheProfileOfMacOSDeniesLast(t *testing.T) {
	r := resolved{read: []string{"/usr", `/odd "name"`}, hidden: []string{"/person/.mercury"}}
	got := profile("/bin/mercury", r, []string{"/person/work"})
	order := []string{"(deny file-read*)", `(allow file-read* (subpath "/usr"))`, `(subpath "/odd \"name\"")`,
		`(allow file-read* file-write* (subpath "/person/work"))`, `(deny file-read* file-write* (subpath "/person/.mercury"))`, "(deny network*)"}
	at := -1
	for _, line := range order {
		i := strings.Index(got, line)
		if i <= at {
			t.Errorf("%s stands at %d, after %d", line, i, at)
		}
		at = i
	}
	r.network = true
	if strings.Contains(profile("/bin/mercury", r, nil), "(deny network*)") {
		t.Error("a granted network is denied")
	}
}

func TestCarveNamesEverythingButWhatIsHidden(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/secret", "a/b/open", "a/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a/b/secret"), filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	got, err := carve(dir, []string{filepath.Join(dir, "a/b/secret"), "/elsewhere"})
	want := []string{filepath.Join(dir, "a/b/open"), filepath.Join(dir, "a/c"), filepath.Join(dir, "d")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, _ := carve(dir, []string{dir}); len(got) > 0 {
		t.Errorf("a folder that is hidden itself: %q", got)
	}
	if got, _ := carve(dir, nil); !slices.Equal(got, []string{dir}) {
		t.Errorf("nothing hidden: %q", got)
	}
}

func TestTheEnvironmentPointsIntoTheFence(t *testing.T) {
	got := homed([]string{"PATH=/bin", "HOME=/person", "TMPDIR=/elsewhere", "TEMP=x"}, "/tmp")
	want := []string{"PATH=/bin", "HOME=/tmp/home", "TMPDIR=/tmp"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := homed([]string{"PATH=/bin"}, "/tmp"); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "HOME=") }) {
		t.Errorf("a home was invented: %q", got)
	}
}

func TestLeftFoldersAreRemovedWhateverTheirModes(t *testing.T) {
	dir := t.TempDir()
	f := New(Options{Scratch: dir + "/fence"})
	if err := os.MkdirAll(dir+"/fence/fence-1/locked/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir+"/fence/fence-1/locked", 0); err != nil {
		t.Fatal(err)
	}
	f.Empty()
	if _, err := os.Stat(dir + "/fence"); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}

func TestNothingOfTheEnvironmentStandsOnACommandLine(t *testing.T) {
	w := newWorld(t)
	for _, r := range reports(t) {
		p, err := w.fence(t).prepare(Command{Path: "/bin/true", Args: []string{"true"}, Env: []string{"KEY=canary"}, Dir: w.work}, w.policy(), r)
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for _, a := range append(p.Args, p.Env...) {
			all.WriteString(a)
		}
		if strings.Contains(all.String(), "canary") {
			t.Errorf("%s: %s", r.Level, all.String())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
