package shell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// strayWait is how long output is awaited from a process that outlived the
// command and holds its pipe.
const strayWait = 300 * time.Millisecond

// markName is a variable by which processes that left the command's group are
// found again. It says nothing.
const markName = "TOOL_CALL"

// Exec runs the command that the gate resolved for c, and nothing else, to its
// end or for at most limit (0: the usual one).
func Exec(ctx context.Context, o Options, c tool.Call, limit time.Duration) (tool.Output, error) {
	if c.Exec == nil {
		return tool.Error("This command runs only as the gate resolves it, and it did not."), nil
	}
	o = o.withDefaults()
	if limit <= 0 {
		limit = o.Limit
	}
	return o.run(ctx, c, "", limit)
}

// run runs one command to its end.
func (o Options) run(ctx context.Context, c tool.Call, command string, limit time.Duration) (tool.Output, error) {
	cmd, mark := o.command(c, command)
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return tool.Output{}, fmt.Errorf("the folder %s, where commands run, is gone", cmd.Dir)
	}
	fenced, err := o.fence(ctx, c.Exec, cmd)
	if err != nil {
		return tool.Output{}, err
	}
	look := o.watch(ctx, c)
	out, err := o.work(ctx, c, cmd, mark, fenced, limit)
	if look != nil && err == nil {
		rows := look(ctx)
		out.Commit = func(tx store.Tx) error { return o.Remember(tx, rows) }
	}
	if fenced == nil {
		return out, err
	}
	if cerr := fenced.Close(); cerr != nil && ctx.Err() == nil {
		return tool.Output{}, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w\n%s", cerr, out.Text),
			Help: "The next command finds out anew what this system can hold."}
	}
	return out, err
}

// fence makes of cmd a command that is held to what the gate demands. When it
// demands nothing, the command is kept from what is hidden alone; nil where
// that cannot be done.
func (o Options) fence(ctx context.Context, x *tool.Command, cmd *exec.Cmd) (*sandbox.Process, error) {
	if x == nil || x.Fence == nil {
		return o.veil(ctx, cmd)
	}
	denied := func(err error, help string) error {
		return &mercury.Error{Kind: mercury.Denied, Err: err, Help: help}
	}
	if o.Fence == nil {
		return nil, denied(errors.New("this command may run inside a fence only, and there is none"), "")
	}
	p, err := o.Fence.Command(ctx, sandbox.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, *x.Fence)
	var refusal *sandbox.Refusal
	if errors.As(err, &refusal) {
		return nil, denied(err, refusal.Have.Cure)
	}
	return p, err
}

// watch looks at the workspace before a command that may change it.
func (o Options) watch(ctx context.Context, c tool.Call) func(context.Context) []store.UndoRow {
	if o.Watch == nil || c.Exec != nil && (c.Exec.Fence == nil || len(c.Exec.Fence.ReadWrite) == 0) {
		return nil
	}
	return o.Watch(ctx, c, c.Mandate.Workspace)
}

func (o Options) veil(ctx context.Context, cmd *exec.Cmd) (*sandbox.Process, error) {
	if o.Fence == nil || len(o.Hidden) == 0 {
		return nil, nil
	}
	p, err := o.Fence.Veil(ctx, sandbox.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, o.Hidden)
	if errors.Is(err, sandbox.ErrUnveiled) {
		return nil, nil
	}
	return p, err
}

// held reports whether p is a fence, and not only a veil.
func held(p *sandbox.Process) bool { return p != nil && p.Level != sandbox.Veiled }

// work starts the command, in its fence if it has one, and waits for its end.
func (o Options) work(ctx context.Context, c tool.Call, cmd *exec.Cmd, mark string, fenced *sandbox.Process, limit time.Duration) (tool.Output, error) {
	name, level := cmd.Path, sandbox.None
	if fenced != nil {
		cmd, level = fenced.Cmd, fenced.Level
	}
	r, w, err := os.Pipe()
	if err != nil {
		return tool.Output{}, fmt.Errorf("open pipe: %w", err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w

	began := time.Now()
	g, err := startGroup(cmd, mark, held(fenced))
	w.Close()
	if err != nil {
		return tool.Output{}, fmt.Errorf("start %s: %w", name, err)
	}
	capture := tool.NewCapture(c)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		// Ends at the last writer's end, or when the pipe is closed below.
		_, _ = io.CopyBuffer(io.MultiWriter(capture, newLines(c.Progress)), struct{ io.Reader }{r}, make([]byte, 64<<10))
	}()

	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	ended, err := o.await(ctx, g, exit, limit)

	// Whatever is left of it ends here.
	left := g.kill()
	select {
	case <-copied:
	case <-time.After(strayWait):
		r.Close()
		<-copied
	}
	g.release()

	text, path := capture.Finish()
	if ctx.Err() != nil {
		return tool.Output{}, ctx.Err()
	}
	out := report(text, path, ended, err, limit, time.Since(began))
	out.Fence = string(level)
	switch {
	case !out.IsError || ended != byItself || fenced == nil:
	case held(fenced):
		out.Text += "\n[it ran fenced: no network, and only the workspace to write in]"
	case refusedIn(text, fenced.Shut):
		out.Text += "\n[nothing new can be made directly in " + strings.Join(fenced.Shut, ", ") + ": Mercury's own folder lies below]"
	}
	if left && ended == byItself {
		out.Text += "\n[processes it left running were ended]"
	}
	return out, nil
}

// refusedIn reports whether a command was perhaps refused because of where
// Mercury's own folder lies.
func refusedIn(output string, shut []string) bool {
	return len(shut) > 0 && strings.Contains(output, "ermission denied")
}

// How a command ended.
type ending int

const (
	byItself ending = iota
	byLimit
	byCancel
)

// await waits for the command, and ends it at its limit or with ctx: it is
// asked first, and has the grace to comply.
func (o Options) await(ctx context.Context, g *group, exit <-chan error, limit time.Duration) (ending, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	how := byItself
	select {
	case err := <-exit:
		return byItself, err
	case <-timer.C:
		how = byLimit
	case <-ctx.Done():
		how = byCancel
	}
	g.ask()
	grace := time.NewTimer(o.Grace)
	defer grace.Stop()
	select {
	case err := <-exit:
		return how, err
	case <-grace.C:
	}
	g.kill()
	return how, <-exit
}

// command is what runs: exactly what the gate resolved, else the shell. The
// mark in its environment is all that is added.
func (o Options) command(c tool.Call, command string) (cmd *exec.Cmd, mark string) {
	mark = markName + "=" + o.Owner + "-" + rand.Text()
	dir := c.Folder()
	env := []string{"PATH=" + o.Path, "HOME=" + o.Home, "LANG=C.UTF-8", "TERM=dumb"}
	env = append(env, systemEnv()...)
	if x := c.Exec; x != nil {
		if x.Dir != "" {
			dir = x.Dir
		}
		if x.Env != nil {
			env = slices.Clone(x.Env)
		}
		return &exec.Cmd{Path: x.Path, Args: x.Args, Env: append(env, mark), Dir: dir}, mark
	}
	cmd = &exec.Cmd{Path: o.Shell, Args: shellArgs(o.Shell, command), Env: append(env, mark), Dir: dir}
	shellAttributes(cmd, o.Shell, command)
	return cmd, mark
}

// report is what the model is told: the output, and how it ended.
func report(text, path string, how ending, err error, limit, took time.Duration) tool.Output {
	out := tool.Output{Text: text, Truncated: path}
	if text != "" && text[len(text)-1] != '\n' {
		out.Text += "\n"
	}
	var exit *exec.ExitError
	switch {
	case how == byLimit:
		out.IsError = true
		out.Text += fmt.Sprintf("[stopped: its time limit of %s was over]", limit)
	case err == nil:
		out.Text += "[exit code 0"
	case errors.As(err, &exit) && exit.Exited():
		out.IsError = true
		out.Text += fmt.Sprintf("[exit code %d", exit.ExitCode())
	default:
		out.IsError = true
		out.Text += fmt.Sprintf("[ended by %v", err)
	}
	if how != byLimit {
		if took >= 10*time.Second {
			out.Text += fmt.Sprintf(", %s", took.Round(time.Second))
		}
		out.Text += "]"
	}
	return out
}
