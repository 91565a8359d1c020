//go:build unix

package doctor

import "golang.org/x/sys/unix"

// writable asks the system whether this process may write in dir. It writes
// nothing.
func writable(dir string) error { return unix.Access(dir, unix.W_OK) }

// room is how many bytes this user can still write on the disk of dir, and how
// many the disk has.
func room(dir string) (free, all uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	size := uint64(s.Bsize) // of another type on each system
	return uint64(s.Bavail) * size, uint64(s.Blocks) * size, nil
}
