//go:build !windows

package tui

import "io"

// marksPastes reports whether the terminal can be asked to mark what is
// pasted; one that cannot ignores the request.
func marksPastes(io.Writer) bool { return true }
