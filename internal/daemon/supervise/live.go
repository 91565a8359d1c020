package supervise

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// drainPatience is how long a program that was asked to end is waited for
// before it is ended by force; Mercury takes ten seconds by itself.
const drainPatience = 20 * time.Second

// Program is a program to keep running, as a process of its own.
type Program struct {
	Path string
	Args []string
	// Words is the file that it prints into, begun anew with each life. It is no
	// pipe, so that the program outlives its supervisor.
	Words string
	// End asks the process to end in order.
	End func(*os.Process) error
}

// Live is one life of the program.
func (p Program) Live(ctx context.Context) (Ending, error) {
	words, err := os.OpenFile(p.Words, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return Ending{}, fmt.Errorf("keep what the program prints: %w", err)
	}
	defer words.Close()
	c := exec.CommandContext(ctx, p.Path, p.Args...)
	c.Stdout, c.Stderr = words, words
	c.Cancel = func() error { return p.End(c.Process) }
	c.WaitDelay = drainPatience
	err = c.Run()
	if c.ProcessState == nil {
		return Ending{}, fmt.Errorf("start %s: %w", p.Path, err)
	}
	return Ending{Code: c.ProcessState.ExitCode(), How: c.ProcessState.String(), Last: lastWords(words)}, nil
}

// lastWords is the end of what a file holds.
func lastWords(f *os.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(info.Size(), keptTail))
	n, err := f.ReadAt(b, info.Size()-int64(len(b)))
	if err != nil && err != io.EOF {
		return ""
	}
	return string(b[:n])
}
