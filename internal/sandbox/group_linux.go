package sandbox

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// groupPatience is how long a control group's processes get to be gone.
const groupPatience = 500 * time.Millisecond

// group bounds how many processes root's commands have. The kernel does not
// hold root to the limit that holds others, so these get a control group.
type group struct {
	dir   string
	enter []*os.File // what the helper writes itself into
}

// newGroup returns the control group of one command, or nil where none is
// needed or none can be made.
func newGroup(l Limits) *group {
	if os.Geteuid() != 0 || l.Processes == 0 {
		return nil
	}
	parent := groupParent()
	if parent == "" {
		return nil
	}
	sweepGroups(parent)
	g := &group{dir: filepath.Join(parent, strconv.Itoa(os.Getpid())+"-"+rand.Text())}
	if os.Mkdir(g.dir, 0o700) != nil {
		return nil // a container that lends its groups for reading only
	}
	if os.WriteFile(filepath.Join(g.dir, "pids.max"), []byte(strconv.Itoa(l.Processes)), 0o600) != nil {
		g.end()
		return nil
	}
	f, err := os.OpenFile(filepath.Join(g.dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		g.end()
		return nil
	}
	g.enter = []*os.File{f}
	return g
}

// groupParent is the folder of our groups in the hierarchy that counts
// processes: the first version's own, or the second's with the controller on.
func groupParent() string {
	const first, second = "/sys/fs/cgroup/pids", "/sys/fs/cgroup"
	if info, err := os.Stat(first + "/cgroup.procs"); err == nil && info.Mode().IsRegular() {
		dir := first + "/mercury"
		if os.Mkdir(dir, 0o700) == nil || isFolder(dir) && exists(dir) {
			return dir
		}
		return ""
	}
	if !exists(second + "/cgroup.controllers") {
		return ""
	}
	dir := second + "/mercury"
	_ = os.WriteFile(second+"/cgroup.subtree_control", []byte("+pids"), 0o600) // mostly it is on
	_ = os.Mkdir(dir, 0o700)
	if os.WriteFile(dir+"/cgroup.subtree_control", []byte("+pids"), 0o600) != nil {
		return ""
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sweepGroups removes the empty groups of processes that are gone.
func sweepGroups(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		owner, _, ok := strings.Cut(e.Name(), "-")
		pid, err := strconv.Atoi(owner)
		if ok && err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.Remove(filepath.Join(parent, e.Name())) // refused while somebody is in it
		}
	}
}

// end ends whoever is left in the group, and removes it.
func (g *group) end() {
	for _, f := range g.enter {
		f.Close()
	}
	for deadline := time.Now().Add(groupPatience); ; time.Sleep(2 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || os.IsNotExist(err) || time.Now().After(deadline) {
			return // what is left is swept with the next command
		}
		b, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		if err != nil {
			return
		}
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// enterGroup moves this process into the control group whose list of processes
// is fd.
func enterGroup(fd int) error {
	f := os.NewFile(uintptr(fd), "group")
	defer f.Close()
	_, err := f.WriteString("0")
	return err
}
