//go:build !linux

package sandbox

// machineMemory stands for what an ordinary machine has.
func machineMemory() int64 { return 16 << 30 }
