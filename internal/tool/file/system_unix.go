//go:build unix

package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// openFlags keep a pipe or device that was swapped in from blocking the open.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// linksMax is how many links one path may lead through, as in Linux.
const linksMax = 40

// resolve returns what an absolute path really is: every link followed as the
// system would, dot-dots taken after the link before them. What does not
// exist is kept as it is written.
func resolve(path string) (string, error) {
	todo := strings.Split(path, "/")
	real, followed := "/", 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			real = next
			continue
		}
		if followed++; followed > linksMax {
			return "", invalid(fmt.Sprintf("%s leads through too many links", path), "")
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("read link %s: %w", next, err)
		}
		if strings.HasPrefix(target, "/") {
			real = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return real, nil
}

// checkSystemName has nothing to add here: every other byte is part of a name.
func checkSystemName(string) error { return nil }

// processFile reports whether path shows the memory, environment or open
// files of a running process, Mercury's own among them.
func processFile(path string) bool {
	rest, ok := strings.CutPrefix(path, "/proc/")
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(rest, "/")
	return first == "self" || first == "thread-self" || first == "kcore" || first != "" && first[0] >= '0' && first[0] <= '9'
}

// foreign reports whether a folder belongs to someone else.
func foreign(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}

// links counts the names of a file.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

type fileID struct{ dev, ino uint64 }

func idOf(info os.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, true
}

// syncDir makes a rename in dir durable.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
