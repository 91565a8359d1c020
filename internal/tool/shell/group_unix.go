//go:build unix

package shell

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

var defaultPath = map[bool]string{
	true:  "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
	false: "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
}[runtime.GOOS == "darwin"]

// defaultShell is the system's sh. Android keeps its own elsewhere.
func defaultShell() string {
	for _, path := range []string{"/bin/sh", "/data/data/com.termux/files/usr/bin/sh", "/system/bin/sh"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return "/bin/sh"
}

func shellArgs(shell, command string) []string { return []string{shell, "-c", command} }

func shellAttributes(*exec.Cmd, string, string) {}

func systemEnv() []string { return nil }

// A group is a command and what it started.
type group struct {
	id     int
	mark   string
	fenced bool
}

// startGroup gives the command a session of its own, and so no terminal: what
// it asks for there nobody would see.
func startGroup(cmd *exec.Cmd, mark string, fenced bool) (*group, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{cmd.Process.Pid, mark, fenced}, nil
}

// ask tells the group to end. Of a fenced command it is the command that is
// told: were the fence told, it would end without giving it the time.
func (g *group) ask() {
	if g.fenced && signalMarked(g.mark, syscall.SIGTERM) > 0 {
		return
	}
	_ = syscall.Kill(-g.id, syscall.SIGTERM)
}

// kill ends the group, and what left it. It reports whether anybody was there.
func (g *group) kill() bool {
	left := syscall.Kill(-g.id, syscall.SIGKILL) == nil
	return killMarked(g.mark) > 0 || left && !g.fenced // the fence itself is nobody's leftover
}

func (g *group) release() {}
