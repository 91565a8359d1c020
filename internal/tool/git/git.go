// Package git holds the tools that look at a git repository and change it.
//
// Each of them is a git command, given as an argument vector and judged as
// one: the gate resolves what runs, with the settings that keep a foreign
// repository from starting programs. Nothing is added to a commit's message.
package git

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// pushLimit is how long a push may take.
const pushLimit = 5 * time.Minute

// Tools returns git_status, git_diff, git_log, git_show, git_branch, git_add,
// git_commit and git_push.
func Tools(o shell.Options) []tool.Tool {
	return []tool.Tool{
		define(o, "git_status", "Changed and untracked files of the git repository, and its branch.", mercury.Read, 0,
			func(struct{}) ([]string, error) { return []string{"status", "--short", "--branch"}, nil }),
		define(o, "git_diff", "What changed in the working tree; with staged, what a commit would record; or against a revision.", mercury.Read, 0, diff),
		define(o, "git_log", "The latest commits, of a file or folder if one is named.", mercury.Read, 0, log),
		define(o, "git_show", "One commit with its changes, or a file as it was: revision:path.", mercury.Read, 0, show),
		define(o, "git_branch", "The branches, the current one marked.", mercury.Read, 0,
			func(struct{}) ([]string, error) { return []string{"branch", "--all", "--verbose"}, nil }),
		define(o, "git_add", "Stage files or folders for the next commit.", mercury.Once, 0, add),
		define(o, "git_commit", "Record what is staged, with exactly this message.", mercury.Once, 0, commit),
		define(o, "git_push", "Send commits of a branch to a remote.", mercury.Once, pushLimit, push),
	}
}

// define makes a tool of a git command.
func define[In any](o shell.Options, name, usage string, effect mercury.Effect, limit time.Duration, args func(In) ([]string, error)) tool.Tool {
	access := func(c tool.Call, in In) ([]mercury.Access, error) {
		words, err := args(in)
		if err != nil {
			return nil, err
		}
		if !filepath.IsAbs(c.Folder()) {
			return nil, invalid("there is no workspace to run git in")
		}
		for _, w := range words {
			if strings.ContainsRune(w, 0) {
				return nil, invalid("there is a NUL character in the arguments")
			}
		}
		return []mercury.Access{{Kind: mercury.RunCommand, Argv: append([]string{"git"}, words...), Dir: c.Folder()}}, nil
	}
	return tool.Define(tool.Definition[In]{
		Name: name, Usage: usage, Effect: effect,
		Access: func(_ context.Context, c tool.Call, in In) ([]mercury.Access, error) { return access(c, in) },
		Run: func(ctx context.Context, c tool.Call, in In) (tool.Output, error) {
			stated, err := access(c, in)
			if err != nil {
				return tool.Output{}, err
			}
			if len(c.Granted) != 1 || tool.Hash(c.Granted) != tool.Hash(stated) {
				return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("this command was not allowed")}
			}
			return shell.Exec(ctx, o, c, limit)
		},
	})
}

type diffInput struct {
	Staged   bool   `json:"staged,omitempty"`
	Revision string `json:"revision,omitempty"`
	Path     string `json:"path,omitempty"`
}

func diff(in diffInput) ([]string, error) {
	words := []string{"diff"}
	if in.Staged {
		words = append(words, "--staged")
	}
	return operands(words, in.Revision, in.Path)
}

type logInput struct {
	Count    int    `json:"count,omitempty" jsonschema:"default 20"`
	Revision string `json:"revision,omitempty"`
	Path     string `json:"path,omitempty"`
}

func log(in logInput) ([]string, error) {
	n := in.Count
	if n <= 0 {
		n = 20
	}
	return operands([]string{"log", "--date=iso", "--max-count=" + strconv.Itoa(min(n, 500))}, in.Revision, in.Path)
}

type showInput struct {
	Revision string `json:"revision,omitempty" jsonschema:"default HEAD"`
}

func show(in showInput) ([]string, error) {
	rev := in.Revision
	if rev == "" {
		rev = "HEAD"
	}
	return operands([]string{"show"}, rev, "")
}

// operands ends a command line with a revision and a path, neither of which
// can be read as an option.
func operands(words []string, revision, path string) ([]string, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, invalid(fmt.Sprintf("%q is no revision", revision))
	}
	if revision != "" {
		words = append(words, revision)
	}
	words = append(words, "--")
	if path != "" {
		words = append(words, path)
	}
	return words, nil
}

type addInput struct {
	Paths []string `json:"paths"`
}

func add(in addInput) ([]string, error) {
	if len(in.Paths) == 0 || slices.Contains(in.Paths, "") {
		return nil, invalid("name the files to stage, or . for all")
	}
	return append([]string{"add", "--"}, in.Paths...), nil
}

type commitInput struct {
	Message string `json:"message"`
	All     bool   `json:"all,omitempty" jsonschema:"stage changed files first"`
}

func commit(in commitInput) ([]string, error) {
	if strings.TrimSpace(in.Message) == "" {
		return nil, invalid("the message is empty")
	}
	words := []string{"commit"}
	if in.All {
		words = append(words, "--all")
	}
	return append(words, "--message="+in.Message), nil
}

type pushInput struct {
	Remote      string `json:"remote,omitempty" jsonschema:"default origin"`
	Branch      string `json:"branch,omitempty" jsonschema:"default the current one"`
	SetUpstream bool   `json:"set_upstream,omitempty"`
}

func push(in pushInput) ([]string, error) {
	remote, branch := in.Remote, in.Branch
	if remote == "" {
		remote = "origin"
	}
	if branch == "" {
		branch = "HEAD"
	}
	if strings.HasPrefix(remote, "-") || strings.HasPrefix(branch, "-") || strings.HasPrefix(branch, "+") {
		return nil, invalid("a remote and a branch are plain names; a push is never forced")
	}
	words := []string{"push"}
	if in.SetUpstream {
		words = append(words, "--set-upstream")
	}
	return append(words, remote, branch), nil
}

func invalid(text string) error { return &mercury.Error{Kind: mercury.Invalid, Err: errors.New(text)} }
