//go:build !unix

package permission

import "io/fs"

// names returns 1: the number of hard links is not part of what this system
// tells about a file it has not opened.
func names(fs.FileInfo) uint64 { return 1 }

func isNotDirectory(error) bool { return false }

// identityOf names the file by when it was last written, the best this system
// tells without opening it.
func identityOf(info fs.FileInfo) string { return info.ModTime().UTC().String() }
