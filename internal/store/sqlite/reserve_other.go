//go:build !linux

package sqlite

import "os"

// setAside does nothing where a file cannot be made longer without writing.
func setAside(*os.File, int64) error { return nil }
