package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

func put(t *testing.T, w tooltest.World, name, text string) string {
	t.Helper()
	path := filepath.Join(w.Workspace, name)
	must0(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must0(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestReadFileShowsLinesAndSaysHowToReadOn(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "empty.txt", "")
	put(t, w, "noend.txt", "one\ntwo")
	put(t, w, "bad.txt", "a\xc3(b\x1b[31m\n")
	put(t, w, "wide.txt", strings.Repeat("ü", 20000)+"\nnext\n")
	for _, tt := range []struct{ name, args, want string }{
		{"a small file is shown as it is", `{"path":"notes.txt"}`, "alpha\nbeta\ngamma\n"},
		{"a range says where it stands", `{"path":"notes.txt","offset":2,"limit":1}`, "beta\n[lines 2 to 2 of 3; read on with offset 3]"},
		{"the last lines have nothing after them", `{"path":"notes.txt","offset":2}`, "beta\ngamma\n[lines 2 to 3 of 3]"},
		{"an empty file", `{"path":"empty.txt"}`, "(the file is empty)"},
		{"no line feed at the end", `{"path":"noend.txt","offset":2}`, "two\n[lines 2 to 2 of 2]"},
		{"beyond the end", `{"path":"notes.txt","offset":9}`, "notes.txt has 3 lines; there is no line 9"},
		{"bytes that are no text", `{"path":"bad.txt"}`, "a\ufffd(b\n"},
		{"a binary file", `{"path":"blob.bin"}`, "blob.bin is a binary file (application/octet-stream, 6 bytes); its bytes are not shown."},
		{"a folder", `{"path":"sub"}`, "sub: it is a folder, not a file"},
		{"nothing", `{"path":"none.txt"}`, "none.txt does not exist"},
		{"a file as a folder", `{"path":"notes.txt/x"}`, filepath.Join(w.Workspace, "notes.txt") + " is a file, not a folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out := do(t, w, "read_file", tt.args); strings.TrimSuffix(out.Text, ". ") != tt.want {
				t.Errorf("got %q, want %q", out.Text, tt.want)
			}
		})
	}
	out := do(t, w, "read_file", `{"path":"wide.txt"}`)
	if !strings.HasSuffix(out.Text, " [… the line has 39.1 KB]\nnext\n") {
		t.Errorf("a long line is not cut: %.50q", out.Text)
	}
	out = do(t, w, "read_file", `{"path":"long.txt"}`)
	tooltest.Bounded(t, out)
	has(t, out, "of 5000; read on with offset ")
}

func TestWhatWasCutCanBeReadWithoutAsking(t *testing.T) {
	w := tooltest.NewWorld(t)
	must0(t, os.MkdirAll(w.Outputs, 0o700))
	path := filepath.Join(w.Outputs, "say-c1.txt")
	must0(t, os.WriteFile(path, []byte("the whole\n"), 0o600))
	for _, tt := range []struct{ name, args string }{
		{"read_file", args(`{"path":%q}`, path)},
		{"search_text", args(`{"path":%q,"pattern":"whole"}`, path)},
		{"search_text", args(`{"path":%q,"pattern":"whole"}`, w.Outputs)},
	} {
		c := w.Call(tt.name, tt.args)
		as, err := named(w, tt.name).Accesses(t.Context(), c)
		if err != nil || len(as) != 1 || as[0].Kind != mercury.OwnState {
			t.Errorf("%s states %v, %v", tt.name, as, err)
		}
		// Also where the folder lies in Mercury's own home.
		hidden := w
		hidden.Home = filepath.Dir(w.Outputs)
		has(t, doCall(t, hidden, c), "the whole")
	}
	// A link in it leads out of it.
	must0(t, os.Symlink(filepath.Join(w.Outside, "secret.txt"), filepath.Join(w.Outputs, "link.txt")))
	as, err := named(w, "read_file").Accesses(t.Context(), w.Call("read_file", args(`{"path":%q}`, filepath.Join(w.Outputs, "link.txt"))))
	if err != nil || as[0].Kind != mercury.ReadPath || as[0].Target != filepath.Join(w.Outside, "secret.txt") {
		t.Errorf("a link states %v, %v", as, err)
	}
}

func TestMercurysOwnIsOutOfReachUnderAnyName(t *testing.T) {
	w := tooltest.NewWorld(t)
	must0(t, os.Symlink(w.Home, filepath.Join(w.Workspace, "alias")))
	must0(t, os.Link(filepath.Join(w.Home, "token"), filepath.Join(w.Workspace, "hard.txt")))
	for _, tt := range []struct{ name, args string }{
		{"read_file", `{"path":"home/token"}`},
		{"read_file", `{"path":"alias/token"}`},
		{"read_file", `{"path":"hard.txt"}`},
		{"list_dir", `{"path":"home"}`},
		{"search_text", `{"pattern":"CANARY","path":"home"}`},
		{"search_text", `{"pattern":"CANARY","path":"home/token"}`},
		{"write_file", `{"path":"home/token","content":"mine"}`},
		{"write_file", `{"path":"home/new/permissions.yaml","content":"mine"}`},
		{"edit_file", `{"path":"hard.txt","old_string":"CANARY","new_string":"mine"}`},
	} {
		out := do(t, w, tt.name, tt.args) // everything it states is granted
		if !out.IsError || strings.Contains(out.Text, tooltest.Secret) || !strings.Contains(out.Text, errHidden.Error()) {
			t.Errorf("%s %s: %q", tt.name, tt.args, out.Text)
		}
	}
	for _, tt := range []struct{ name, args string }{
		{"search_text", `{"pattern":"CANARY"}`}, {"find_files", `{"pattern":"**/token"}`},
	} {
		if out := do(t, w, tt.name, tt.args); !strings.HasPrefix(out.Text, "[No line") && !strings.HasPrefix(out.Text, "No file") {
			t.Errorf("%s: %q", tt.name, out.Text)
		}
	}
	has(t, do(t, w, "list_dir", `{}`), "home (out of reach)\n")
	if b, err := os.ReadFile(filepath.Join(w.Home, "token")); err != nil || string(b) != tooltest.Secret+"\n" {
		t.Errorf("the token is now %q, %v", b, err)
	}
}

func TestAClosedFolderInAnOpenOneStaysClosed(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "closed/private.txt", tooltest.Secret)
	put(t, w, "closed/open/public.txt", "alpha")
	c := func(name, args string) tool.Call {
		c := w.Call(name, args)
		c.Mandate.Scopes = append(c.Mandate.Scopes,
			mercury.Scope{Path: filepath.Join(w.Workspace, "closed")},
			mercury.Scope{Path: filepath.Join(w.Workspace, "closed", "open"), Read: true})
		return c
	}
	out := doCall(t, w, c("search_text", `{"pattern":"CANARY|alpha"}`))
	if strings.Contains(out.Text, tooltest.Secret) {
		t.Errorf("a walk went in: %q", out.Text)
	}
	v := NewView(Options{}, c("", ""))
	for path, want := range map[string]bool{"notes.txt": true, "closed/private.txt": false, "closed/open/public.txt": true} {
		f, _, err := v.Open(path)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestAScopeInsideAWritableOneCannotBeMoved(t *testing.T) {
	w := tooltest.NewWorld(t)
	must0(t, os.Symlink(w.Outside, filepath.Join(w.Workspace, "docs")))
	c := w.Call("", "")
	c.Mandate.Scopes = append(c.Mandate.Scopes, mercury.Scope{Path: filepath.Join(w.Workspace, "docs"), Read: true})
	if f, _, err := NewView(Options{}, c).Open("docs/secret.txt"); err == nil {
		f.Close()
		t.Error("the scope moved outside")
	}
}

func TestWithoutAGrantNothingElseIsOpened(t *testing.T) {
	w := tooltest.NewWorld(t)
	c := w.Call("read_file", `{"path":"notes.txt"}`)
	c.Granted = []mercury.Access{{Kind: mercury.ReadPath, Target: filepath.Join(w.Workspace, "long.txt")}}
	if _, err := named(w, "read_file").Run(t.Context(), c); mercury.KindOf(err) != mercury.Denied {
		t.Errorf("got %v", err)
	}
}

func TestAOneOffGrantOpensWhatNoScopeCovers(t *testing.T) {
	w := tooltest.NewWorld(t)
	has(t, do(t, w, "read_file", `{"path":"out.txt"}`), tooltest.Secret)
	has(t, do(t, w, "read_file", args(`{"path":%q}`, filepath.Join(w.Outside, "secret.txt"))), tooltest.Secret)
}

func TestDevicesPipesAndProcessesAreNoFiles(t *testing.T) {
	w := tooltest.NewWorld(t)
	for path, want := range map[string]string{
		"/dev/zero": "it is a device, not a file", "/proc/self/environ": errHidden.Error(),
		// Which thread asks may change in between, and that is a refusal too.
		"/proc/thread-self/maps": "",
	} {
		if _, err := os.Lstat(path); err != nil {
			continue // not on this system
		}
		out := do(t, w, "read_file", args(`{"path":%q}`, path))
		if !out.IsError || !strings.Contains(out.Text, want) {
			t.Errorf("%s: %.100q", path, out.Text)
		}
	}
}

func TestListDirShowsKindsAndSizes(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "strange\nname.txt", "x")
	want := "blob.bin  6 bytes\nhome (out of reach)\nlong.txt  151.4 KB\nnotes.txt  17 bytes\nout.txt -> " + w.Outside + "/secret.txt\noutdir -> " + w.Outside + "\n\"strange\\nname.txt\"  1 byte\nsub/\n"
	if out := do(t, w, "list_dir", `{}`); out.Text != want {
		t.Errorf("got %q, want %q", out.Text, want)
	}
	must0(t, os.Mkdir(filepath.Join(w.Workspace, "nothing"), 0o755))
	has(t, do(t, w, "list_dir", `{"path":"nothing"}`), "(the folder is empty)")
	has(t, do(t, w, "list_dir", `{"path":"notes.txt"}`), "is a file, not a folder")
	for i := range listMax + 5 {
		put(t, w, args("many/%d", i), "")
	}
	has(t, do(t, w, "list_dir", `{"path":"many"}`), "[1000 of 1005 names")
}

func TestFindFilesKnowsGlobs(t *testing.T) {
	w := tooltest.NewWorld(t)
	for _, tt := range []struct{ args, want string }{
		{`{"pattern":"*.txt"}`, "long.txt\nnotes.txt\nout.txt\nsub/deep.txt\n"},
		{`{"pattern":"sub/*"}`, "sub/deep.txt\n"},
		{`{"pattern":"*","path":"sub"}`, "sub/deep.txt\n"},
		{`{"pattern":"{notes,deep}.*"}`, "notes.txt\nsub/deep.txt\n"},
		{`{"pattern":"*.go"}`, "No file matches."},
	} {
		if out := do(t, w, "find_files", tt.args); out.Text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, out.Text, tt.want)
		}
	}
}

func TestSearchTextFindsLines(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, "dos.txt", "first\r\nends here\r\n")
	put(t, w, "far.txt", strings.Repeat("x", 3000)+"needle"+strings.Repeat("y", 3000)+"\n")
	for _, tt := range []struct{ args, want string }{
		{`{"pattern":"alpha"}`, "notes.txt:1:alpha\nsub/deep.txt:1:deep alpha\n"},
		{`{"pattern":"^alpha$"}`, "notes.txt:1:alpha\n"},
		{`{"pattern":"\\Aalpha\\z"}`, "notes.txt:1:alpha\n"},
		{`{"pattern":"BETA"}`, "[No line matches.]\n"},
		{`{"pattern":"BETA","ignore_case":true}`, "notes.txt:2:beta\n"},
		{`{"pattern":"here$"}`, "dos.txt:2:ends here\n"},
		{`{"pattern":"alpha\\s+beta"}`, "[No line matches.]\n"},
		{`{"pattern":"alpha","glob":"sub/**"}`, "sub/deep.txt:1:deep alpha\n"},
		{`{"pattern":"beta","path":"notes.txt"}`, "notes.txt:2:beta\n"},
		{`{"pattern":"deep","path":"sub"}`, "sub/deep.txt:1:deep alpha\n"},
	} {
		if out := do(t, w, "search_text", tt.args); out.Text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, out.Text, tt.want)
		}
	}
	out := do(t, w, "search_text", `{"pattern":"needle"}`)
	has(t, out, "far.txt:1:…xxx", "needleyyy", "y…\n")
	out = do(t, w, "search_text", `{"pattern":"many"}`)
	has(t, out, "There may be more")
	tooltest.Bounded(t, out)
	has(t, do(t, w, "search_text", `{"pattern":"("}`), "missing closing )")
}

func TestPrivateFilesAreLeftOutOfWalks(t *testing.T) {
	w := tooltest.NewWorld(t)
	put(t, w, ".env", "KEY="+tooltest.Secret)
	o := Options{Hidden: []string{w.Home}, Private: func(path string) bool { return filepath.Base(path) == ".env" }}
	for _, tl := range Tools(o) {
		c := w.Call(tl.Spec().Name, `{"pattern":"CANARY"}`)
		if c.Name != "search_text" {
			continue
		}
		c.Granted, _ = tl.Accesses(t.Context(), c)
		out, err := tl.Run(t.Context(), c)
		if err != nil || strings.Contains(out.Text, tooltest.Secret) {
			t.Errorf("got %q, %v", out.Text, err)
		}
	}
}
