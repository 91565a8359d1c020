package doctor

import "golang.org/x/sys/windows"

// writable leaves it to the first write: access lists have the last word.
func writable(string) error { return nil }

// room is how many bytes this user can still write on the disk of dir, and how
// many the disk has.
func room(dir string) (free, all uint64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(path, &free, &all, nil)
	return free, all, err
}
