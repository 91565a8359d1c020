//go:build unix

package homelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock uses flock: it belongs to the open file, so a second opening in the
// same process is refused too, and closing another descriptor does not end it.
func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		}
		return err
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// gone reports whether no process has the number any more.
func gone(pid int) bool { return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
