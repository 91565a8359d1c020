package sandbox

import "syscall"

const abiMoves = 0

func veils() []Veil { return []Veil{BySandboxExec} }

// veilArguments leads through a profile that takes the hidden folders away and
// nothing else.
func veilArguments(self string, pl *plan) []string {
	return append([]string{sandboxExec, "-p", veilProfile(pl.Hidden), "--"}, pl.helper(self)...)
}

func veilAttributes(Veil) *syscall.SysProcAttr { return nil }
