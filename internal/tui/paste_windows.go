package tui

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// marksPastes reports whether the terminal can be asked to mark what is
// pasted. A Windows console must be told to obey escape sequences; an older one
// does not, and would print the request.
func marksPastes(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
