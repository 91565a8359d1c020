//go:build unix

package permission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestTheDeepestScopeDecides(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/a/b/c", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/a/b", dir+"/a/link"); err != nil {
		t.Fatal(err)
	}
	scopes := []mercury.Scope{{Path: dir + "/a", Read: true, Write: true}, {Path: dir + "/a/b", Read: true}}
	for _, tt := range []struct {
		name string
		kind mercury.AccessKind
		path string
		want mercury.Verdict
	}{
		{"in the outer scope", mercury.WritePath, "a/x", mercury.Allow},
		{"in the inner scope", mercury.WritePath, "a/b/x", mercury.Ask},
		{"reading in the inner scope", mercury.ReadPath, "a/b/c", mercury.Allow},
		{"a link into the inner scope is judged as its target", mercury.WritePath, "a/link/x", mercury.Ask},
		{"a new file in folders that do not exist yet", mercury.WritePath, "a/x/y/z", mercury.Allow},
		{"out through a folder that does not exist", mercury.WritePath, "a/x/../../../y", mercury.Ask},
		{"a file used as a folder", mercury.WritePath, "a/b/c/../../../a/n", mercury.Allow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := (Files{}).judge(tt.kind, tt.path, dir, scopes); got.verdict != tt.want {
				t.Errorf("%v (%s)", got.verdict, got.why)
			}
		})
	}
}

func TestALinkIsDeletedAndNeverItsTarget(t *testing.T) {
	base := project(t)
	proj := base + "/w/proj"
	place, out := (Files{}).judge(mercury.DeletePath, "link-file", proj, []mercury.Scope{{Path: proj, Write: true}})
	if place.Path != proj+"/link-file" || out.rule != "path.delete" {
		t.Errorf("%s (%s)", place.Path, out.rule)
	}
}

func TestTheGrantedFolderItselfIsNotDeletedUnasked(t *testing.T) {
	proj := project(t) + "/w/proj"
	m := ownerIn(proj)
	m.Mode = ModeGuided
	for _, path := range []string{".", proj, "src/.."} {
		d := New(Options{}).Decide(t.Context(), Question{Mandate: m, Accesses: []mercury.Access{{Kind: mercury.DeletePath, Target: path}}})
		if d.Verdict != mercury.Ask {
			t.Errorf("%s: %v (%s)", path, d.Verdict, d.Rule)
		}
	}
}

func TestNamesThatHoldSecretsOrStartPrograms(t *testing.T) {
	for path, want := range map[string][2]bool{
		"/p/.env": {true, false}, "/p/.env.local": {true, false}, "/p/.env.example": {false, false}, "/p/environment": {false, false},
		"/h/.ssh/id_rsa": {true, true}, "/h/.ssh/id_rsa.pub": {false, true}, "/h/.ssh/known_hosts": {false, true},
		"/h/.aws/credentials": {true, false}, "/p/server.key": {true, false}, "/p/keys.md": {false, false}, "/p/key": {false, false},
		"/p/.git/hooks/x": {false, true}, "/p/.gitignore": {false, false}, "/p/.github/workflows/ci.yml": {false, false},
		"/p/.vscode/tasks.json": {false, true}, "/h/.BASHRC": {false, true}, "/h/.config/systemd/user/x": {false, true},
		"/h/Library/LaunchAgents/x": {false, true}, "/p/main.go": {false, false}, "/etc/cron.d/x": {false, true},
	} {
		if got := [2]bool{keepsSecrets(path), startsPrograms(path)}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestWindowsNamesMeanWhatTheySay(t *testing.T) {
	scopes := []mercury.Scope{{Path: `C:\w\proj`, Read: true, Write: true}}
	for path, want := range map[string]mercury.Verdict{
		`C:\W\Proj\x`: mercury.Allow, `c:/w/proj/x`: mercury.Allow, `src\x`: mercury.Allow, `\w\proj\x`: mercury.Allow,
		`C:\w\proj\.`: mercury.Allow, `C:\w\project`: mercury.Ask, `D:\w\proj\x`: mercury.Ask, `..\x`: mercury.Ask, `C:\w\proj\..\x`: mercury.Ask,
		`\\server\share`: mercury.Ask, `\\?\C:\w\proj\x`: mercury.Deny, `\\.\pipe\x`: mercury.Deny, `C:x`: mercury.Deny, `C:`: mercury.Deny,
		`con`: mercury.Deny, `src\aux.txt`: mercury.Deny, `COM¹`: mercury.Deny, `lpt1 .txt`: mercury.Deny, `x.txt.`: mercury.Deny, `x `: mercury.Deny,
		`a::$DATA`: mercury.Deny, `PROGRA~1\x`: mercury.Ask, `a~b`: mercury.Allow, `console.txt`: mercury.Allow, `com.txt`: mercury.Allow,
	} {
		if got := windowsPath(mercury.ReadPath, path, `C:\w\proj`, scopes); got.verdict != want {
			t.Errorf("%s: %v (%s), want %v", path, got.verdict, got.why, want)
		}
	}
}

func TestPathsAreShownWithoutTricks(t *testing.T) {
	if got := shown("a\u202eb\nc\u00e9"); got != `a\u202eb\u000acé` {
		t.Errorf("%q", got)
	}
}

// FuzzPath holds what walk promises against what the kernel opens.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "../x", "d/../a", "in/a", "out/x", "in/../a", "out/../x", "loop", "d//a/", "./.", "n/../../x", "a/b", "in/", "out/.."} {
		f.Add(s)
	}
	base, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	root := base + "/root"
	for _, dir := range []string{root + "/d", base + "/outside"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for _, file := range []string{root + "/a", root + "/d/a", base + "/x", base + "/outside/x"} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			f.Fatal(err)
		}
	}
	for from, to := range map[string]string{"in": "d", "out": "../outside", "loop": "loop", "d/up": "..", "abs": base + "/outside"} {
		if err := os.Symlink(to, root+"/"+from); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.IndexByte(raw, 0) >= 0 || filepath.IsAbs(raw) {
			return
		}
		place, out := (Files{}).judge(mercury.ReadPath, raw, root, []mercury.Scope{{Path: root, Read: true}})
		if !filepath.IsAbs(place.Path) && out.verdict != mercury.Deny {
			t.Fatalf("%q has no place and is %v", raw, out.verdict)
		}
		opened, err := os.Stat(root + "/" + raw)
		if err != nil || out.verdict == mercury.Deny {
			return
		}
		if place.Info == nil || !os.SameFile(opened, place.Info) {
			t.Fatalf("%q opens another file than %s", raw, place.Path)
		}
		real, err := filepath.EvalSymlinks(root + "/" + raw)
		if err != nil {
			return
		}
		inside := real == root || strings.HasPrefix(real, root+"/")
		if inside != (out.verdict == mercury.Allow) {
			t.Fatalf("%q is %s and %v (%s)", raw, real, out.verdict, out.rule)
		}
	})
}
