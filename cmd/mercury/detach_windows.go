package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached begins a process without this console, which the end of it does not
// reach.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// askToEnd ends a process; one without a console cannot be asked. What it had in
// hand is taken up at the next start.
func askToEnd(p *os.Process) error { return p.Kill() }
