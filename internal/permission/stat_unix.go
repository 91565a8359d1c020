//go:build unix

package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// names returns how many hard links lead to the file.
func names(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// identityOf names the file itself, whatever it is called.
func identityOf(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return ""
}
