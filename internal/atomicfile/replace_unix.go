//go:build !windows

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

func replace(from, to string) error { return os.Rename(from, to) }

// syncDir makes the rename itself durable. Some network and FUSE file systems
// refuse to sync a folder; there the rename is as durable as they make it.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
