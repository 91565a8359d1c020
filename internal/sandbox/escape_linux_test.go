package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mercury-agent/mercury/internal/testenv"
)

// asUser names the run of the tests by somebody who is not root.
const asUser = "MERCURY_FENCE_AS_USER"

// stranger is a user id that nobody has.
const stranger = 54321

func (r *Report) parse(s string) error { return json.Unmarshal([]byte(s), r) }

// reports are the levels that work here, each as a probe would report it.
func reports(t testing.TB) []Report {
	t.Helper()
	bwrap := testenv.Need(t, "bwrap")
	sys := thisSystem()
	sys.bwrap = bwrap
	if sys.abi < abiAlone {
		testenv.Missing(t, "Landlock of ABI 6", "run a kernel of 6.12 or newer with landlock in its lsm= list")
	}
	f := New(Options{Self: program(t), Scratch: t.TempDir(), Bwrap: bwrap})
	var out []Report
	for _, level := range []Level{BwrapLandlock, Bwrap, Landlock} {
		f.sys.levels = []Level{level}
		r := f.search(t.Context())
		if r.Level != level {
			testenv.Missing(t, "the fence "+string(level), "allow user namespaces: "+r.String())
		}
		out = append(out, r)
	}
	return out
}

func program(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// a world is a person's machine: a Mercury with its secrets, a workspace, and
// what lies around.
type world struct {
	dir, home, outside, work, shared string
	self, setuid                     string
	pid                              int
	tcp, udp, abstract, named, datag string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	// Socket names are short; a test's own folder is not.
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(dir) })
	w := &world{dir: dir, home: dir + "/person/.mercury", outside: dir + "/person/letters", work: dir + "/person/work",
		shared: dir + "/person/shared", self: program(t), setuid: dir + "/person/work/setuid"}
	for _, d := range []string{w.home, w.outside, w.work, w.shared} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d+"/file", []byte("secret of "+d), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(w.self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.setuid, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		// Root may give the program to somebody else: the bit must not work.
		if err := os.Chown(w.setuid, stranger, stranger); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(w.setuid, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(w.self, "attack", "victim", w.home, w.outside+"/docker.sock")
	cmd.Env = []string{"TOKEN=secret"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it ends with an error, since its input does
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) != 5 {
		t.Fatalf("the victim says %q: %v", line, err)
	}
	w.pid, w.tcp, w.udp, w.abstract, w.named, w.datag = cmd.Process.Pid, f[0], f[1], f[2], f[3], f[4]
	return w
}

func (w *world) policy() Policy {
	return Policy{ReadWrite: []string{w.work}, ReadOnly: []string{w.shared, w.self}, Hidden: []string{w.home}}
}

func (w *world) fence(t testing.TB) *Fence {
	return New(Options{Self: w.self, Scratch: w.home + "/fence", Bwrap: testenv.Need(t, "bwrap")})
}

// run runs an attack in the fence and returns its exit code and what it said.
func (w *world) run(t testing.TB, p Policy, r Report, adjust func(*Process), args ...string) (int, string) {
	t.Helper()
	c := Command{Path: w.self, Args: append([]string{"x", "attack"}, args...), Env: []string{"HOME=/nowhere"}, Dir: w.work}
	proc, err := w.fence(t).prepare(c, p, r)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	proc.Stdout, proc.Stderr = &out, &out
	proc.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	proc.WaitDelay = 2 * time.Second
	if adjust != nil {
		adjust(proc)
	}
	err = proc.Run()
	code := proc.ProcessState.ExitCode()
	if proc.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		code = 128 + int(proc.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if cerr := proc.Close(); cerr != nil {
		t.Fatalf("%v: %s %v", cerr, out.String(), err)
	}
	return code, out.String()
}

// both runs the tests of f as whoever runs them and, for root, once more as a
// user without any rights.
func both(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	t.Run("as an unprivileged user", func(t *testing.T) {
		testenv.Need(t, "bwrap")
		unprivileged(t)
	})
}

// unprivileged runs the test once more as a user without any rights.
func unprivileged(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "u")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(dir) })
	b, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/sandbox.test", b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(dir+"/sandbox.test", "-test.run=^"+name+"$", "-test.v", "-test.timeout=2m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asUser+"=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNothingLeavesTheFence(t *testing.T) {
	both(t)
	list := func(w *world) []attempt {
		pid := strconv.Itoa(w.pid)
		return []attempt{
			{"Mercury's files", []string{"read", w.home + "/file"}},
			{"Mercury's folder", []string{"list", w.home}},
			{"a file outside", []string{"read", w.outside + "/file"}},
			{"a folder outside", []string{"list", w.outside}},
			{"writing outside", []string{"write", w.outside + "/file"}},
			{"writing to what may only be read", []string{"write", w.shared + "/file"}},
			{"a new file beside it", []string{"write", w.shared + "/new"}},
			{"cutting a file outside", []string{"truncate", w.outside + "/file"}},
			{"cutting what may only be read", []string{"truncate", w.shared + "/file"}},
			{"the mode of a file outside", []string{"chmod", w.outside + "/file"}},
			{"the mode of what may only be read", []string{"chmod", w.shared + "/file"}},
			{"removing a file outside", []string{"remove", w.outside + "/file"}},
			{"removing what may only be read", []string{"remove", w.shared + "/file"}},
			{"a hard link", []string{"hard link", w.shared + "/file", w.work + "/hard"}},
			{"a link", []string{"through a link", w.outside + "/file", w.work + "/soft"}},
			{"many dots", []string{"dots", w.outside + "/file"}},
			{"Mercury's environment", []string{"read", "/proc/" + pid + "/environ"}},
			{"Mercury's root", []string{"read", "/proc/" + pid + "/root" + w.outside + "/file"}},
			{"Mercury's folder through its process", []string{"list", "/proc/" + pid + "/cwd"}},
			{"Mercury's open files", []string{"follow", "/proc/" + pid + "/fd/1"}},
			{"Mercury's memory", []string{"memory of others", pid}},
			{"tracing Mercury", []string{"trace", pid}},
			{"signals to Mercury", []string{"signal", pid}},
			{"Mercury's limits", []string{"limits of others", pid}},
			{"Mercury's port", []string{"tcp", w.tcp}},
			{"a datagram", []string{"udp", w.udp}},
			{"an abstract socket", []string{"unix", w.abstract}},
			{"a socket in a folder", []string{"unix", w.named}},
			{"a service's socket", []string{"unix", w.outside + "/docker.sock"}},
			{"a datagram through a pair", []string{"datagram by a pair", w.datag}},
			{"a virtual machine's socket", []string{"virtual socket"}},
			{"a packet socket", []string{"packet socket"}},
			{"io_uring", []string{"io_uring"}},
			{"a mount", []string{"mount", w.shared, w.work}},
			{"the capabilities of root", []string{"capabilities"}},
			{"a program with another's rights", []string{"become root", w.setuid}},
			{"unmounting what hides Mercury", []string{"unmount", w.home}},
			{"the same in a namespace", []string{"unmount in a namespace", w.home}},
			{"system settings", []string{"write", "/proc/sys/kernel/hostname"}},
			{"services of the system", []string{"list", "/run/systemd"}},
		}
	}
	t.Run("the attempts work where nothing holds them", func(t *testing.T) {
		// These need root, or a machine that has the thing.
		special := []string{"a packet socket", "a mount", "the capabilities of root", "a program with another's rights", "system settings",
			"services of the system", "a virtual machine's socket", "io_uring", "the same in a namespace", "unmounting what hides Mercury"}
		w := newWorld(t)
		for _, a := range list(w) {
			if slices.Contains(special, a.Name) {
				continue
			}
			for _, d := range []string{w.home, w.outside, w.work, w.shared} { // each attempt spoils something
				if err := os.WriteFile(d+"/file", []byte("secret of "+d), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(w.self, append([]string{"attack"}, a.Args...)...)
			cmd.Dir = w.work
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s", a.Name, out)
			}
		}
	})
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			w := newWorld(t)
			narrow := w.policy()
			wide := w.policy()
			wide.ReadOnly = append(wide.ReadOnly, w.dir+"/person") // Mercury's folder lies inside what is granted
			w.tryAll(t, narrow, r, list(w))
			w.tryAll(t, wide, r, slices.DeleteFunc(list(w), func(a attempt) bool {
				return a.Name == "a file outside" || a.Name == "a folder outside" // granted now
			}))
			whole := w.policy()
			whole.ReadOnly = []string{"/"}
			w.tryAll(t, whole, r, slices.DeleteFunc(list(w), func(a attempt) bool {
				return a.Name == "a file outside" || a.Name == "a folder outside"
			}))
			for _, d := range []string{w.home, w.outside, w.shared} {
				if b, err := os.ReadFile(d + "/file"); err != nil || string(b) != "secret of "+d {
					t.Errorf("%s now holds %q, %v", d, b, err)
				}
			}
		})
	}
}

// tryAll makes the attempts in one fence and wants each to be held.
func (w *world) tryAll(t *testing.T, p Policy, r Report, all []attempt) {
	t.Helper()
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	code, out := w.run(t, p, r, nil, "several", string(b))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != escaped || len(lines) != len(all) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, all[i].Name+": held") {
			t.Error(line)
		}
	}
	_ = os.Remove(w.work + "/soft")
	_ = os.Remove(w.work + "/hard")
}

func TestWhatIsGrantedWorks(t *testing.T) {
	both(t)
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			w := newWorld(t)
			for _, tt := range []struct {
				name string
				args []string
			}{
				{"reading what may be read", []string{"read", w.shared + "/file"}},
				{"writing in the workspace", []string{"write", w.work + "/new"}},
				{"replacing a file there", []string{"write", w.work + "/file"}},
				{"removing it", []string{"remove", w.work + "/new"}},
				{"its own processes", []string{"read", "/proc/self/environ"}},
				{"the system's files", []string{"read", "/etc/passwd"}},
			} {
				if code, out := w.run(t, w.policy(), r, nil, tt.args...); code != escaped {
					t.Errorf("%s: exit code %d: %s", tt.name, code, out)
				}
			}
			p := w.policy()
			p.Network = true
			if code, out := w.run(t, p, r, nil, "tcp", w.tcp); code != escaped {
				t.Errorf("the network, where it is granted: exit code %d: %s", code, out)
			}
			for _, address := range []string{w.abstract, w.named} {
				if code, out := w.run(t, p, r, nil, "unix", address); code != held {
					t.Errorf("%s, with a network: exit code %d: %s", address, code, out)
				}
			}
			shell := Command{Path: "/bin/sh", Args: []string{"sh", "-c",
				`cd "$HOME" && echo x > y && cat y && echo z > "$TMPDIR/z" && (sleep 0 & wait) && ls /usr | grep -q bin && echo "$KEPT"`},
				Env: []string{"PATH=/usr/bin:/bin", "HOME=/root", "KEPT=kept"}, Dir: w.work}
			proc, err := w.fence(t).prepare(shell, w.policy(), r)
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			proc.Stderr = &errs
			out, err := proc.Output()
			if err != nil || string(out) != "x\nkept\n" {
				t.Errorf("a shell: %q, %v %s", out, err, errs.String())
			}
			scratch := proc.scratch
			if err := proc.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(scratch); !os.IsNotExist(err) {
				t.Errorf("its temporary files are left: %v", err)
			}
		})
	}
}

func TestATerminalStaysItsOwners(t *testing.T) {
	both(t)
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			w := newWorld(t)
			for _, how := range []string{"type into the terminal", "the terminal"} {
				master, slave := terminal(t)
				code, out := w.run(t, w.policy(), r, func(p *Process) {
					p.Stdin = slave
					p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				}, how)
				if code != held {
					t.Errorf("%s: exit code %d: %s", how, code, out)
				}
				master.Close()
				slave.Close()
			}
		})
	}
}

// terminal opens a pair of terminals.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestResourcesAreBounded(t *testing.T) {
	both(t)
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			w := newWorld(t)
			for _, tt := range []struct {
				limits Limits
				args   []string
				want   int
			}{
				{Limits{Processes: 40}, []string{"processes", "100"}, held},
				{Limits{Processes: 200}, []string{"processes", "20"}, escaped},
				{Limits{Memory: 512 << 20}, []string{"memory", "600"}, held},
				{Limits{Memory: 1024 << 20}, []string{"memory", "600"}, escaped},
				{Limits{FileSize: 1000}, []string{"large file", "2000"}, held},
				{Limits{FileSize: 1000}, []string{"large file", "900"}, escaped},
				{Limits{OpenFiles: 50}, []string{"open files", "100"}, held},
				{Limits{CPU: time.Second}, []string{"processor"}, 128 + int(syscall.SIGKILL)},
			} {
				if tt.limits.Processes == 0 && os.Getuid() == 0 {
					continue // held by the same means for everybody
				}
				if os.Getuid() == 0 && groupParent() == "" {
					t.Log("root without control groups has no bound on its processes")
					continue
				}
				p := w.policy()
				p.Limits = tt.limits
				if code, out := w.run(t, p, r, nil, tt.args...); code != tt.want {
					t.Errorf("%v with %+v: exit code %d: %s", tt.args, tt.limits, code, out)
				}
			}
		})
	}
}

func TestACommandEndsWithAKilledMercury(t *testing.T) {
	both(t)
	for _, r := range reports(t) {
		t.Run(string(r.Level), func(t *testing.T) {
			dir := t.TempDir()
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			mark := "mark" + strconv.FormatInt(time.Now().UnixNano(), 36)
			cmd := exec.Command(program(t), "attack", "middle", dir, program(t), string(b), mark)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
				t.Fatalf("it says %q: %v", line, err)
			}
			await(t, "the command to run", func() bool { return len(marked(mark)) > 0 })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait() // killed
			await(t, "the command to end", func() bool { return len(marked(mark)) == 0 })
		})
	}
}

// await waits for something that another process does.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// marked are the processes with MARK=mark in their environment.
func marked(mark string) (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("MARK="+mark)) {
			found = append(found, name)
		}
	}
	return found
}
