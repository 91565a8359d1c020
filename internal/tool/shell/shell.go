// Package shell holds the tool that runs commands.
//
// A command gets its own process group, a small environment without secrets,
// no input, and a time limit. When the call ends, by itself, by its limit or
// because its run was cancelled, everything it started ends too. Its output is
// bounded in memory however much it prints, the whole of it in a file.
//
// Whether a command may run, and inside which fence, is the gate's to say: a
// resolved command from the gate runs exactly as given, by execve.
package shell

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed run.md
var usage string

// Options tune the tool. A zero field means its default.
type Options struct {
	Shell string        // absolute path of a POSIX shell; default the system's sh, on Windows cmd.exe
	Path  string        // PATH of commands; default the system's usual folders
	Home  string        // HOME of commands; default the user's
	Limit time.Duration // time limit of a call that names none; default 2 min
	Max   time.Duration // longest time limit a call may name; default 20 min
	Grace time.Duration // between asking a command to end and ending it; default 5 s

	// Fence is what holds the commands that the gate let through only inside
	// one; without it they do not run.
	Fence *sandbox.Fence

	// Hidden are folders that no command reaches, though a person allowed it.
	// Where Fence knows no way to hide them, only the gate keeps commands out.
	Hidden []string

	// Owner names this Mercury among others on the machine, in letters and
	// digits. What it left running when it was killed is found by it.
	Owner string

	// Watch, if not nil, looks at the workspace before a command that may
	// change it, and again by the function it returns, nil for none. What was
	// changed joins the commit of the result by Remember.
	Watch    func(ctx context.Context, c tool.Call, folder string) func(context.Context) []store.UndoRow
	Remember func(tx store.Tx, rows []store.UndoRow) error

	// Jobs, if not nil, is where commands run in the background.
	Jobs *Jobs
}

type input struct {
	Command        string `json:"command"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"default 120, at most 1200"`
	OutsideFence   bool   `json:"outside_fence,omitempty" jsonschema:"true only if it needs the network or files elsewhere; a person is asked"`
	Background     bool   `json:"background,omitempty" jsonschema:"return at once and let it run"`
}

// commandMax bounds a command in bytes; the system has no room for longer ones.
const commandMax = 64 << 10

// Run returns the tool run_command.
func Run(o Options) tool.Tool {
	o = o.withDefaults()
	return tool.Define(tool.Definition[input]{
		Name: "run_command", Usage: usage, Effect: mercury.Once,
		Access: func(_ context.Context, c tool.Call, in input) ([]mercury.Access, error) {
			if err := check(c, in); err != nil {
				return nil, err
			}
			return []mercury.Access{{Kind: mercury.RunCommand, Target: in.Command, Dir: c.Folder(), Detail: detail(in), Unfenced: in.OutsideFence, Background: in.Background}}, nil
		},
		Show: func(_ context.Context, c tool.Call, in input) string {
			return strings.TrimSpace(fmt.Sprintf("%s\n\nin %s, outside the fence%s\n%s", in.Command, c.Folder(), o.reach(), detail(in)))
		},
		Run: func(ctx context.Context, c tool.Call, in input) (tool.Output, error) {
			if err := check(c, in); err != nil {
				return tool.Output{}, err
			}
			if !granted(c, in) {
				return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("this command was not allowed")}
			}
			if in.Background {
				if o.Jobs == nil {
					return tool.Output{}, invalid("nothing runs in the background here; leave background out")
				}
				return o.Jobs.start(ctx, c, in.Command)
			}
			limit := o.Limit
			if in.TimeoutSeconds > 0 {
				limit = min(time.Duration(in.TimeoutSeconds)*time.Second, o.Max)
			}
			return o.run(ctx, c, in.Command, limit)
		},
	})
}

func (o Options) withDefaults() Options {
	if o.Shell == "" {
		o.Shell = defaultShell()
	}
	if o.Path == "" {
		o.Path = defaultPath
	}
	if o.Home == "" {
		o.Home, _ = os.UserHomeDir() // without one, commands see none
	}
	if o.Limit == 0 {
		o.Limit = 2 * time.Minute
	}
	if o.Max == 0 {
		o.Max = 20 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	return o
}

// EndLeftovers ends what commands of owner are still running, and returns how
// many processes that were. It is for the start, when a Mercury that was killed
// may have left some; systems other than Linux cannot tell whose they are.
func EndLeftovers(owner string) int {
	if owner == "" {
		return 0
	}
	return killMarked(markName + "=" + owner + "-")
}

// Leftovers counts what EndLeftovers would end.
func Leftovers(owner string) int {
	if owner == "" {
		return 0
	}
	return signalMarked(markName+"="+owner+"-", 0)
}

func check(c tool.Call, in input) error {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return invalid("the command is empty")
	case strings.ContainsRune(in.Command, 0):
		return invalid("the command has a NUL character in it")
	case len(in.Command) > commandMax:
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("the command has %d bytes; at most %d can be run", len(in.Command), commandMax), Help: "Write a script with write_file and run that."}
	case in.TimeoutSeconds < 0:
		return invalid("timeout_seconds must not be negative")
	case !filepath.IsAbs(c.Folder()):
		return invalid("there is no workspace to run a command in")
	}
	return nil
}

func invalid(text string) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: errors.New(text)}
}

// detail is what an approval says beside the command.
func detail(in input) string {
	if in.Background {
		return "in the background, until it ends or is stopped"
	}
	return ""
}

// reach says what an allowed command can reach that it should not.
func (o Options) reach() string {
	if o.Fence == nil || len(o.Hidden) == 0 {
		return ""
	}
	if report, ok := o.Fence.Known(); ok && report.Veil == "" {
		return ", and nothing on this system keeps it from Mercury's own folder"
	}
	return ""
}

// granted reports whether this very command was allowed.
func granted(c tool.Call, in input) bool {
	for _, g := range c.Granted {
		if g.Kind == mercury.RunCommand && g.Target == in.Command && g.Dir == c.Folder() && g.Detail == detail(in) && g.Unfenced == in.OutsideFence {
			return true
		}
	}
	return false
}
