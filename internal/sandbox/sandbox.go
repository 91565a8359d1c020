// Package sandbox is the fence a command runs inside.
//
// A Policy says what a command may see, what it may write, and whether it may
// talk to anybody; a Fence turns a command and a policy into a process that is
// held to it, with the strongest means this system has: bubblewrap and
// Landlock together, either alone, or sandbox-exec on macOS. What a fence can
// hold here is found out by running one, never guessed, and a policy that
// cannot be held is refused: there is no silent second best.
//
// The fenced command is started through a helper, this same program called as
// "mercury __sandbox FD -- argv", which takes the last rights away from itself
// and then becomes the command. docs/sandbox.md says for people what each level
// holds. Which policy fits whom, and whether a command may run at all, is
// decided elsewhere.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Level is how strong a fence is.
type Level string

// The levels, the strongest first. The first three are of Linux.
const (
	BwrapLandlock Level = "bwrap+landlock" // bubblewrap, and Landlock inside it
	Bwrap         Level = "bwrap"          // namespaces: files, processes and network of its own
	Landlock      Level = "landlock"       // rights taken from the process, and a filter of system calls
	SandboxExec   Level = "sandbox-exec"   // macOS: a generated profile
	None          Level = "none"           // no fence
)

var rank = map[Level]int{None: 0, "": 0, SandboxExec: 1, Landlock: 1, Bwrap: 2, BwrapLandlock: 3}

// AtLeast reports whether l is as strong as want.
func (l Level) AtLeast(want Level) bool { return rank[l] >= rank[want] }

// Policy says what a command may touch. The zero policy shows it the system's
// programs and a folder for temporary files, and nothing else.
type Policy struct {
	ReadWrite []string // files and folders it may change
	ReadOnly  []string // files and folders it may read, beside the system's own
	// Hidden is what it never sees, wherever it lies: it wins over the other
	// lists.
	Hidden  []string
	Network bool   // it may talk to others; without it not even to this machine
	Require Level  // refuse to run below this level; empty: any fence
	Limits  Limits // zero: unlimited
}

// Limits bound what a command uses up. They hold for each process on its own,
// except Processes. A zero field is no limit.
type Limits struct {
	CPU       time.Duration // processor time, in whole seconds
	Memory    int64         // bytes of memory of its own
	Processes int           // processes and threads at once
	FileSize  int64         // bytes of one written file
	OpenFiles int
}

// DefaultLimits are for a command that nothing is known about: enough for a
// large build, too little to take a machine down.
func DefaultLimits() Limits {
	return Limits{CPU: time.Hour, Memory: machineMemory() * 3 / 4, Processes: 1024, FileSize: 16 << 30, OpenFiles: 4096}
}

// Command is what runs: a binary by its path, its argument vector with its
// name first, its whole environment and its folder.
type Command struct {
	Path string
	Args []string
	Env  []string
	Dir  string
}

// Report is what a probe found.
type Report struct {
	Level   Level  `json:"level"`
	ABI     int    `json:"abi,omitempty"`     // of Landlock; 0: there is none
	Missing string `json:"missing,omitempty"` // why it is not stronger
	Cure    string `json:"cure,omitempty"`    // the one thing that would make it stronger here
	// NoNested says that bubblewrap can forbid namespaces inside the fence.
	NoNested bool `json:"no_nested,omitempty"`
	// Veil is how commands outside the fence are kept from what is hidden;
	// empty: nothing keeps them.
	Veil Veil `json:"veil,omitempty"`
	// Mounts says that hiding by a namespace works too, whatever Veil is.
	Mounts bool `json:"mounts,omitempty"`
}

// String is the level, with what would raise it.
func (r Report) String() string {
	if r.Missing == "" {
		return string(r.Level)
	}
	text := fmt.Sprintf("%s: %s", r.Level, r.Missing)
	if r.Cure != "" {
		text += ". " + r.Cure
	}
	return text
}

// Options tune a Fence. A zero field means its default.
type Options struct {
	// Self is the program that is the helper: its Subcommand calls Main.
	// Without one there is no fence.
	Self string
	// Scratch is a folder for what fenced commands put into /tmp, one folder
	// each, removed after them; default the system's folder for temporary
	// files. What a killed process left in it may be removed by its owner.
	Scratch string
	Cache   string // file that keeps what Probe found until the system changes; default none
	Bwrap   string // bubblewrap's path; default the system's own, never looked up along PATH
}

// Fence starts commands inside the strongest fence of this system. It is safe
// for use by many goroutines.
type Fence struct {
	opts Options
	sys  system

	probing sync.Mutex // lets one probe run at a time
	report  atomic.Pointer[Report]
}

// New returns a fence. It looks at nothing yet.
func New(o Options) *Fence {
	if o.Scratch == "" {
		o.Scratch = os.TempDir()
	}
	f := &Fence{opts: o, sys: thisSystem()}
	if o.Bwrap != "" {
		f.sys.bwrap = o.Bwrap
	}
	return f
}

// ErrUnheld says that a policy asks for more than this system can hold.
var ErrUnheld = errors.New("no fence here holds this policy")

// Refusal is why a command was not started: the level its policy needs is
// missing. Its text ends with what would raise the level.
type Refusal struct {
	Need Level
	Have Report
}

func (r *Refusal) Error() string {
	need := string(r.Need)
	if r.Need == None || r.Need == "" {
		need = "any level"
	}
	return fmt.Sprintf("the command needs a fence (%s), and this system has %s", need, r.Have)
}

// Unwrap makes errors.Is(err, ErrUnheld) true.
func (r *Refusal) Unwrap() error { return ErrUnheld }

// Process is a command that is ready to be started inside its fence. Close must
// follow, after Wait or instead of Start.
type Process struct {
	*exec.Cmd
	Level Level
	// Shut are folders in which a veiled command can make nothing new, since
	// what is hidden lies below them.
	Shut []string

	ready   [2]*os.File // the helper says on it that the command begins
	plan    *os.File
	scratch string
	limit   *group
	stale   func() // told when the fence could not be built
}

// Command prepares c to run inside a fence that holds p. Nothing runs yet; its
// Stdin, Stdout and Stderr are the caller's to set.
func (f *Fence) Command(ctx context.Context, c Command, p Policy) (*Process, error) {
	report := f.Probe(ctx)
	if report.Level == None || !report.Level.AtLeast(p.Require) {
		return nil, &Refusal{Need: p.Require, Have: report}
	}
	return f.prepare(c, p, report)
}

// prepare builds the process at the report's level.
func (f *Fence) prepare(c Command, p Policy, report Report) (*Process, error) {
	proc, err := f.begin(report.Level)
	if err != nil {
		return nil, err
	}
	if err := f.fill(proc, c, p, report); err != nil {
		return nil, errors.Join(err, proc.Close())
	}
	return proc, nil
}

// begin makes what every process needs before its command is known.
func (f *Fence) begin(level Level) (*Process, error) {
	if _, err := os.Stat(f.opts.Self); err != nil {
		return nil, fmt.Errorf("find this program: %w; restart Mercury if it was replaced", err)
	}
	if err := os.MkdirAll(f.opts.Scratch, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of fenced commands: %w", err)
	}
	scratch, err := os.MkdirTemp(f.opts.Scratch, "fence-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of a fenced command: %w", err)
	}
	return &Process{Level: level, scratch: scratch, stale: f.forget}, nil
}

func (f *Fence) fill(proc *Process, c Command, p Policy, report Report) error {
	if err := os.Mkdir(filepath.Join(proc.scratch, "home"), 0o700); err != nil {
		return fmt.Errorf("make the folder of a fenced command: %w", err)
	}
	scratch, err := filepath.EvalSymlinks(proc.scratch)
	if err != nil {
		return fmt.Errorf("make the folder of a fenced command: %w", err)
	}
	r, err := resolve(p, c.Dir)
	if err != nil {
		return err
	}
	pl := newPlan(c, r, scratch, report)
	if proc.limit = newGroup(p.Limits); proc.limit != nil {
		pl.Groups = len(proc.limit.enter)
	}
	argv, err := wrap(f.opts.Self, &pl, r, scratch, report, f.sys)
	if err != nil {
		return err
	}
	var groups []*os.File
	if proc.limit != nil {
		groups = proc.limit.enter
	}
	if err := proc.helper(argv, &pl, groups); err != nil {
		return err
	}
	if report.Level == Landlock || report.Level == SandboxExec {
		proc.Cmd.Dir = r.dir
	}
	return nil
}

// helper makes the process that reads the plan and becomes the command.
func (p *Process) helper(argv []string, pl *plan, groups []*os.File) (err error) {
	if p.plan, err = pl.file(p.scratch); err != nil {
		return err
	}
	if p.ready[0], p.ready[1], err = os.Pipe(); err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	// The helper's own environment is empty: it finds the command's in the plan,
	// and nothing of it stands where others could read it before.
	p.Cmd = &exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Dir: "/",
		ExtraFiles: append([]*os.File{p.plan, p.ready[1]}, groups...)}
	return nil
}

// Close removes what was made for the command. Its error says that the command
// never began, since the fence could not be built.
func (p *Process) Close() error {
	var said string
	if p.ready[1] != nil {
		p.ready[1].Close()
		if p.Cmd.Process != nil {
			said = p.listen()
		}
		p.ready[0].Close()
	}
	if p.plan != nil {
		p.plan.Close()
	}
	if p.limit != nil {
		p.limit.end()
	}
	removeAll(p.scratch)
	if p.ready[1] == nil || p.Cmd.Process == nil || said == began {
		return nil
	}
	p.stale()
	if text := strings.TrimPrefix(said, began); text != "" {
		return fmt.Errorf("start the command in its fence: %s", text)
	}
	return fmt.Errorf("the fence (%s) could not be built: it ended before the command began", p.Level)
}

// listen reads what the helper said. Whoever else holds the pipe is no reason
// to wait.
func (p *Process) listen() string {
	_ = p.ready[0].SetReadDeadline(time.Now().Add(time.Second)) // pipes have deadlines
	b := make([]byte, 4096)
	n := 0
	for n < len(b) {
		m, err := p.ready[0].Read(b[n:])
		n += m
		if err != nil {
			break
		}
	}
	return string(b[:n])
}

// Empty removes what the commands of a killed process left in Scratch. Only
// who owns that folder alone may call it, while no command runs.
func (f *Fence) Empty() { removeAll(f.opts.Scratch) }

// removeAll removes a folder a command wrote in, whatever modes it left.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // ours, whatever the command made of it
		}
		return nil
	})
	_ = os.RemoveAll(dir) // what is left lies in a folder that is emptied at the next start
}
