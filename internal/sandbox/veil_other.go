//go:build !linux && !darwin

package sandbox

import "syscall"

const abiMoves = 0

func veilArguments(self string, pl *plan) []string { return pl.helper(self) }

func veilAttributes(Veil) *syscall.SysProcAttr { return nil }
