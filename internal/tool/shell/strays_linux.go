package shell

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// strayRounds is how often strays are looked for; one may start another while
// it is being ended.
const strayRounds = 5

// killStrays ends the processes that bear mark in their environment: those
// that left the command's group for a session of their own. It reports whether
// there were any.
func killStrays(mark string) (found bool) {
	if mark == "" {
		return false
	}
	for range strayRounds {
		pids := marked(mark)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
		}
		if len(pids) == 0 {
			break
		}
		found = true
	}
	return found
}

func marked(mark string) []int {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(name) // only our own can be read
		if err != nil {
			continue
		}
		for _, v := range bytes.Split(env, []byte{0}) {
			if string(v) == mark {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
