package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// abiMoves is the first Landlock that can let files be moved between folders.
const abiMoves = 2

// veils are the ways to hide, the better one first. Mounting is exact, but
// whoever is not root sees the owners of others' files as nobody in it, and
// programs that look at owners, such as ssh, refuse to work.
func veils() []Veil {
	if os.Geteuid() == 0 {
		return []Veil{ByNamespace, ByLandlock}
	}
	return []Veil{ByLandlock, ByNamespace}
}

func veilArguments(self string, pl *plan) []string { return pl.helper(self) }

// veilAttributes start the helper in namespaces of its own, where it may
// mount. Owners keep their numbers in it.
func veilAttributes(how Veil) *syscall.SysProcAttr {
	if how != ByNamespace {
		return nil
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: owners("/proc/self/uid_map", os.Getuid()), GidMappings: owners("/proc/self/gid_map", os.Getgid()),
		GidMappingsEnableSetgroups: os.Geteuid() == 0}
	if os.Geteuid() != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // lost at the helper's start otherwise
	}
	return attr
}

// owners maps every id that there is here to itself; who is not root may map
// their own alone.
func owners(path string, own int) (all []syscall.SysProcIDMap) {
	b, err := os.ReadFile(path)
	if err != nil || os.Geteuid() != 0 {
		return []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}
	}
	for line := range strings.Lines(string(b)) {
		var m syscall.SysProcIDMap
		var outside int
		if _, err := fmt.Sscan(line, &m.ContainerID, &outside, &m.Size); err == nil {
			m.HostID = m.ContainerID
			all = append(all, m)
		}
	}
	return all
}

// veil hides what the plan says and becomes the command.
func veil(pl *plan) error {
	runtime.LockOSThread() // rights belong to threads
	unix.CloseOnExec(readyFD)
	hide := hideByLandlock
	if pl.Veil == ByNamespace {
		hide = hideByMounts
	}
	if err := hide(pl); err != nil {
		return err
	}
	if err := keepVeiled(); err != nil {
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

// hideByMounts lays something empty over each hidden path. In a namespace made
// later it is locked there.
func hideByMounts(pl *plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts to this command: %w", err)
	}
	for _, path := range pl.Hidden {
		var err error
		if isFolder(path) {
			err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0500,size=4k")
		} else {
			err = unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// lifters are rights of root's by which a cover could be lifted, or another
// process looked into. Root keeps the others, since a person allowed the
// command.
var lifters = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_PERFMON, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO}

// keepVeiled takes away what could lift the veil. For root it counts from the
// exec that follows.
func keepVeiled() error {
	if os.Geteuid() != 0 {
		return dropCapabilities() // what a namespace lent for mounting
	}
	for _, c := range lifters {
		if have, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil || have == 0 {
			continue // it has none, or this kernel does not know it
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("give up the right to lift the veil: %w", err)
		}
	}
	return nil
}

// onFolders are the rights that only a folder can be given.
const onFolders = ll.AccessFSReadDir | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeChar | ll.AccessFSMakeDir |
	ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym | ll.AccessFSRefer

// hideByLandlock grants everything around what is hidden. Listing a folder and
// starting a program stay everyone's: else the folders on the way to what is
// hidden could not be looked at.
func hideByLandlock(pl *plan) error {
	config := abis[min(pl.ABI, len(abis)-1)]
	config.HandledAccessNet, config.Scoped = 0, 0
	config.HandledAccessFS &^= ll.AccessFSReadDir | ll.AccessFSExecute | ll.AccessFSIoctlDev
	file := config.HandledAccessFS &^ onFolders
	rules := make([]landlock.Rule, 0, len(pl.Write))
	for _, path := range pl.Write {
		rights := file
		if isFolder(path) {
			rights = config.HandledAccessFS
		}
		rules = append(rules, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	if err := config.Restrict(rules...); err != nil {
		return fmt.Errorf("apply Landlock: %w", err)
	}
	return nil
}
