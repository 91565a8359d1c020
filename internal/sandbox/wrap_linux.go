package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// systemFolders are what programs need to run, and what they read about the
// system. Nothing of a person lies there.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/snap",
	"/nix/store", "/gnu/store", "/run/current-system", "/sys/devices/system/cpu", "/sys/fs/cgroup",
}

// Where things are inside bubblewrap's fence.
const (
	insideSelf = "/run/mercury" // the helper
	insideTmp  = "/run/tmp"     // the folder for temporary files, where /tmp itself is shown
)

// wrap returns the command line that leads into the fence, and completes the
// helper's plan.
func wrap(self string, pl *plan, r resolved, scratch string, report Report, sys system) ([]string, error) {
	// What may be written may be read.
	read := slices.DeleteFunc(outermost(slices.Clone(r.read)), func(p string) bool { return within(p, r.write) })
	write := slices.Clone(r.write)
	resolver := ""
	if r.network {
		// The addresses of name servers often lie behind a link into /run.
		if real, ok := physical("/etc/resolv.conf"); ok && !within(real, append(read, write...)) {
			resolver = real
			read = append(read, real)
		}
	}
	pl.Unix = unixIsSafe(report, r.network)
	if report.Level == Landlock {
		for _, list := range []struct{ from, to *[]string }{{&read, &pl.Read}, {&write, &pl.Write}} {
			for _, folder := range *list.from {
				hidden := r.hidden
				if folder == "/" {
					// The whole tree is meant as files: no devices, no services.
					hidden = outermost(append(slices.Clone(hidden), "/dev", "/run"))
				}
				parts, err := carve(folder, hidden)
				if err != nil {
					return nil, err
				}
				*list.to = append(*list.to, parts...)
			}
		}
		pl.Write = append(pl.Write, scratch)
		return pl.helper(self), nil
	}

	pl.OwnNet, pl.OwnPIDs = !r.network, true
	if report.ABI < abiSockets {
		// A socket in a granted folder is a way to whoever listens there.
		r.hidden = outermost(append(slices.Clone(r.hidden), socketsIn(append(slices.Clone(read), write...))...))
	}
	b := bubble{binds: map[string]string{}, write: write}
	for _, p := range read {
		b.binds[p] = "--ro-bind"
	}
	for _, p := range write {
		b.binds[p] = "--bind"
	}
	tmp := "/tmp"
	if within(tmp, append(read, write...)) && tmp != resolver {
		tmp = insideTmp
		pl.Env = homed(pl.Env, tmp)
	}
	if report.ABI > 0 {
		// The mounts decide what is there; Landlock says once more what of it
		// may be changed.
		pl.Read, pl.Write = []string{"/"}, append(slices.Clone(write), tmp, "/dev")
	}
	args := b.arguments(self, scratch, tmp, r, report)
	argv := append([]string{sys.bwrap}, args...)
	return append(append(argv, "--"), pl.helper(insideSelf)...), nil
}

// unixIsSafe reports whether sockets between processes lead nowhere outside:
// those with abstract names belong to a network, or are scoped by Landlock from
// ABI 6; those that are files are hidden by mounts, or by Landlock from ABI 9.
func unixIsSafe(report Report, network bool) bool {
	mounts := report.Level.AtLeast(Bwrap)
	return (mounts && !network || report.ABI >= 6) && (mounts || report.ABI >= abiSockets)
}

// socketsIn returns the sockets of this machine that lie in the folders. Those
// bound to a relative name are not known by the kernel's list.
func socketsIn(folders []string) (found []string) {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		at := strings.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		path := strings.TrimSuffix(line[at:], "\n")
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
			continue
		}
		if real, ok := physical(path); ok && within(real, folders) && reachable(real) && !slices.Contains(found, real) {
			found = append(found, real)
		}
	}
	return found
}

// reachable reports whether a fenced command could come to the path at all. It
// has no capabilities, so that root too is held to the bits of each folder;
// what lies behind one that is closed needs no cover, and could get none.
func reachable(path string) bool {
	groups, err := os.Getgroups()
	if err != nil {
		return true
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return true
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return true
		}
		open := os.FileMode(0o001)
		switch {
		case int(st.Uid) == os.Geteuid():
			open = 0o100
		case int(st.Gid) == os.Getegid() || slices.Contains(groups, int(st.Gid)):
			open = 0o010
		}
		if info.Mode().Perm()&open == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// bubble builds the arguments of bubblewrap.
type bubble struct {
	binds map[string]string // path → the option that shows it
	write []string
}

func (b *bubble) arguments(self, scratch, tmp string, r resolved, report Report) []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL"}
	if report.NoNested {
		args = append(args, "--disable-userns")
	}
	if !r.network {
		args = append(args, "--unshare-net")
	}
	how, whole := b.binds["/"]
	if whole {
		args = append(args, how, "/", "/")
		delete(b.binds, "/")
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--bind", scratch, tmp)

	// A parent comes before what lies in it.
	paths := make([]string, 0, len(b.binds))
	for p := range b.binds {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		args = append(args, b.binds[p], p, p)
	}
	shown := append(paths, tmp, "/proc", "/dev")
	for _, name := range sortedKeys(r.links) {
		if !whole && !within(name, shown) { // in the whole tree it is there already
			args = append(args, "--symlink", r.links[name], name)
		}
	}
	if !whole && !within("/var/tmp", shown) && tmp == "/tmp" {
		args = append(args, "--symlink", "/tmp", "/var/tmp")
	}
	for _, h := range r.hidden {
		if !whole && !within(h, shown) {
			continue
		}
		if info, err := os.Lstat(h); err == nil && info.IsDir() {
			args = append(args, "--tmpfs", h, "--remount-ro", h)
		} else {
			args = append(args, "--ro-bind", "/dev/null", h)
		}
	}
	// bubblewrap leaves the kernel's switches to root, who could write to them.
	args = append(args, "--remount-ro", "/proc", "--ro-bind", self, insideSelf)
	if tmp == "/tmp" {
		args = append(args, "--remount-ro", "/run")
	}
	if !slices.Contains(b.write, "/") {
		args = append(args, "--remount-ro", "/")
	}
	return append(args, "--chdir", r.dir)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// bubblewraps are where distributions put bubblewrap. PATH is not asked: who
// can write there could put another program in its place.
var bubblewraps = []string{"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"}

func findBubblewrap() string {
	for _, path := range bubblewraps {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && info.Mode()&0o002 == 0 {
			return path
		}
	}
	return ""
}

// inFolder joins below a root that tests move.
func inFolder(root, path string) string {
	if root == "" {
		return path
	}
	return filepath.Join(root, strings.TrimPrefix(path, "/"))
}
