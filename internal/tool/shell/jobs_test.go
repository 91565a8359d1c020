//go:build unix

package shell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// yard is a background on a real store. news is rung at each commit.
type yard struct {
	t    *testing.T
	w    tooltest.World
	s    store.Store
	jobs *Jobs
	news chan struct{}
	end  func()
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, w: tooltest.NewWorld(t), news: make(chan struct{}, 1)}
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	y.s = s
	err = s.Update(t.Context(), func(tx store.Tx) error {
		return tx.InsertConversation(mercury.Conversation{ID: "local/test", Kind: "chat"})
	})
	if err != nil {
		t.Fatal(err)
	}
	y.open()
	return y
}

func (y *yard) open() {
	o := JobsOptions{Node: "node", Folder: y.t.TempDir(), Update: func(ctx context.Context, fn func(store.Tx) error) error {
		err := y.s.Update(ctx, fn)
		select {
		case y.news <- struct{}{}:
		default:
		}
		return err
	}}
	y.jobs = NewJobs(Options{Grace: 200 * time.Millisecond}, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	jobs := y.jobs
	go func() { ended <- jobs.Run(ctx) }()
	y.end = func() {
		cancel()
		if err := <-ended; err != nil {
			y.t.Errorf("run: %v", err)
		}
		y.end = func() {}
	}
	y.t.Cleanup(func() { y.end() })
}

func (y *yard) call(x tool.Tool, args string) tool.Output {
	y.t.Helper()
	c := y.w.Call(x.Spec().Name, args)
	p := tool.NewSet(&tooltest.Gate{Verdict: mercury.Allow}, x).Prepare(y.t.Context(), c)
	if p.Run == nil {
		return *p.Output
	}
	out, err := p.Run(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return out
}

func (y *yard) start(command string) (id string) {
	y.t.Helper()
	out := y.call(Run(Options{Jobs: y.jobs}), `{"background":true,"command":"`+command+`"}`)
	id, _, _ = strings.Cut(out.Text, " ")
	if out.IsError || !strings.HasPrefix(id, "job_") {
		y.t.Fatalf("got %q", out.Text)
	}
	return id
}

// until waits until the job is as wanted.
func (y *yard) until(id string, ok func(store.Job) bool) (j store.Job) {
	y.t.Helper()
	for deadline := time.After(5 * time.Second); ; {
		err := y.s.View(context.Background(), func(tx store.Tx) (err error) { j, err = tx.Job(id); return err })
		if err != nil {
			y.t.Fatal(err)
		}
		if ok(j) {
			return j
		}
		select {
		case <-y.news:
		case <-deadline:
			y.t.Fatalf("it is %+v", j)
		}
	}
}

func over(j store.Job) bool { return j.State != store.JobRunning }

func (y *yard) notes() (text string) {
	y.t.Helper()
	err := y.s.View(context.Background(), func(tx store.Tx) error {
		es, err := tx.Entries("local/test", 0, 0)
		for _, e := range es {
			text += e.Text + "\n"
		}
		return err
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return text
}

func TestABackgroundCommandReturnsAtOnceAndItsEndIsNoted(t *testing.T) {
	y := newYard(t)
	id := y.start("echo begun; while ! [ -e go ]; do sleep 0.01; done; echo ended; exit 3")
	if err := os.WriteFile(filepath.Join(y.w.Workspace, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j := y.until(id, over)
	if j.State != store.JobDone || j.ExitCode != 3 || y.jobs.Output(j) != "begun\nended" {
		t.Errorf("%+v printed %q", j, y.jobs.Output(j))
	}
	if !strings.Contains(y.notes(), id+" (echo begun") || !strings.Contains(y.notes(), "exit code 3") {
		t.Errorf("noted %q", y.notes())
	}
	if out := y.call(y.jobs.Tool(), `{"action":"output","id":"`+id+`"}`); !strings.Contains(out.Text, "ended with exit code 3\nbegun") {
		t.Errorf("the tool says %q", out.Text)
	}
}

func TestABackgroundCommandIsStoppedWithAllItStarted(t *testing.T) {
	y := newYard(t)
	id := y.start(`(trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done) & wait`)
	if out := y.call(y.jobs.Tool(), `{"action":"list"}`); !strings.Contains(out.Text, id+"  runs since") {
		t.Errorf("listed %q", out.Text)
	}
	for deadline := time.Now().Add(3 * time.Second); ; {
		if b, _ := os.ReadFile(filepath.Join(y.w.Workspace, "pid")); len(b) > 0 || time.Now().After(deadline) {
			break
		}
	}
	y.call(y.jobs.Tool(), `{"action":"stop","id":"`+id+`"}`)
	if j := y.until(id, over); j.State != store.JobStopped || !strings.Contains(j.Reason, "model") {
		t.Errorf("it is %+v", j)
	}
	gone(t, filepath.Join(y.w.Workspace, "pid"))
	if out := y.call(y.jobs.Tool(), `{"action":"stop","id":"job_other"}`); !out.IsError {
		t.Errorf("a job of nobody: %s", out.Text)
	}
}

func TestBackgroundCommandsEndWithMercuryAndARestartSaysSo(t *testing.T) {
	y := newYard(t)
	id := y.start("echo $$ > pid; exec sleep 60")
	for deadline := time.Now().Add(3 * time.Second); ; {
		if b, _ := os.ReadFile(filepath.Join(y.w.Workspace, "pid")); len(b) > 0 || time.Now().After(deadline) {
			break
		}
	}
	y.end()
	gone(t, filepath.Join(y.w.Workspace, "pid"))
	if j := y.until(id, over); j.Reason != "Mercury stopped" {
		t.Errorf("it is %+v", j)
	}
	// As after a kill: the row says that it runs, and nothing does.
	left := store.Job{ID: "job_left", ConversationID: "local/test", Node: "node", Command: "serve", State: store.JobRunning}
	other := store.Job{ID: "job_far", ConversationID: "local/test", Node: "other", Command: "serve", State: store.JobRunning}
	err := y.s.Update(t.Context(), func(tx store.Tx) error { return errors.Join(tx.InsertJob(left), tx.InsertJob(other)) })
	if err != nil {
		t.Fatal(err)
	}
	y.open()
	if j := y.until("job_left", over); j.State != store.JobStopped || !strings.Contains(y.notes(), "Mercury was restarted") {
		t.Errorf("it is %+v, noted %q", j, y.notes())
	}
	if j := y.until("job_far", func(store.Job) bool { return true }); j.State != store.JobRunning {
		t.Errorf("another node's is %+v", j)
	}
}

func TestABackgroundHasRoomForSoMany(t *testing.T) {
	y := newYard(t)
	for range jobsMax {
		y.start("sleep 60")
	}
	out := y.call(Run(Options{Jobs: y.jobs}), `{"background":true,"command":"true"}`)
	if !out.IsError || !strings.Contains(out.Text, "Stop one of them") {
		t.Errorf("got %q", out.Text)
	}
}

func TestBackgroundConforms(t *testing.T) {
	tooltest.Run(t, tooltest.Fixture{Calls: []string{`{"action":"list"}`}, Tool: func(tooltest.World) tool.Tool { return newYard(t).jobs.Tool() }})
}

func TestOfWhatABackgroundCommandPrintsABoundedPartIsKept(t *testing.T) {
	y := newYard(t)
	c := call(y.w, "head -c 80000000 /dev/zero | tr '\\0' x; echo the end")
	c.ConversationID, c.Outputs = "local/test", t.TempDir()
	out, err := y.jobs.start(t.Context(), c, "head -c 80000000 /dev/zero | tr '\\0' x; echo the end")
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(out.Text, " ")
	job := y.until(id, func(j store.Job) bool { return j.State != store.JobRunning })
	if job.State != store.JobDone || job.ExitCode != 0 {
		t.Errorf("it %s", Ended(job)) // a full file must not hold it up
	}
	info, err := os.Stat(job.Output)
	if err != nil || info.Size() > jobOutput+100 {
		t.Errorf("%d bytes are kept, %v", info.Size(), err)
	}
	if text := y.jobs.Output(job); !strings.Contains(text, "[the rest is not kept]") || len(text) > tailBytes+200 {
		t.Errorf("%d bytes are shown", len(text))
	}
}
