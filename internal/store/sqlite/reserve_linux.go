package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// setAside makes the file at least that long without writing to it.
func setAside(f *os.File, bytes int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, bytes) }
