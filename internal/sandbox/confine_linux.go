package sandbox

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// confine takes from this process, for good, what the plan does not leave it,
// and becomes the command.
func confine(pl *plan) error {
	if pl.Level == Veiled {
		return veil(pl)
	}
	// Rights belong to threads; the one that becomes the command must be the
	// one that lost them.
	runtime.LockOSThread()
	// The ready pipe ends at the moment the command begins.
	unix.CloseOnExec(readyFD)
	for i := range pl.Groups {
		if err := enterGroup(groupFD + i); err != nil {
			return fmt.Errorf("enter the control group: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if !pl.OwnPIDs {
		// bubblewrap ends with its parent; here the command does so itself.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("end with the parent: %w", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if pl.ABI > 0 {
		if err := restrict(pl); err != nil {
			return err
		}
	}
	if err := filterCalls(pl); err != nil {
		return err
	}
	if err := limitResources(pl); err != nil {
		return err
	}
	if _, err := unix.Write(readyFD, []byte(began)); err != nil {
		return fmt.Errorf("say that the command begins: %w", err)
	}
	if err := unix.Exec(pl.Path, pl.args, pl.Env); err != nil {
		return fmt.Errorf("%s: %w", pl.Path, err)
	}
	return nil
}

// dropCapabilities leaves root without its powers over others. Somebody else
// has none to lose.
func dropCapabilities() error {
	for c := 0; ; c++ {
		if have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil || have < 0 {
			break // beyond the last one this kernel knows
		}
		// Without the right to lower the bound there is nothing to bound.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}

// abis are the library's presets by the number of the kernel's interface.
var abis = []landlock.Config{{}, landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6,
	landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11}

// devices may be read and written by every command.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// restrict applies Landlock with everything the plan's ABI knows. It never
// makes do with less.
func restrict(pl *plan) error {
	config := abis[min(pl.ABI, len(abis)-1)]
	if pl.Network || pl.OwnNet {
		config.HandledAccessNet = 0
	}
	var rules []landlock.Rule
	for _, path := range pl.Read {
		if isFolder(path) {
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		} else {
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		}
	}
	for _, path := range pl.Write {
		if isFolder(path) {
			rule := landlock.RWDirs(path).IgnoreIfMissing()
			if pl.ABI >= 2 {
				rule = rule.WithRefer()
			}
			if path == "/dev" && pl.ABI >= 5 {
				rule = rule.WithIoctlDev() // its terminals
			}
			rules = append(rules, rule)
		} else {
			rules = append(rules, landlock.RWFiles(path).IgnoreIfMissing())
		}
	}
	if pl.Level == Landlock {
		rules = append(rules, landlock.RODirs("/proc"), landlock.RWFiles(devices...).IgnoreIfMissing())
	}
	if err := config.Restrict(rules...); err != nil {
		return fmt.Errorf("apply Landlock: %w", err)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.IsDir()
}

func limitResources(pl *plan) error {
	l := pl.Limits
	set := func(name string, resource int, soft, hard uint64) error {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: soft, Max: hard}); err != nil {
			return fmt.Errorf("limit %s: %w", name, err)
		}
		return nil
	}
	bound := func(resource int, want uint64) uint64 {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil {
			return min(want, now.Max) // never more than there was
		}
		return want
	}
	if err := set("core files", unix.RLIMIT_CORE, 0, 0); err != nil {
		return err
	}
	if l.CPU > 0 {
		s := bound(unix.RLIMIT_CPU, uint64(math.Ceil(l.CPU.Seconds())))
		if err := set("processor time", unix.RLIMIT_CPU, s, s); err != nil {
			return err
		}
	}
	if l.FileSize > 0 {
		n := bound(unix.RLIMIT_FSIZE, uint64(l.FileSize))
		if err := set("file size", unix.RLIMIT_FSIZE, n, n); err != nil {
			return err
		}
	}
	if l.OpenFiles > 0 {
		n := bound(unix.RLIMIT_NOFILE, uint64(l.OpenFiles))
		if err := set("open files", unix.RLIMIT_NOFILE, n, n); err != nil {
			return err
		}
	}
	if l.Processes > 0 {
		n := uint64(l.Processes)
		if !pl.OwnPIDs {
			// The kernel counts all of the user's, so those are added.
			n += uint64(tasksOf(os.Getuid()))
		}
		n = bound(unix.RLIMIT_NPROC, n)
		if err := set("processes", unix.RLIMIT_NPROC, n, n); err != nil {
			return err
		}
	}
	if l.Memory > 0 {
		n := bound(unix.RLIMIT_DATA, uint64(l.Memory))
		if err := set("memory", unix.RLIMIT_DATA, n, n); err != nil {
			return err
		}
	}
	return nil
}

// tasksOf counts the threads of a user's processes.
func tasksOf(uid int) (n int) {
	names, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		var owner, threads int
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			switch {
			case len(f) > 1 && f[0] == "Uid:":
				owner, _ = strconv.Atoi(f[1])
			case len(f) > 1 && f[0] == "Threads:":
				threads, _ = strconv.Atoi(f[1])
			}
		}
		if owner == uid {
			n += threads
		}
	}
	return n
}

// filterCalls installs the filter of system calls.
func filterCalls(pl *plan) error {
	program, err := callFilter(pl)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
