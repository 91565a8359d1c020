package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// ruleReads is the rule by which a command passes that can only read.
const ruleReads = "command.argv"

// marked is the result of a call that ran, with what its files know of text
// from outside: what was read from a marked file is tainted, and what was
// written in a tainted request is marked. A command may have read anything in
// its folder and, unless it only reads, written anything there.
func (t *turn) marked(ctx context.Context, c *call, out tool.Output) (engine.StepResult, error) {
	accesses := c.prepared.Accesses
	err := t.w.View(ctx, func(tx store.Tx) error {
		for _, a := range accesses {
			path := a.Target
			if a.Kind == mercury.RunCommand {
				path = a.Dir
			} else if a.Kind != mercury.ReadPath {
				continue
			}
			if path == "" {
				continue
			}
			sources, err := tx.FileTaint(path)
			if err != nil {
				return fmt.Errorf("read the marks of %s: %w", path, err)
			}
			out.Taint = union(out.Taint, sources)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return engine.StepResult{}, err
	}
	sources := union(t.taint(), out.Taint)
	commit := out.Commit
	out.Commit = func(tx store.Tx) error {
		if commit != nil {
			if err := commit(tx); err != nil {
				return err
			}
		}
		return mark(tx, c, sources, out.IsError)
	}
	return t.result(c, out), nil
}

// mark writes what a call did to the marks of files.
func mark(tx store.Tx, c *call, sources []string, failed bool) error {
	for _, a := range c.prepared.Accesses {
		switch {
		case a.Kind == mercury.WritePath && !failed:
			if len(sources) == 0 && c.data.Tool != "write_file" {
				continue // what it held before may still be there
			}
			now := sources
			if len(sources) > 0 {
				before, err := tx.FileTaint(a.Target)
				if err != nil {
					return err
				}
				now = union(before, sources)
			}
			if err := tx.TaintFile(a.Target, now, c.entry.RunID); err != nil {
				return fmt.Errorf("mark %s: %w", a.Target, err)
			}
		case a.Kind == mercury.RunCommand && len(sources) > 0 && c.prepared.Judgement.Rule != ruleReads && a.Dir != "":
			if err := tx.TaintFile(a.Dir, sources, c.entry.RunID); err != nil {
				return fmt.Errorf("mark %s: %w", a.Dir, err)
			}
		}
	}
	return nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
