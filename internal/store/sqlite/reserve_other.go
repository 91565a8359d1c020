//go:build !linux

package sqlite

// reserve does nothing where a file cannot be made longer without writing.
func reserve(string, int64) error { return nil }
