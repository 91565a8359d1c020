package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const openFlags = 0

// resolve returns what an absolute path really is: links, junctions and short
// names replaced in the part that exists, the rest as it is written.
func resolve(path string) (string, error) {
	path = filepath.Clean(path)
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !os.IsNotExist(err) {
			return "", fmt.Errorf("resolve %s: %w", path, err)
		}
		if _, err := os.Lstat(path); err == nil {
			return "", invalid(fmt.Sprintf("%s is a link that leads nowhere", path), "")
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest), nil
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = parent
	}
}

// checkSystemName refuses what is no ordinary file here: other machines, the
// device namespace, paths relative to a drive, alternate streams, and names
// such as NUL.
func checkSystemName(path string) error {
	volume := filepath.VolumeName(path)
	rest := path[len(volume):]
	switch {
	case volume != "" && (len(volume) != 2 || volume[1] != ':'):
		return invalid(fmt.Sprintf("%q is not on a drive of this machine", path), "")
	case volume != "" && (rest == "" || !os.IsPathSeparator(rest[0])):
		return invalid(fmt.Sprintf("%q is relative to a drive", path), "Give an absolute path.")
	case strings.ContainsRune(rest, ':'):
		return invalid(fmt.Sprintf("%q names an alternate stream", path), "")
	}
	for name := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == '\\' || r == '/' }) {
		if name != ".." && !filepath.IsLocal(name) {
			return invalid(fmt.Sprintf("%q is a name the system keeps for a device", name), "")
		}
	}
	return nil
}

func processFile(string) bool { return false }

func foreign(os.FileInfo) bool { return false }

// links cannot be read from a FileInfo here; a replaced file leaves its other
// names as they were.
func links(os.FileInfo) uint64 { return 1 }

type fileID struct{}

func idOf(os.FileInfo) (fileID, bool) { return fileID{}, false }

// syncDir has no counterpart here.
func syncDir(*os.Root) error { return nil }
