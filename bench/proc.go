package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100
// on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// usage is what the kernel has counted for a process so far.
type usage struct {
	cpu      time.Duration
	switches int64 // of all threads, voluntary or not
	rss      int64 // bytes
	written  int64 // bytes that went or will go to the disk
}

// usageOf reads the counters of a process (proc(5)). It is known on Linux only.
func usageOf(pid int) (usage, error) {
	var u usage
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, fmt.Errorf("read the process's counters, which needs Linux: %w", err)
	}
	// The name in brackets may hold anything; fields are counted behind it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, i := range []int{11, 12} { // utime and stime, 14 and 15 of the whole
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	kb, err := field(filepath.Join(dir, "status"), "VmRSS:")
	if err != nil {
		return u, err
	}
	u.rss = kb << 10
	if u.written, err = field(filepath.Join(dir, "io"), "write_bytes:"); err != nil {
		return u, err
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "status"))
	if err != nil {
		return u, err
	}
	for _, path := range threads {
		for _, label := range []string{"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"} {
			n, err := field(path, label)
			if err != nil {
				return u, err
			}
			u.switches += n
		}
	}
	return u, nil
}
