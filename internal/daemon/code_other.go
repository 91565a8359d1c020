//go:build !linux || android

package daemon

// forgetCode does nothing where code cannot be told from the rest.
func forgetCode() {}
