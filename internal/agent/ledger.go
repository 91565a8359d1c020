package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// reserve is the ledger row of the turn's next call.
func (t *turn) reserve(s shape) store.LedgerRow {
	return reservation(t.run, t.run.ConversationID, t.profile, "turn", s.size, s.request.MaxTokens, t.agent.opts.Now())
}

// reservation is the ledger row committed before a call of a run: what it may
// cost at most. One that is never settled, because the process died, counts as
// it stands.
func reservation(run mercury.Run, conversation string, p Profile, purpose string, input, output int, at time.Time) store.LedgerRow {
	provider, model, _ := strings.Cut(p.ModelName, "/")
	return store.LedgerRow{
		ID: mercury.NewID("lg"), RunID: run.ID, ConversationID: conversation,
		Profile: p.Name, Purpose: purpose, Provider: provider, Model: model, State: "reserved",
		Usage: mercury.Usage{Input: int64(input), Output: int64(output), Estimated: true}, At: at,
	}
}

// settled is the reservation once the cost is known.
func settled(reserved store.LedgerRow, provider, model string, u mercury.Usage) store.LedgerRow {
	reserved.State, reserved.Usage = "settled", u
	if model != "" {
		reserved.Provider, reserved.Model = provider, model
	}
	return reserved
}

// failedRows are the calls before the one that answered, as far as they cost
// anything.
func failedRows(reserved store.LedgerRow, failed []llm.Attempt) []store.LedgerRow {
	var rows []store.LedgerRow
	for _, a := range failed {
		if a.Usage.Input == 0 && a.Usage.Output == 0 {
			continue
		}
		row := settled(reserved, a.Provider, a.Model, tokens(a.Usage))
		row.ID = mercury.NewID("lg")
		rows = append(rows, row)
	}
	return rows
}

// putRows writes ledger rows beside what before does.
func putRows(rows []store.LedgerRow, before func(*engine.Tx) error) func(*engine.Tx) error {
	if len(rows) == 0 {
		return before
	}
	return func(tx *engine.Tx) error {
		for _, row := range rows {
			if err := tx.PutLedger(row); err != nil {
				return fmt.Errorf("keep the cost of a failed call: %w", err)
			}
		}
		if before == nil {
			return nil
		}
		return before(tx)
	}
}

// settleFailed replaces the reservation of a step in which no model answered
// by what its calls have cost.
func settleFailed(ctx context.Context, w *engine.Work, reserved store.LedgerRow, failed []llm.Attempt) error {
	rows := append(failedRows(reserved, failed), settled(reserved, "", "", mercury.Usage{}))
	return w.Update(ctx, "agent.failed_call", putRows(rows, func(*engine.Tx) error { return nil }))
}

// usageOf is what a call cost, estimated where the provider did not say.
func usageOf(req llm.Request, r llm.Response) mercury.Usage {
	u := r.Usage
	if u.Input == 0 && u.Output == 0 {
		u = llm.Usage{Input: llm.EstimateRequest(req), Output: llm.EstimateParts(r.Parts), Estimated: true}
	}
	return tokens(u)
}

func tokens(u llm.Usage) mercury.Usage {
	return mercury.Usage{Input: int64(u.Input), Output: int64(u.Output), Cached: int64(u.Cached),
		CacheWrite: int64(u.CacheWrite), Reasoning: int64(u.Reasoning), Estimated: u.Estimated}
}

// brokenOff settles the reservation of a call that this process itself gave
// up, because it drains: by what was sent and what had arrived. It returns
// cause whatever becomes of that; a row left reserved still counts.
func (t *turn) brokenOff(ctx context.Context, cause error) error {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), engine.ErrCanceled) || errors.Is(context.Cause(ctx), engine.ErrLost) {
		return cause
	}
	row := t.arrived()
	if err := t.w.Update(ctx, "agent.broken_off", func(tx *engine.Tx) error { return tx.PutLedger(row) }); err != nil {
		t.agent.opts.Log.Warn("settle the cost of a call that was broken off", "run", t.run.ID, "err", err)
	}
	return cause
}

// arrived is the reservation in hand settled by an estimate of what has come.
func (t *turn) arrived() store.LedgerRow {
	return settled(*t.reserved, "", "", mercury.Usage{Input: t.reserved.Usage.Input,
		Output: int64(llm.EstimateText(t.streamed.String())), Estimated: true})
}
