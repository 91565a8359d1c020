package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a system that was never seen: files of /proc and /etc, and what
// works on it.
type machine struct {
	files map[string]string
	bwrap bool
	abi   int
	works map[Level]error // nil for a level that is missing here
}

func (m machine) fence(t *testing.T) *Fence {
	t.Helper()
	root := t.TempDir()
	for name, text := range m.files {
		path := inFolder(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := New(Options{Self: program(t), Scratch: t.TempDir()})
	f.sys = system{root: root, abi: m.abi, id: "boot", levels: []Level{BwrapLandlock, Bwrap, Landlock},
		try: func(_ context.Context, r Report) error { return m.works[r.Level] }}
	if m.bwrap {
		f.sys.bwrap = "/usr/bin/bwrap"
	}
	return f
}

func TestTheLevelIsRightAndTheMessageNamesTheFix(t *testing.T) {
	denied := errors.New("bwrap: setting up uid map: Permission denied")
	noUser := map[Level]error{BwrapLandlock: denied, Bwrap: denied}
	nothing := map[Level]error{BwrapLandlock: denied, Bwrap: denied, Landlock: denied}
	ubuntu := "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n"
	for _, tt := range []struct {
		name    string
		machine machine
		level   Level
		missing string // part of why it is not stronger
		cure    string // part of the fix
	}{
		{"everything is there", machine{bwrap: true, abi: 7}, BwrapLandlock, "", ""},
		{"no bubblewrap", machine{abi: 7, files: map[string]string{"/etc/os-release": ubuntu}}, Landlock, "not installed", "sudo apt install bubblewrap"},
		{"no bubblewrap, like Fedora", machine{abi: 7, files: map[string]string{"/etc/os-release": "ID=nobara\nID_LIKE=\"rhel fedora\"\n"}}, Landlock, "not installed", "sudo dnf install bubblewrap"},
		{"no Landlock", machine{bwrap: true}, Bwrap, "no Landlock", "lsm="},
		{"an old Landlock", machine{bwrap: true, abi: 2}, Bwrap, "too old", "6.2"},
		{"a Landlock that cannot stand alone", machine{abi: 4, files: map[string]string{"/etc/os-release": ubuntu}}, None, "not installed", "sudo apt install bubblewrap"},
		{"neither", machine{files: map[string]string{"/etc/os-release": "ID=alpine"}}, None, "not installed", "sudo apk add bubblewrap"},
		{"no user namespaces", machine{bwrap: true, abi: 7, works: noUser, files: map[string]string{maxNamespaces: "0\n"}}, Landlock, "uid map", "sysctl -w user.max_user_namespaces"},
		{"Debian's switch", machine{bwrap: true, abi: 7, works: noUser, files: map[string]string{debianSwitch: "0\n"}}, Landlock, "uid map", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"AppArmor forbids them", machine{bwrap: true, abi: 4, works: noUser, files: map[string]string{ubuntuSwitch: "1\n", "/etc/os-release": ubuntu}}, None, "uid map", "/etc/apparmor.d/bwrap"},
		{"a container", machine{bwrap: true, abi: 7, works: noUser, files: map[string]string{"/.dockerenv": ""}}, Landlock, "uid map", "--security-opt"},
		{"a container without bubblewrap", machine{abi: 7, files: map[string]string{"/.dockerenv": "", "/etc/os-release": ubuntu}}, Landlock, "not installed", "--security-opt"},
		{"a container that allows nothing", machine{bwrap: true, abi: 7, works: nothing, files: map[string]string{"/proc/1/cgroup": "0::/kubepods/x"}}, None, "uid map", "--security-opt"},
		{"something else", machine{bwrap: true, works: nothing}, None, "uid map", "--unshare-all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.machine.fence(t)
			r := f.Probe(t.Context())
			if r.Level != tt.level || !strings.Contains(r.Missing, tt.missing) || !strings.Contains(r.Cure, tt.cure) || (tt.missing == "") != (r.Missing == "") {
				t.Errorf("got %+v", r)
			}
			if strings.Contains(r.Cure, "\n") {
				t.Errorf("the cure is more than one line: %q", r.Cure)
			}
			if known, ok := f.Known(); !ok || known != r {
				t.Errorf("it does not know what it found: %+v", known)
			}
		})
	}
}

func TestAPolicyThatCannotBeHeldIsRefused(t *testing.T) {
	denied := errors.New("denied")
	for _, tt := range []struct {
		name    string
		machine machine
		require Level
		refused bool
	}{
		{"any fence, and there is none", machine{}, "", true},
		{"bubblewrap, and there is Landlock", machine{abi: 7}, Bwrap, true},
		{"both, and there is bubblewrap", machine{bwrap: true, abi: 7, works: map[Level]error{BwrapLandlock: denied}}, BwrapLandlock, true},
		{"bubblewrap, and there are both", machine{bwrap: true, abi: 7}, Bwrap, false},
		{"Landlock, and there is bubblewrap", machine{bwrap: true}, Landlock, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.machine.fence(t)
			p, err := f.Command(t.Context(), Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/usr"}, Policy{Require: tt.require})
			if tt.refused != errors.Is(err, ErrUnheld) {
				t.Fatalf("got %v", err)
			}
			var refusal *Refusal
			if tt.refused && (!errors.As(err, &refusal) || refusal.Have.Cure == "" || !strings.Contains(err.Error(), refusal.Have.Cure)) {
				t.Errorf("it names no fix: %v", err)
			}
			if p != nil {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAProbeIsKeptUntilTheSystemChanges(t *testing.T) {
	f := machine{bwrap: true, abi: 7}.fence(t)
	f.opts.Cache = filepath.Join(t.TempDir(), "files", "fence.json")
	tries := 0
	f.sys.try = func(context.Context, Report) error { tries++; return nil }
	again := func() *Fence {
		g := New(f.opts)
		g.sys = f.sys
		return g
	}
	for _, g := range []*Fence{f, f, again()} {
		if r := g.Probe(t.Context()); r.Level != BwrapLandlock || !r.NoNested {
			t.Errorf("got %+v", r)
		}
	}
	if tries != 1 {
		t.Errorf("probed %d times", tries)
	}
	f.sys.id = "another boot"
	again().Probe(t.Context())
	if tries != 2 {
		t.Errorf("probed %d times after a restart of the machine", tries)
	}
	if err := os.WriteFile(f.opts.Cache, []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	g := again()
	g.Probe(t.Context())
	if tries != 3 {
		t.Errorf("probed %d times after the file was damaged", tries)
	}
	g.forget()
	g.Probe(t.Context())
	if tries != 4 {
		t.Errorf("probed %d times after a fence could not be built", tries)
	}
	f.sys.try = func(context.Context, Report) error { tries++; return errors.New("denied") }
	f.sys.id = "a boot where nothing works"
	again().Probe(t.Context())
	before := tries
	again().Probe(t.Context())
	if tries == before {
		t.Error("that nothing works was believed at the next start")
	}
}

func TestAProbeThatWasCutShortSaysNothing(t *testing.T) {
	f := machine{bwrap: true, abi: 7}.fence(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.sys.try = func(context.Context, Report) error { cancel(); return ctx.Err() }
	f.Probe(ctx)
	if r, ok := f.Known(); ok {
		t.Errorf("it knows %+v", r)
	}
}

func TestWithoutAHelperThereIsNoFence(t *testing.T) {
	if r := New(Options{}).Probe(t.Context()); r.Level != None {
		t.Errorf("got %+v", r)
	}
}
