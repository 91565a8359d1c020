package atomicfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// replace renames from over to. A virus scanner or an indexer may hold the
// old file open for a moment, so a sharing violation is tried again for up to
// a second.
func replace(from, to string) error {
	var err error
	for wait := 5 * time.Millisecond; wait < time.Second; wait *= 2 {
		err = os.Rename(from, to)
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(wait)
	}
	return err
}

// syncDir does nothing: Windows has no sync for folders, and NTFS journals
// the rename.
func syncDir(string) error { return nil }
