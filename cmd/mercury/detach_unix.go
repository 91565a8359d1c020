//go:build unix

package main

import (
	"os"
	"syscall"
)

// detached begins a process of its own session, which the end of a terminal
// does not reach.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// askToEnd asks a process to end in order.
func askToEnd(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
