package sqlite

import (
	"fmt"
	"os"
)

// logHead is how much of the log is written with zeros beforehand, in bytes:
// room for the first dozen turns, and little enough for a slow memory card.
const logHead = 512 << 10

// reserve makes the log at least that long. What is there stays, and the rest
// reads as zeros, which are no frame of a log. Its first part is written, since
// the file system still notes of a block that was only set aside when it is
// first used.
func reserve(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("reserve the log: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reserve the log: %w", err)
	}
	// A block at a time: Linux would cache one large write as one large page,
	// and count all of it as written with each commit that touches it.
	var zeros [4096]byte
	for at := st.Size(); at < logHead; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:], at); err != nil {
			return fmt.Errorf("reserve the log: %w", err)
		}
	}
	return setAside(f, bytes)
}
