package file

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// rename moves an entry between two folders. Both are held open, which here
// keeps their paths from being given to something else.
func rename(from *os.Root, name string, to *os.Root, as string) error {
	return os.Rename(filepath.Join(from.Name(), name), filepath.Join(to.Name(), as))
}

// notSameDevice is ERROR_NOT_SAME_DEVICE.
const notSameDevice = syscall.Errno(17)

func crossDevice(err error) bool { return errors.Is(err, notSameDevice) }
