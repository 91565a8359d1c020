package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// sandboxExec is the system's own program. It is marked as deprecated and is
// what there is.
const sandboxExec = "/usr/bin/sandbox-exec"

// systemFolders are what programs need to run. Nothing of a person lies there.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/System", "/Library", "/opt", "/Applications", "/private/etc", "/nix/store"}

func thisSystem() system {
	s := system{levels: []Level{SandboxExec}, veils: veils()}
	if version, err := unix.Sysctl("kern.osversion"); err == nil {
		s.id = version
	}
	return s
}

func (f *Fence) possible(Level) error {
	if _, err := os.Stat(sandboxExec); err != nil {
		return errors.New("sandbox-exec is not there")
	}
	return nil
}

func (s system) advice(got Level, why map[Level]error) (missing, cure string) {
	if got == SandboxExec || why[SandboxExec] == nil {
		return "", ""
	}
	return why[SandboxExec].Error(), "Start Mercury outside any other sandbox, and let bots work without commands until then."
}

// wrap returns the command line that leads through the generated profile into
// the helper.
func wrap(self string, pl *plan, r resolved, scratch string, _ Report, _ system) ([]string, error) {
	write := append(append([]string{}, r.write...), scratch)
	return append([]string{sandboxExec, "-p", profile(self, r, write), "--"}, pl.helper(self)...), nil
}

func confine(pl *plan) error {
	unix.CloseOnExec(readyFD)
	set := func(name string, resource int, n uint64) error {
		if n == 0 {
			return nil
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %s: %w", name, err)
		}
		return nil
	}
	l := pl.Limits
	if err := errors.Join(
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
		set("processor time", unix.RLIMIT_CPU, uint64(math.Ceil(l.CPU.Seconds()))),
		set("file size", unix.RLIMIT_FSIZE, uint64(l.FileSize)),
		set("open files", unix.RLIMIT_NOFILE, uint64(l.OpenFiles)),
		set("memory", unix.RLIMIT_DATA, uint64(l.Memory)),
	); err != nil {
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

// group is what bounds a command as a whole; this system has no such thing.
type group struct{ enter []*os.File }

func newGroup(Limits) *group { return nil }

func (g *group) end() {}
