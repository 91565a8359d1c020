//go:build unix

package house

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// A Process is one life of the program.
type Process struct {
	cmd   *exec.Cmd
	log   *journal
	ended chan struct{} // closed when it is gone
	err   error         // how it went; read after ended
}

// spawn starts argv in dir, with the given additions to the environment.
func spawn(dir string, argv, env []string, also io.Writer) (*Process, error) {
	p := &Process{log: &journal{also: also, said: make(chan string, 1)}, ended: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Env = dir, append(bare(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	// A command that outlives a killed Mercury must not keep us waiting.
	p.cmd.WaitDelay = 100 * time.Millisecond
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Spawn starts argv in dir, with the given additions to an environment that
// knows no keys.
func Spawn(dir string, argv, env []string) (*Process, error) { return spawn(dir, argv, env, nil) }

// bare is the environment without keys and settings of whoever runs the tests.
func bare() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	if dir := os.Getenv("TMPDIR"); dir != "" {
		env = append(env, "TMPDIR="+dir)
	}
	return env
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Code is the exit code, after Ended; -1 for a signal.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// Killed reports, after Ended, whether a kill ended it.
func (p *Process) Killed() bool {
	st, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && st.Signaled() && st.Signal() == syscall.SIGKILL
}

// Signal sends s; a process that is gone gets none.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Output is what it wrote so far.
func (p *Process) Output() string { return p.log.String() }

// serving is the line with which the program says where it listens.
var serving = regexp.MustCompile(`serves .* on http://(\S+)\n`)

// Address waits until the process listens and returns where; empty when it
// ended before.
func (p *Process) Address(patience time.Duration) (string, error) {
	select {
	case addr := <-p.log.said:
		return addr, nil
	case <-p.ended:
		return "", nil
	case <-time.After(patience):
		return "", fmt.Errorf("process does not serve after %v:\n%s", patience, p.Output())
	}
}

// journal keeps what a process writes and looks for the serving line.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
	also io.Writer
	said chan string
	done bool
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.Write(b)
	if j.also != nil {
		j.also.Write(b)
	}
	if !j.done {
		if m := serving.FindSubmatch(j.text.Bytes()); m != nil {
			j.done = true
			j.said <- string(m[1])
		}
	}
	return len(b), nil
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
