package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// What Landlock must know: in bubblewrap, truncation; alone, signals and
// abstract sockets too, since nothing else holds them.
const (
	abiInside = 3 // Linux 6.2
	abiAlone  = 6 // Linux 6.12

	abiSockets = 9 // from here on it holds sockets in files too
)

func thisSystem() system {
	if runtime.GOOS == "android" {
		// There, calls that a filter does not know kill the process.
		return system{}
	}
	s := system{bwrap: findBubblewrap(), levels: []Level{BwrapLandlock, Bwrap, Landlock}, veils: veils()}
	if v, err := ll.LandlockGetABIVersion(); err == nil {
		s.abi = v
	}
	s.id = s.read("/proc/sys/kernel/random/boot_id")
	for _, name := range switches {
		s.id += " " + s.read(name)
	}
	return s
}

// Switches of the kernel that decide about user namespaces.
const (
	maxNamespaces = "/proc/sys/user/max_user_namespaces"
	debianSwitch  = "/proc/sys/kernel/unprivileged_userns_clone"
	ubuntuSwitch  = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
)

var switches = []string{maxNamespaces, debianSwitch, ubuntuSwitch}

// read returns a small file of the system, trimmed; empty if there is none.
func (s system) read(path string) string {
	b, err := os.ReadFile(inFolder(s.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

var errNoBubblewrap = errors.New("bubblewrap is not installed")

// possible says what a level lacks before it is tried.
func (f *Fence) possible(l Level) error {
	if l != Landlock && f.sys.bwrap == "" {
		return errNoBubblewrap
	}
	need := map[Level]int{BwrapLandlock: abiInside, Landlock: abiAlone}[l]
	switch {
	case need == 0 || f.sys.abi >= need:
		return nil
	case f.sys.abi == 0:
		return errors.New("the kernel has no Landlock, or it is not switched on")
	}
	return fmt.Errorf("the kernel's Landlock is too old (ABI %d, needed %d)", f.sys.abi, need)
}

// advice says why nothing stronger than got works, and what would change it.
func (s system) advice(got Level, why map[Level]error) (missing, cure string) {
	if runtime.GOOS == "android" {
		return "this system has no fence for commands", "Let bots work without commands, or run Mercury on another machine."
	}
	if got == BwrapLandlock || why[BwrapLandlock] == nil {
		return "", ""
	}
	if got == Bwrap {
		if s.abi == 0 {
			return why[BwrapLandlock].Error(), "Add landlock to the lsm= list of the kernel's command line and restart the machine; it needs Linux 5.13 or newer."
		}
		return why[BwrapLandlock].Error(), "Install a kernel of 6.2 or newer."
	}
	cause := why[BwrapLandlock]
	if s.bwrap != "" && why[Bwrap] != nil {
		cause = why[Bwrap] // it was tried, and said what is wrong
	}
	return cause.Error(), s.cure(cause)
}

// cure is the one thing that would make bubblewrap work here.
func (s system) cure(cause error) string {
	switch {
	case errors.Is(cause, errNoBubblewrap):
		return "Run: " + s.install() + s.inContainer(" (in a container it also needs: ", ")")
	case s.read(maxNamespaces) == "0":
		return "Run: sudo sysctl -w user.max_user_namespaces=15000"
	case s.read(debianSwitch) == "0":
		return "Run: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case s.container():
		return s.inContainer("", "")
	case s.read(ubuntuSwitch) == "1":
		return "Allow bubblewrap its namespaces. Run: " + s.profile()
	}
	return "Run: " + s.bwrap + " --ro-bind / / --unshare-all true, and mend what it complains about."
}

// profile is the command that installs an AppArmor profile for bubblewrap, as
// Ubuntu needs since 23.10.
func (s system) profile() string {
	return `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap ` + s.bwrap +
		` flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}

func (s system) container() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(inFolder(s.root, mark)); err == nil {
			return true
		}
	}
	groups := s.read("/proc/1/cgroup")
	for _, word := range []string{"docker", "kubepods", "libpod", "lxc", "containerd"} {
		if strings.Contains(groups, word) {
			return true
		}
	}
	return false
}

func (s system) inContainer(before, after string) string {
	if !s.container() {
		return ""
	}
	return before + "Start the container with: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined" + after
}

// installers install a package, by the names distributions give themselves.
var installers = map[string]string{
	"debian": "sudo apt install", "ubuntu": "sudo apt install", "fedora": "sudo dnf install", "rhel": "sudo dnf install",
	"centos": "sudo dnf install", "arch": "sudo pacman -S", "alpine": "sudo apk add", "suse": "sudo zypper install",
	"opensuse": "sudo zypper install", "gentoo": "sudo emerge", "void": "sudo xbps-install", "nixos": "nix-env -iA",
}

func (s system) install() string {
	for line := range strings.Lines(s.read("/etc/os-release")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != "ID" && name != "ID_LIKE" {
			continue
		}
		for _, word := range strings.Fields(strings.Trim(value, `"'`)) {
			if how, ok := installers[word]; ok {
				return how + " bubblewrap"
			}
		}
	}
	return "the package manager to install bubblewrap"
}
