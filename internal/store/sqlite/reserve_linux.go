package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes the file at least that long without writing to it. What is
// there stays; the rest reads as zeros, which are no frame of a log.
func reserve(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), 0, 0, bytes)
}
