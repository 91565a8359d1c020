package sandbox

import "golang.org/x/sys/unix"

// machineMemory is the machine's memory in bytes; a guess where it is unknown.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 8 << 30
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
