//go:build unix

package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

func content(t *testing.T, w tooltest.World, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.Workspace, name))
	must0(t, err)
	return string(b)
}

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	w := tooltest.NewWorld(t)
	out := do(t, w, "write_file", `{"path":"a/b/new.txt","content":"one\ntwo\n"}`)
	has(t, out, "Created "+w.Workspace+"/a/b/new.txt (8 bytes).")
	if !strings.Contains(out.Diff, "+one\n+two\n") || content(t, w, "a/b/new.txt") != "one\ntwo\n" {
		t.Errorf("got %q", out.Diff)
	}
	must0(t, os.Chmod(filepath.Join(w.Workspace, "notes.txt"), 0o750))
	out = do(t, w, "write_file", `{"path":"notes.txt","content":"alpha\nBETA\ngamma\n"}`)
	has(t, out, "Changed ", "(+1 −1 lines, now 17 bytes)")
	if !strings.Contains(out.Diff, "-beta\n+BETA\n") {
		t.Errorf("got %q", out.Diff)
	}
	info, err := os.Stat(filepath.Join(w.Workspace, "notes.txt"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the mode is now %v, %v", info.Mode(), err)
	}
	has(t, do(t, w, "write_file", `{"path":"notes.txt","content":"alpha\nBETA\ngamma\n"}`), "nothing was written")
	if out := do(t, w, "write_file", `{"path":"sub","content":""}`); !out.IsError {
		t.Errorf("a folder was overwritten: %q", out.Text)
	}
	left, err := filepath.Glob(filepath.Join(w.Workspace, ".mercury-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEditFileReplacesExactText(t *testing.T) {
	for _, tt := range []struct{ name, before, args, after, says string }{
		{"one place", "a\nb\nc\n", `"old_string":"b","new_string":"B"`, "a\nB\nc\n", "at line 2."},
		{"several lines", "a\nb\nc\n", `"old_string":"a\nb\n","new_string":""`, "c\n", "at line 1."},
		{"every place", "x\ny\nx x\n", `"old_string":"x","new_string":"z","replace_all":true`, "z\ny\nz z\n", "in 3 places, at lines 1, 3, 3."},
		{"not unique", "x\ny\nx\n", `"old_string":"x","new_string":"z"`, "", "is found 2 times, at lines 1, 3. Add surrounding lines"},
		{"other blanks", "if a {\n\tb()\n}\n", `"old_string":"if a {\n    b()","new_string":"x"`, "", "at line 1 differs from it only in blanks"},
		{"first line alone", "start here\nthen this\n", `"old_string":"start here\nthen that","new_string":"x"`, "", "its first line stands at line 1"},
		{"near", "the quick brown fox\n", `"old_string":"the quick red fox","new_string":"x"`, "", `the nearest lines are 1: "the quick brown fox"`},
		{"nothing like it", "a\n", `"old_string":"zzz","new_string":"x"`, "", "old_string is not in the file. Read the file again."},
		{"windows lines stay", "a\r\nb\r\nc\r\n", `"old_string":"a\nb","new_string":"a\nnew\nb"`, "a\r\nnew\r\nb\r\nc\r\n", "at line 1."},
		{"windows lines come with new ones", "a\r\nb\r\n", `"old_string":"b","new_string":"b\nc"`, "a\r\nb\r\nc\r\n", "at line 2."},
		{"mixed lines are left alone", "a\r\nb\nc\n", `"old_string":"b\nc","new_string":"d\ne"`, "a\r\nd\ne\n", "at line 2."},
		{"bytes that are no text are kept", "\xff\xfea\n", `"old_string":"a","new_string":"b"`, "\xff\xfeb\n", "at line 1."},
		{"the same", "a\n", `"old_string":"a","new_string":"a"`, "", "are the same"},
		{"empty", "a\n", `"old_string":"","new_string":"a"`, "", "old_string is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tooltest.NewWorld(t)
			put(t, w, "e.txt", tt.before)
			out := do(t, w, "edit_file", `{"path":"e.txt",`+tt.args+`}`)
			has(t, out, tt.says)
			want := tt.after
			if want == "" {
				want = tt.before
			}
			if got := content(t, w, "e.txt"); got != want || out.IsError != (tt.after == "") {
				t.Errorf("the file is %q, want %q; error %v", got, want, out.IsError)
			}
		})
	}
	w := tooltest.NewWorld(t)
	has(t, do(t, w, "edit_file", `{"path":"none/x.txt","old_string":"a","new_string":"b"}`), "does not exist")
	if _, err := os.Stat(filepath.Join(w.Workspace, "none")); err == nil {
		t.Error("an edit made a folder")
	}
}

func TestAChangeByOthersIsNotOverwritten(t *testing.T) {
	w := tooltest.NewWorld(t)
	path := filepath.Join(w.Workspace, "notes.txt")
	c := w.Call("", "")
	v := NewView(Options{}, c)
	for _, tt := range []struct {
		name   string
		change func()
	}{
		{"other content", func() {
			must0(t, os.WriteFile(path, []byte("theirs"), 0o644))
			must0(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Second)))
		}},
		{"another file", func() { must0(t, os.Rename(put(t, w, "x", "theirs"), path)) }},
		{"no file", func() { must0(t, os.Remove(path)) }},
		{"a link", func() {
			must0(t, os.Remove(path))
			must0(t, os.Symlink(put(t, w, "y", "theirs"), path))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must0(t, os.RemoveAll(path))
			put(t, w, "notes.txt", "ours")
			p, err := v.existing(path)
			must0(t, err)
			defer p.dir.Close()
			tt.change()
			if err := p.replace(t.Context(), []byte("new")); err == nil {
				t.Error("it was overwritten")
			}
		})
	}
	must0(t, os.RemoveAll(path))
	p, err := v.placeFor(path)
	must0(t, err)
	defer p.dir.Close()
	put(t, w, "notes.txt", "theirs")
	if err := p.replace(t.Context(), []byte("new")); err == nil || content(t, w, "notes.txt") != "theirs" {
		t.Errorf("a new file was overwritten: %v", err)
	}
}

func TestParallelEditsOfOneFileAllHappen(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "p.txt", "a\nb\nc\nd\ne\nf\ng\nh\n")
	edit := named(w, "edit_file")
	var wg sync.WaitGroup
	for _, letter := range strings.Split("abcdefgh", "") {
		wg.Go(func() {
			c := w.Call("edit_file", args(`{"path":"p.txt","old_string":"%s\n","new_string":"%s%s\n"}`, letter, letter, letter))
			var err error
			if c.Granted, err = edit.Accesses(t.Context(), c); err == nil {
				_, err = edit.Run(t.Context(), c)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := content(t, w, "p.txt"); got != "aa\nbb\ncc\ndd\nee\nff\ngg\nhh\n" {
		t.Errorf("got %q", got)
	}
}

func TestAReaderSeesTheOldContentOrTheNew(t *testing.T) {
	w := tooltest.NewWorld(t)
	old, fresh := strings.Repeat("o", 1<<20), strings.Repeat("n", 1<<20)
	path := put(t, w, "w.txt", old)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != old && string(b) != fresh {
				t.Errorf("saw %d bytes, %v", len(b), err)
				return
			}
		}
	})
	for i := range 20 {
		text := fresh
		if i%2 == 1 {
			text = old
		}
		if out := do(t, w, "write_file", args(`{"path":"w.txt","content":%q}`, text)); out.IsError {
			t.Error(out.Text)
		}
	}
	close(done)
	wg.Wait()
}

func TestAHardLinkIsSaidAndItsOtherNameKept(t *testing.T) {
	w := tooltest.NewWorld(t)
	other := filepath.Join(w.Outside, "other.txt")
	must0(t, os.WriteFile(other, []byte("theirs"), 0o644))
	must0(t, os.Link(other, filepath.Join(w.Workspace, "hard.txt")))
	c := w.Call("write_file", `{"path":"hard.txt","content":"mine"}`)
	as, err := named(w, "write_file").Accesses(t.Context(), c)
	if err != nil || !strings.Contains(as[0].Detail, "2 names") {
		t.Errorf("stated %v, %v", as, err)
	}
	// A grant for a plain file is none for this one.
	c.Granted = []mercury.Access{{Kind: mercury.WritePath, Target: as[0].Target}}
	if _, err := named(w, "write_file").Run(t.Context(), c); mercury.KindOf(err) != mercury.Denied {
		t.Errorf("got %v", err)
	}
	doCall(t, w, c)
	if b, err := os.ReadFile(other); err != nil || string(b) != "theirs" || content(t, w, "hard.txt") != "mine" {
		t.Errorf("the other name has %q, %v", b, err)
	}
}

func TestAWorkspaceThatIsGoneIsNotMadeAnew(t *testing.T) {
	w := tooltest.NewWorld(t)
	must0(t, os.RemoveAll(w.Workspace))
	out := do(t, w, "write_file", `{"path":"a.txt","content":"x"}`)
	has(t, out, w.Workspace+", where this conversation works, is gone")
	if _, err := os.Stat(w.Workspace); err == nil {
		t.Error("it was made anew")
	}
}

func TestAFolderThatMayNotBeWrittenIsSaid(t *testing.T) {
	w := tooltest.NewWorld(t)
	sub := filepath.Join(w.Workspace, "sub")
	must0(t, os.Chmod(sub, fs.FileMode(0o555)))
	t.Cleanup(func() { must0(t, os.Chmod(sub, 0o755)) })
	want := "the system does not permit it"
	if os.Geteuid() == 0 {
		want = "Created" // nothing is forbidden to root
	}
	has(t, do(t, w, "write_file", `{"path":"sub/x.txt","content":"x"}`), want)
}

func TestAnInterruptedChangeCanBeFoundOut(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "done.txt", "wanted")
	put(t, w, "other.txt", "something else")
	for _, tt := range []struct {
		name, tool, args string
		done, notDone    bool
	}{
		{"written", "write_file", `{"path":"done.txt","content":"wanted"}`, true, false},
		{"not there", "write_file", `{"path":"new/x.txt","content":"wanted"}`, false, true},
		{"other content", "write_file", `{"path":"other.txt","content":"wanted"}`, false, false},
		{"edited", "edit_file", `{"path":"notes.txt","old_string":"delta","new_string":"beta"}`, true, false},
		{"not edited", "edit_file", `{"path":"notes.txt","old_string":"beta","new_string":"delta"}`, false, true},
		{"one in the other", "edit_file", `{"path":"notes.txt","old_string":"beta","new_string":"beta2"}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, named(w, tt.tool))
			p := set.Prepare(t.Context(), w.Call(tt.tool, tt.args))
			if p.Probe == nil {
				t.Fatal("it cannot be found out")
			}
			done, notDone, err := p.Probe(t.Context())
			if err != nil || (done != nil) != tt.done || notDone != tt.notDone {
				t.Errorf("got %v, %v, %v", done, notDone, err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(w.Workspace, "new")); err == nil {
		t.Error("looking made a folder")
	}
}
