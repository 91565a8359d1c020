//go:build !unix

package tour

import (
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

// interrupt ends the runtime; a system without SIGTERM has no gentler way, and
// the runtime is built to survive it.
func interrupt(p *os.Process) { _ = p.Kill() }
