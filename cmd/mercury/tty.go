package main

import (
	"os"

	"golang.org/x/term"
)

// columns is how wide the terminal f is, or 0 where it is none.
func columns(f any) func() int {
	file, ok := f.(*os.File)
	if !ok || !isTTY(file) {
		return nil
	}
	return func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return width
	}
}

func isTTY(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
