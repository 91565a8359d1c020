package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Limits of one lesson.
const (
	lessonEntries = 500 // entries looked at
	lessonOutput  = 100 // tokens of an answer below which none is asked for
	lessonTries   = 3   // how often a model that fails is asked
)

// lesson is what is known before a lesson is held.
type lesson struct {
	due     memory.Due
	entries []mercury.Entry
	through int64 // seq of the last entry looked at
	paused  bool
	room    int64 // tokens it may cost
	tight   bool  // the day's budget is nearly used up
}

// learn is the handler of runs of kind "learn": one model call about what was
// said in a conversation since the last one, and the memories that come of it,
// in one commit. Where it is paused, nothing was said, or it would cost more
// than its share of the talk, no model is asked.
func (m *mind) learn(ctx context.Context, w *engine.Work) error {
	l, err := m.prepare(ctx, w)
	if err != nil {
		return err
	}
	if err := m.index(ctx, w); err != nil {
		return err
	}
	request, ok := m.request(l)
	switch {
	case l.paused || !ok && !l.said():
		return m.learned(ctx, w, l, true, nil) // what is not learned now never is
	case !ok:
		return m.learned(ctx, w, l, false, nil) // later, when the talk has cost enough
	}
	answer, err := m.ask(ctx, w, l, request)
	switch {
	case err == nil:
	case llm.ClassOf(err) != "" && ctx.Err() == nil && w.Run().Attempts+1 >= lessonTries:
		m.log.Info("no model for a lesson; the next one is about the same talk", "conversation", l.due.Conversation, "err", err)
		return m.learned(ctx, w, l, false, nil)
	default:
		return err
	}
	run := w.Run()
	return m.learned(ctx, w, l, true, request.Read(answer, memory.Candidate{Actor: run.Actor, RunID: run.ID}))
}

// prepare reads what there is to learn from.
func (m *mind) prepare(ctx context.Context, w *engine.Work) (l lesson, err error) {
	if err := json.Unmarshal(w.Run().Input, &l.due); err != nil {
		return l, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read lesson: %w", err)}
	}
	err = w.View(ctx, func(tx store.Tx) error {
		since, err := memory.Since(tx, l.due.Conversation)
		if err != nil {
			return err
		}
		if l.entries, err = tx.Entries(l.due.Conversation, since, lessonEntries); err != nil {
			return fmt.Errorf("read what was said: %w", err)
		}
		l.through = since
		for _, e := range l.entries {
			l.through = e.Seq
		}
		if l.paused, err = memory.Paused(tx, l.due.Scope); err != nil {
			return err
		}
		l.paused = l.paused || !m.config().Memory.Learn
		costs, err := tx.TalkCost(l.due.Conversation)
		if err != nil {
			return fmt.Errorf("read what the talk has cost: %w", err)
		}
		l.room = 0
		for _, c := range costs {
			tokens := c.Usage.Input + c.Usage.Output
			if c.Group == "learn" {
				l.room -= tokens
			} else {
				l.room += int64(float64(tokens) * memory.Standard.LessonShare)
			}
		}
		why, err := m.book().Tight(tx)
		l.tight = why != ""
		return err
	})
	return l, err
}

// said reports whether anything was said that could be learned from.
func (l lesson) said() bool {
	_, ok := memory.NewLesson(l.entries, false, 0)
	return ok
}

// request is the lesson that fits into what it may cost: with Mercury's answers
// where there is room, else with the person's words alone.
func (m *mind) request(l lesson) (memory.Lesson, bool) {
	if l.tight {
		return memory.Lesson{}, false
	}
	for _, answers := range []bool{true, false} {
		r, ok := memory.NewLesson(l.entries, answers, memory.Standard.MaxOutput)
		if !ok {
			return r, false
		}
		left := l.room - int64(llm.EstimateRequest(r.Request))
		if left < lessonOutput {
			continue
		}
		r.Request.MaxTokens = int(min(left, int64(memory.Standard.MaxOutput)))
		return r, true
	}
	return memory.Lesson{}, false
}

// ask asks the model once, in the journal and in the ledger.
func (m *mind) ask(ctx context.Context, w *engine.Work, l lesson, r memory.Lesson) (string, error) {
	name := m.config().Model
	provider, model, _ := strings.Cut(name, "/")
	reserved := store.LedgerRow{ID: mercury.NewID("lg"), RunID: w.Run().ID, ConversationID: l.due.Conversation, Profile: "main",
		Purpose: "learn", Provider: provider, Model: model, State: "reserved", At: w.Run().StartedAt,
		Usage: mercury.Usage{Input: int64(llm.EstimateRequest(r.Request)), Output: int64(r.Request.MaxTokens), Estimated: true}}
	settle := func(provider, model string, u llm.Usage) store.LedgerRow {
		row := reserved
		row.State = "settled"
		row.Usage = mercury.Usage{Input: int64(u.Input), Output: int64(u.Output), Cached: int64(u.Cached),
			CacheWrite: int64(u.CacheWrite), Reasoning: int64(u.Reasoning), Estimated: u.Estimated}
		if model != "" {
			row.Provider, row.Model = provider, model
		}
		return row
	}
	var failed []store.LedgerRow
	step, err := w.Do(ctx, engine.StepCall{Round: 1, CallID: "lesson", Kind: "model", Name: name, Effect: mercury.Read, Reserve: &reserved},
		func(ctx context.Context) (engine.StepResult, error) {
			res, err := m.model.Stream(ctx, r.Request, nil)
			for _, a := range res.Failed {
				if a.Usage.Input+a.Usage.Output > 0 {
					row := settle(a.Provider, a.Model, a.Usage)
					row.ID = mercury.NewID("lg")
					failed = append(failed, row)
				}
			}
			if err != nil {
				return engine.StepResult{}, err
			}
			u := res.Usage
			if u.Input == 0 && u.Output == 0 {
				u = llm.Usage{Input: llm.EstimateRequest(r.Request), Output: llm.EstimateParts(res.Parts), Estimated: true}
			}
			row := settle(res.Provider, res.Model, u)
			out, err := json.Marshal(res.Text())
			if err != nil {
				return engine.StepResult{}, fmt.Errorf("keep the answer: %w", err)
			}
			return engine.StepResult{Output: out, Usage: row.Usage, Ledger: &row, Commit: putLedger(failed)}, nil
		})
	if err != nil {
		if ctx.Err() != nil || llm.ClassOf(err) == "" {
			return "", err
		}
		if later := w.Update(ctx, "learn.failed", putLedger(append(failed, settle("", "", llm.Usage{})))); later != nil {
			return "", later
		}
		return "", err
	}
	var answer string
	if err := json.Unmarshal(step.Output, &answer); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}

func putLedger(rows []store.LedgerRow) func(*engine.Tx) error {
	return func(tx *engine.Tx) error {
		for _, row := range rows {
			if err := tx.PutLedger(row); err != nil {
				return fmt.Errorf("keep what a call has cost: %w", err)
			}
		}
		return nil
	}
}

// learned ends the lesson: what was used is seen, what was found is kept, what
// was looked at is marked, all or nothing.
func (m *mind) learned(ctx context.Context, w *engine.Work, l lesson, mark bool, found []memory.Candidate) error {
	return w.Settle(ctx, engine.Outcome{}, func(tx *engine.Tx) error {
		if err := memory.Used(tx, l.due.Used); err != nil {
			return err
		}
		changed := false
		for _, c := range found {
			r, err := memory.Remember(tx, l.due.Scope, c)
			if err != nil {
				return err
			}
			changed = changed || r.Outcome != memory.Refused
		}
		if changed {
			if err := memory.Consolidate(tx, l.due.Scope, m.zone); err != nil {
				return err
			}
		}
		if !mark {
			return nil
		}
		return memory.Learned(tx, l.due.Conversation, l.through)
	})
}

// index makes what was said findable while nobody waits.
func (m *mind) index(ctx context.Context, w *engine.Work) error {
	for more := true; more; {
		err := w.Update(ctx, "learn.index", func(tx *engine.Tx) (err error) {
			more, err = tx.IndexEntries(memory.IndexBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("make what was said findable: %w", err)
		}
	}
	return nil
}
