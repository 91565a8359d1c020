package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/sandbox"
)

// stopWait is how long a server gets to end by itself once its input has
// ended, and again once it was told to.
const stopWait = 2 * time.Second

// process is a server that is a command, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	group *group
	in    io.WriteCloser
	out   io.ReadCloser
	err   *tail
	done  chan struct{} // closed when it has ended
	once  sync.Once
}

// launch starts a command with a small environment and the given variables.
func launch(ctx context.Context, command []string, o Options, env map[string]string) (*process, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("find the program %s: %w", command[0], err)
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Env = environment(env)
	if cmd.Dir = o.Dir; cmd.Dir == "" {
		cmd.Dir = os.TempDir()
	}
	cmd, veiled, err := o.veil(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("keep it from Mercury's own folder: %w", err)
	}
	// The output goes through a pipe of ours: it ends when we close it, not
	// when the last process that inherited it does.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p := &process{cmd: cmd, out: r, err: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w, p.err
	cmd.WaitDelay = stopWait
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.group, err = startGroup(cmd)
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		if veiled != nil {
			err = errors.Join(err, veiled.Close())
		}
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	go func() { // ends with the process, which stop ends
		defer close(p.done)
		_ = cmd.Wait()
		if veiled == nil {
			return
		}
		if err := veiled.Close(); err != nil {
			fmt.Fprintln(p.err, err) // a tail never fails
		}
	}()
	return p, nil
}

// veil makes of cmd a command that does not reach what is hidden, where this
// system can hide anything.
func (o Options) veil(ctx context.Context, cmd *exec.Cmd) (*exec.Cmd, *sandbox.Process, error) {
	if o.Veil == nil {
		return cmd, nil, nil
	}
	p, err := o.Veil(ctx, sandbox.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir})
	if errors.Is(err, sandbox.ErrUnveiled) {
		return cmd, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return p.Cmd, p, nil
}

// stop ends the process and what it started: its input ends, then it is told
// to, then it is killed.
func (p *process) stop() {
	p.once.Do(func() {
		_ = p.in.Close()
		for _, harder := range []func(){p.group.ask, p.group.kill} {
			select {
			case <-p.done:
			case <-time.After(stopWait):
				harder()
			}
		}
		p.group.kill()
		<-p.done
		p.group.release()
		_ = p.out.Close()
	})
}

// explain adds what the process wrote last to an error.
func (p *process) explain(text string) string {
	if p == nil {
		return text
	}
	if said := p.err.String(); said != "" {
		text += "; it wrote: " + short(said)
	}
	return text
}

// inherited are the variables that a server gets from Mercury's own
// environment; everything else in there is nobody's business.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"}

// inheritedWindows are what programs there do not start without.
var inheritedWindows = []string{"PATH", "SystemRoot", "SystemDrive", "TEMP", "TMP", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ComSpec"}

func environment(more map[string]string) []string {
	names := inherited
	if runtime.GOOS == "windows" {
		names = inheritedWindows
	}
	env := []string{}
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range more {
		env = append(env, name+"="+v)
	}
	return env
}

// tail keeps the last of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailMax = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-tailMax):]...)
	if over := len(t.b) - tailMax; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.b), "")
}
