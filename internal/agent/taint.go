package agent

import (
	"context"
	"slices"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// marked is the result of a call that ran, with what its files know of text
// from outside: what was read from a marked file is tainted, and what was
// written in a tainted request is marked.
func (t *turn) marked(ctx context.Context, c *call, out tool.Output) (engine.StepResult, error) {
	err := t.w.View(ctx, func(tx store.Tx) error {
		sources, err := tool.Marks(tx, c.prepared.Accesses)
		out.Taint = union(out.Taint, sources)
		return err
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
		return tool.Mark(tx, c.data.Tool, c.entry.RunID, c.prepared, sources, out.IsError)
	}
	return t.result(c, out), nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
