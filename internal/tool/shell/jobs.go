package shell

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Limits of background commands.
const (
	jobsMax   = 8        // that one conversation has running
	jobOutput = 64 << 20 // bytes kept of what one prints
	tailBytes = 16 << 10 // bytes shown of it
)

// JobsOptions tune Jobs. Update and Node are required.
type JobsOptions struct {
	// Update runs fn in one transaction of the store.
	Update func(ctx context.Context, fn func(store.Tx) error) error
	Node   string // home of this process
	Folder string // where outputs go when a call has no folder of its own
	Log    *slog.Logger
}

// Jobs are the commands that run in the background of conversations. They end
// with their conversation, with this process, or by a person's or the model's
// word; what ended them is written down, and stands in the conversation.
type Jobs struct {
	shell Options
	opts  JobsOptions

	mu      sync.Mutex
	closed  bool
	running map[string]*job
	all     sync.WaitGroup
}

type job struct {
	row    store.Job
	stop   chan struct{}
	once   sync.Once
	reason string           // why it was stopped; written before stop is closed
	fenced *sandbox.Process // nil: nothing holds it
}

// leave puts away what held a fenced job.
func (x *job) leave() error {
	if x.fenced == nil {
		return nil
	}
	return x.fenced.Close()
}

// NewJobs returns the background of the commands that o describes.
func NewJobs(o Options, j JobsOptions) *Jobs {
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
	return &Jobs{shell: o.withDefaults(), opts: j, running: map[string]*job{}}
}

// Run says what an earlier process left behind has ended, and waits until ctx
// ends. Then it ends what runs, and returns when all of it is gone and written
// down.
func (j *Jobs) Run(ctx context.Context) error {
	if err := j.recover(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("look for background commands: %w", err)
	}
	<-ctx.Done()
	j.mu.Lock()
	j.closed = true
	for _, x := range j.running {
		x.end("Mercury stopped")
	}
	j.mu.Unlock()
	j.all.Wait()
	return nil
}

// recover settles the jobs of this home that were running when its process
// ended. The processes themselves were ended at the start, by EndLeftovers.
func (j *Jobs) recover(ctx context.Context) error {
	return j.opts.Update(ctx, func(tx store.Tx) error {
		left, err := tx.RunningJobs(j.opts.Node)
		if err != nil {
			return err
		}
		for _, row := range left {
			j.mu.Lock()
			_, ours := j.running[row.ID]
			j.mu.Unlock()
			if ours {
				continue
			}
			row.State, row.Reason, row.EndedAt = store.JobStopped, "Mercury was restarted", tx.Now()
			if err := settle(tx, row, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle writes how a job ended, tells the model by a note and, if asked to,
// its person.
func settle(tx store.Tx, row store.Job, tell bool) error {
	if err := tx.SaveJob(row); err != nil {
		return err
	}
	if _, err := tx.LockConversation(row.ConversationID); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	text := "Background command " + row.ID + " (" + oneLine(row.Command) + ") " + Ended(row) + "."
	if _, err := tx.Append(row.ConversationID, mercury.Entry{Kind: mercury.NoteEntry, Text: text}); err != nil {
		return err
	}
	e, ok := tx.(interface {
		Emit(mercury.Delivery) (mercury.Delivery, bool, error)
	})
	if !tell || !ok {
		return nil
	}
	_, _, err := e.Emit(mercury.Delivery{Address: row.ConversationID, ConversationID: row.ConversationID, RequestID: "job/" + row.ID,
		Kind: mercury.NoticeDelivery, Text: text})
	return err
}

// Ended says how a job ended, or that it runs.
func Ended(j store.Job) string {
	switch j.State {
	case store.JobDone:
		return fmt.Sprintf("ended with exit code %d", j.ExitCode)
	case store.JobStopped:
		return "was ended: " + j.Reason
	}
	return "runs since " + j.StartedAt.Local().Format("15:04:05")
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(tool.Clean(s)), " ")
	if len(s) > 120 {
		s = strings.ToValidUTF8(s[:120], "") + "…"
	}
	return s
}

// start starts a command that was allowed and returns when it runs.
func (j *Jobs) start(ctx context.Context, c tool.Call, command string) (tool.Output, error) {
	x := &job{stop: make(chan struct{}), row: store.Job{ID: mercury.NewID("job"), ConversationID: c.ConversationID, RunID: c.RunID,
		Node: j.opts.Node, Command: command, State: store.JobRunning, StartedAt: time.Now().UTC()}}
	cmd, mark := j.shell.command(c, command)
	x.row.Dir = cmd.Dir
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return tool.Output{}, fmt.Errorf("the folder %s, where commands run, is gone", cmd.Dir)
	}
	// The job outlives its call, and stays behind the fence it was allowed in.
	fenced, err := j.shell.fence(context.WithoutCancel(ctx), c.Exec, cmd)
	if err != nil {
		return tool.Output{}, err
	}
	if fenced != nil {
		cmd, x.fenced = fenced.Cmd, fenced
	}
	if err := j.admit(x); err != nil {
		return tool.Output{}, errors.Join(err, x.leave())
	}
	out, err := j.output(c, x)
	if err == nil {
		err = j.opts.Update(ctx, func(tx store.Tx) error { return tx.InsertJob(x.row) })
	}
	if err != nil {
		j.forget(x)
		return tool.Output{}, fmt.Errorf("start in the background: %w", errors.Join(err, x.leave()))
	}
	r, w, err := os.Pipe()
	if err == nil {
		cmd.Stdout, cmd.Stderr = w, w
		var g *group
		if g, err = startGroup(cmd, mark, held(fenced)); err == nil {
			w.Close()
			go j.mind(x, cmd, g, r, out)
			return tool.Output{Text: fmt.Sprintf("%s runs in the background. Its output goes to %s; the tool background lists, shows and stops it.", x.row.ID, x.row.Output)}, nil
		}
		r.Close()
		w.Close()
	}
	out.Close()
	x.row.State, x.row.Reason = store.JobStopped, "it could not be started"
	err = errors.Join(err, x.leave())
	j.finish(x)
	return tool.Output{}, fmt.Errorf("start %s: %w", cmd.Path, err)
}

// admit counts the job, unless there are too many or this process is ending.
func (j *Jobs) admit(x *job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errors.New("nothing is started any more: this Mercury is stopping")
	}
	n := 0
	for _, other := range j.running {
		if other.row.ConversationID == x.row.ConversationID {
			n++
		}
	}
	if n >= jobsMax {
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("%d commands run in the background already", n), Help: "Stop one of them first."}
	}
	j.running[x.row.ID] = x
	j.all.Add(1)
	return nil
}

func (j *Jobs) forget(x *job) {
	j.mu.Lock()
	delete(j.running, x.row.ID)
	j.mu.Unlock()
	j.all.Done()
}

// output opens the file of what a job prints, where the model may read it.
func (j *Jobs) output(c tool.Call, x *job) (*os.File, error) {
	dir := c.Outputs
	if dir == "" {
		dir = j.opts.Folder
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	x.row.Output = filepath.Join(dir, x.row.ID+".txt")
	return os.OpenFile(x.row.Output, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
}

// mind waits for a job's end, or brings it about.
func (j *Jobs) mind(x *job, cmd *exec.Cmd, g *group, r, out *os.File) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		if n, _ := io.CopyN(out, r, jobOutput); n == jobOutput {
			_, _ = out.WriteString("\n[the rest is not kept]\n")
			_, _ = io.Copy(io.Discard, r) // it must not block on a full pipe
		}
	}()
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	x.row.State = store.JobDone
	var err error
	select {
	case err = <-exit:
	case <-x.stop:
		x.row.State, x.row.Reason = store.JobStopped, x.reason
		g.ask()
		select {
		case err = <-exit:
		case <-time.After(j.shell.Grace):
			g.kill()
			err = <-exit
		}
	}
	g.kill()
	select {
	case <-copied:
	case <-time.After(strayWait):
		r.Close()
		<-copied
	}
	g.release()
	r.Close()
	out.Close()
	if cerr := x.leave(); cerr != nil && err == nil {
		err = cerr
	}
	var code *exec.ExitError
	switch {
	case errors.As(err, &code):
		x.row.ExitCode = code.ExitCode()
	case err != nil && x.row.State == store.JobDone:
		x.row.State, x.row.Reason = store.JobStopped, err.Error()
	}
	j.finish(x)
}

// finish writes a job's end down. The context of whoever started it is long
// over, so it has a time of its own.
func (j *Jobs) finish(x *job) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := j.opts.Update(ctx, func(tx store.Tx) error {
		now, err := tx.Job(x.row.ID)
		if err != nil {
			return err
		}
		row := x.row
		row.Detached, row.EndedAt = now.Detached, tx.Now()
		return settle(tx, row, false)
	})
	if err != nil {
		j.opts.Log.Error("a background command's end could not be written down", "job", x.row.ID, "err", err)
	}
	j.forget(x)
}

func (x *job) end(reason string) {
	x.once.Do(func() {
		x.reason = reason
		close(x.stop)
	})
}

// Stop ends a job of this process and returns at once; its end is written down
// when it has come. It reports whether there was one.
func (j *Jobs) Stop(id, reason string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, ok := j.running[id]
	if ok {
		x.end(reason)
	}
	return ok
}

// Output is the end of what a job has printed.
func (j *Jobs) Output(row store.Job) string {
	f, err := os.Open(row.Output)
	if err != nil {
		return "(its output is no longer kept)"
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "(its output cannot be read)"
	}
	text, skipped := "", max(0, info.Size()-tailBytes)
	b, err := io.ReadAll(io.NewSectionReader(f, skipped, tailBytes))
	if err != nil {
		return "(its output cannot be read)"
	}
	if text = tool.Clean(strings.ToValidUTF8(string(b), "")); text == "" {
		return "(no output so far)"
	}
	if skipped > 0 {
		text = fmt.Sprintf("[… %d bytes before this]\n%s", skipped, text)
	}
	return strings.TrimRight(text, "\n")
}

//go:embed background.md
var backgroundUsage string

type backgroundInput struct {
	Action string `json:"action" jsonschema:"list, output or stop"`
	ID     string `json:"id,omitempty"`
}

// Tool returns the tool background: a conversation's own jobs.
func (j *Jobs) Tool() tool.Tool {
	return tool.Define(tool.Definition[backgroundInput]{
		Name: "background", Usage: backgroundUsage, Effect: mercury.Read,
		Access: func(context.Context, tool.Call, backgroundInput) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "background commands"}}, nil
		},
		Run: func(ctx context.Context, c tool.Call, in backgroundInput) (tool.Output, error) {
			var rows []store.Job
			err := j.opts.Update(ctx, func(tx store.Tx) (err error) {
				rows, err = tx.Jobs(c.ConversationID)
				return err
			})
			if err != nil {
				return tool.Output{}, fmt.Errorf("read background commands: %w", err)
			}
			if in.Action == "list" {
				return tool.Output{Text: List(rows)}, nil
			}
			for _, row := range rows {
				if row.ID != in.ID {
					continue
				}
				switch in.Action {
				case "output":
					return tool.Output{Text: Ended(row) + "\n" + j.Output(row)}, nil
				case "stop":
					if len(c.Granted) == 0 {
						return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("this was not allowed")}
					}
					if !j.Stop(row.ID, "the model stopped it") {
						return tool.Output{Text: row.ID + " " + Ended(row) + "."}, nil
					}
					return tool.Output{Text: row.ID + " is being stopped."}, nil
				}
				return tool.Output{}, invalid("the action is list, output or stop")
			}
			return tool.Output{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no background command %q in this conversation", in.ID)}
		},
	})
}

// List is one line for each job.
func List(rows []store.Job) string {
	if len(rows) == 0 {
		return "Nothing runs in the background."
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%s  %s: %s\n", row.ID, Ended(row), oneLine(row.Command))
	}
	return strings.TrimRight(b.String(), "\n")
}
