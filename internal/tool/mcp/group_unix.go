//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// group is a command and what it started.
type group struct{ id int }

func startGroup(cmd *exec.Cmd) (*group, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{cmd.Process.Pid}, nil
}

func (g *group) ask()   { _ = syscall.Kill(-g.id, syscall.SIGTERM) }
func (g *group) kill()  { _ = syscall.Kill(-g.id, syscall.SIGKILL) }
func (*group) release() {}
