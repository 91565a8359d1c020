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

// killMarked ends the processes whose environment has a variable that begins
// with mark: those that left their command's group for a session of their own.
// It returns how many there were.
func killMarked(mark string) int {
	found := map[int]bool{}
	for range strayRounds {
		pids := marked(mark)
		for _, pid := range pids {
			found[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
		}
		if len(pids) == 0 {
			break
		}
	}
	return len(found)
}

// signalMarked sends one signal to each of them, and returns how many there
// were.
func signalMarked(mark string, signal syscall.Signal) int {
	pids := marked(mark)
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal) // gone already is as good
	}
	return len(pids)
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
		if bytes.HasPrefix(env, []byte(mark)) || bytes.Contains(env, []byte("\x00"+mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
