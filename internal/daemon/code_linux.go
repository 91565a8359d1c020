//go:build !android

package daemon

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetCode takes the program's code out of this process's memory. Linux maps
// sixteen pages around each one that is used, so after a start most of the
// code is resident though little of it runs again. Nothing is read anew: the
// pages stay in the system's cache, and what runs next is mapped again at a
// few microseconds for sixteen. Only code is taken, which nobody writes to:
// of other parts a loader may have made copies that would be lost.
func forgetCode() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		line = strings.TrimSpace(line)
		if !strings.HasSuffix(line, " "+exe) || !strings.Contains(line, " r-xp ") {
			continue
		}
		var begin, end uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err == nil {
			// An error leaves things as they were.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED)
		}
	}
}
