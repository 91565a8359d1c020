//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rename moves an entry between two open folders, whatever their paths have
// come to mean.
func rename(from *os.Root, name string, to *os.Root, as string) error {
	a, err := from.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	return unix.Renameat(int(a.Fd()), name, int(b.Fd()), as)
}

func crossDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }
