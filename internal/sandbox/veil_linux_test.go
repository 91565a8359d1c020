package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mercury-agent/mercury/internal/testenv"
)

// veilsHere are the ways to hide that work on this machine.
func veilsHere(t *testing.T) (ways []Veil) {
	t.Helper()
	f := New(Options{Self: program(t), Scratch: t.TempDir()})
	for _, how := range veils() {
		if err := f.tryVeil(t.Context(), how); err != nil {
			t.Logf("%s does not work here: %v", how, err)
			continue
		}
		ways = append(ways, how)
	}
	if len(ways) == 0 {
		testenv.Missing(t, "a way to hide a folder from commands", "allow user namespaces, or run a kernel of 5.19 or newer with landlock in its lsm= list")
	}
	return ways
}

// behind makes the attempts behind a veil and returns what became of each.
func (w *world) behind(t *testing.T, how Veil, all []attempt) map[string]string {
	t.Helper()
	list, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Options{Self: w.self, Scratch: w.home + "/fence"})
	c := Command{Path: w.self, Args: []string{"x", "attack", "several", string(list)}, Env: []string{"HOME=" + w.dir}, Dir: w.work}
	p, err := f.veil(c, []string{w.home}, how)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	err = p.Run()
	if cerr := p.Close(); cerr != nil || err != nil {
		t.Fatalf("%v, %v: %s", err, cerr, out.String())
	}
	became := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
		became[name] = what
	}
	return became
}

func TestAnAllowedCommandDoesNotReachMercurysFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Run("as an unprivileged user", func(t *testing.T) {
			veilsHere(t)
			unprivileged(t)
		})
	}
	held := func(w *world) []attempt {
		pid, secret := strconv.Itoa(w.pid), w.home+"/file"
		return []attempt{
			{"reading", []string{"read", secret}},
			{"writing", []string{"write", secret}},
			{"a new file", []string{"write", w.home + "/new"}},
			{"cutting", []string{"truncate", secret}},
			{"removing", []string{"remove", secret}},
			{"a hard link", []string{"hard link", secret, w.work + "/hard"}},
			{"a link", []string{"through a link", secret, w.work + "/soft"}},
			{"many dots", []string{"dots", secret}},
			{"moving the folder away", []string{"move", w.home, w.dir + "/person/moved"}},
			{"its own root", []string{"read", "/proc/self/root" + secret}},
			{"the runtime's root", []string{"read", "/proc/" + pid + "/root" + secret}},
			{"the runtime's folder", []string{"read", "/proc/" + pid + "/cwd/../../person/.mercury/file"}},
			{"the runtime's environment", []string{"read", "/proc/" + pid + "/environ"}},
			{"the runtime's open files", []string{"follow", "/proc/" + pid + "/fd/1"}},
			{"the runtime's memory", []string{"memory of others", pid}},
			{"tracing the runtime", []string{"trace", pid}},
			{"the runtime's socket", []string{"unix", w.named}},
			{"another mount", []string{"mount", w.home, w.work}},
			{"taking the cover away", []string{"unmount", w.home}},
			{"the same in a namespace", []string{"unmount in a namespace", w.home}},
		}
	}
	free := func(w *world) []attempt {
		return []attempt{
			{"reading elsewhere", []string{"read", w.outside + "/file"}},
			{"writing elsewhere", []string{"write", w.outside + "/file"}},
			{"a new file elsewhere", []string{"write", w.outside + "/new"}},
			{"removing it", []string{"remove", w.outside + "/new"}},
			{"listing the folder around it", []string{"list", w.dir + "/person"}},
			{"a port of this machine", []string{"tcp", w.tcp}},
			{"a service's socket", []string{"unix", w.outside + "/docker.sock"}},
			{"an abstract socket", []string{"unix", w.abstract}},
		}
	}
	for _, how := range veilsHere(t) {
		t.Run(string(how), func(t *testing.T) {
			w := newWorld(t)
			became := w.behind(t, how, held(w))
			for _, a := range held(w) {
				// Landlock alone knows no sockets in files before its ninth version.
				if a.Name == "the runtime's socket" && how == ByLandlock && thisSystem().abi < abiSockets {
					continue
				}
				if !strings.HasPrefix(became[a.Name], "held") {
					t.Errorf("%s: %q", a.Name, became[a.Name])
				}
			}
			if b, err := os.ReadFile(w.home + "/file"); err != nil || string(b) != "secret of "+w.home {
				t.Errorf("the file is %q now: %v", b, err)
			}
			became = w.behind(t, how, free(w))
			for _, a := range free(w) {
				if became[a.Name] != "escaped" {
					t.Errorf("%s: %q", a.Name, became[a.Name])
				}
			}
		})
	}
}

func TestTheAttemptsOnMercurysFolderWorkWithoutAVeil(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"read", w.home + "/file"}, {"read", "/proc/self/root" + w.home + "/file"}, {"unix", w.named},
		{"follow", "/proc/" + strconv.Itoa(w.pid) + "/fd/1"}, {"write", w.home + "/new"}, {"move", w.home, w.dir + "/moved"}} {
		if out, err := exec.Command(w.self, append([]string{"attack"}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// A folder that is mounted twice has two names, and is hidden under both.
func TestWhatIsMountedTwiceIsHiddenTwice(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Missing(t, "the right to mount", "run the tests as root")
	}
	dir := t.TempDir()
	home, again := dir+"/home", dir+"/again"
	for _, d := range []string{home + "/.mercury", again} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(home, again, "", unix.MS_BIND, ""); err != nil {
		testenv.Missing(t, "the right to mount", err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(again, 0); err != nil {
			t.Error(err)
		}
	})
	if got := everywhere([]string{home + "/.mercury"}); !slices.Equal(got, []string{again + "/.mercury", home + "/.mercury"}) {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAVeilItIsSaid(t *testing.T) {
	f := machine{}.fence(t)
	if _, err := f.Veil(t.Context(), Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/"}, []string{t.TempDir()}); err != ErrUnveiled {
		t.Errorf("got %v", err)
	}
}

func TestACommandDoesNotBeginInWhatIsHidden(t *testing.T) {
	dir := t.TempDir()
	f := New(Options{Self: program(t), Scratch: t.TempDir()})
	if _, err := f.veil(Command{Path: "/bin/true", Args: []string{"true"}, Dir: dir}, []string{dir}, ByLandlock); err == nil {
		t.Error("it would have begun there")
	}
}

func TestTheVeilOfMacOSDeniesWhatIsHiddenAndNothingElse(t *testing.T) {
	if got := veilProfile([]string{`/Users/a "b"/.mercury`}); got != "(version 1)\n(allow default)\n(deny file-read* file-write* (subpath \"/Users/a \\\"b\\\"/.mercury\"))\n" {
		t.Errorf("got %s", got)
	}
}
