//go:build !linux

package shell

// killMarked has no way here to tell whose a process was that left its group.
func killMarked(string) int { return 0 }
