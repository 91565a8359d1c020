package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// closeMemory keeps other processes of the same user out of this one: no
// tracing, no core file, and /proc/PID/{environ,mem,fd,root,cwd} belong to
// root (prctl(2), PR_SET_DUMPABLE). Commands run as the same user, and keys
// stand in the environment and the memory here. What is started from here is
// open again after its exec. Root, with its capabilities, still gets in.
func closeMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close the memory to other processes: %w", err)
	}
	return nil
}
