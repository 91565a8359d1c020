//go:build unix

package main

import (
	"os"
	"syscall"
)

// canBecome says that a process can turn into another command of this program.
const canBecome = true

// become turns this process into another command of this program. It returns only on failure.
func become(args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, append([]string{"mercury"}, args...), os.Environ())
}
