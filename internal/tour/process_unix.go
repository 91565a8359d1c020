//go:build unix

package tour

import (
	"os"
	"os/exec"
	"syscall"
)

// detach keeps a Ctrl+C at the terminal from reaching the runtime: the tour
// stops it in order.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func interrupt(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
