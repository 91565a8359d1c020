package agent

import (
	"context"
	"fmt"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// The codes under which a run stops because of what a day or month may cost.
const (
	codeDaily   = "budget_daily"
	codeMonthly = "budget_monthly"
)

// afford decides whether the next model call may be paid for. Where a person
// can answer, the turn parks with a question and goes on from its journal;
// work nobody waits for stops earlier and says how to go on.
func (t *turn) afford(ctx context.Context) (end ending, stop bool, err error) {
	if t.profile.Budget == nil {
		return end, false, nil
	}
	var used budget.State
	var free bool
	err = t.w.View(ctx, func(tx store.Tx) error {
		states, err := t.profile.Budget.States(tx)
		if err != nil {
			return err
		}
		used = budget.Fullest(states)
		free, err = t.profile.Budget.Lifted(tx)
		return err
	})
	if err != nil {
		return end, false, fmt.Errorf("look at the budget: %w", err)
	}
	if used.Percent() >= budget.Concise {
		t.tail += "\n" + tellConcise
	}
	top := budget.Full
	if t.run.Lane != mercury.Chat {
		top = budget.Warn // the rest is for people
	}
	if free || used.Percent() < top {
		return end, false, nil
	}
	if free, err = t.once(ctx); free || err != nil {
		return end, false, err
	}
	code := codeDaily
	if used.Period == budget.Month {
		code = codeMonthly
	}
	done := whatWasDone(finished(t.entries, t.run.ID, 0))
	if t.run.Lane != mercury.Chat || !t.run.Mandate.Interactive {
		return t.failed(code, sayBudget(used, done)), true, nil
	}
	id := "budget-" + used.Key
	q, asked := t.questions[id]
	switch {
	case !asked || q.State == mercury.QuestionOpen:
		if !asked {
			q = budgetQuestion(t.run, id, used, done)
		}
		return end, false, t.park(ctx, []mercury.Question{q}, "budget used up")
	case q.State == mercury.QuestionAnswered && q.Answer == answerGoOn:
		return end, false, nil
	case q.State == mercury.QuestionAnswered && q.Answer == answerToday:
		return end, false, t.w.Update(ctx, "agent.budget_lifted", func(tx *engine.Tx) error { return t.profile.Budget.LiftToday(tx) })
	}
	return t.stopped(code, sayBudgetStopped(used, done)), true, nil
}

// once reports whether a person has let one run go on, which this one is.
func (t *turn) once(ctx context.Context) (free bool, err error) {
	if !t.run.Actor.Trusted() {
		return false, nil
	}
	err = t.w.Update(ctx, "agent.budget_once", func(tx *engine.Tx) error {
		free, err = t.profile.Budget.TakeOnce(tx, t.run.ID)
		return err
	})
	return free, err
}

// warned adds to the commit of a call that the budget is nearly used, or used
// up: once each, to a person whom it concerns.
func (t *turn) warned(commit func(*engine.Tx) error) func(*engine.Tx) error {
	if t.profile.Budget == nil || !t.run.Actor.Trusted() {
		return commit
	}
	return func(tx *engine.Tx) error {
		if commit != nil {
			if err := commit(tx); err != nil {
				return err
			}
		}
		crossed, err := t.profile.Budget.Crossed(tx)
		if err != nil {
			return err
		}
		for _, s := range crossed {
			request := fmt.Sprintf("budget/%s/%t/%d", s.Key, s.Money, min(s.Percent(), budget.Full)/budget.Full)
			if err := t.tell(request, sayUsed(s))(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func budgetQuestion(run mercury.Run, callID string, s budget.State, done string) mercury.Question {
	return mercury.Question{
		ID: mercury.NewID("qu"), RunID: run.ID, ConversationID: run.ConversationID, CallID: callID,
		Kind:  "limit",
		Title: "The budget is used up: " + s.Words() + ". Shall I go on?",
		Body:  done,
		Choices: []mercury.Choice{
			{Value: answerGoOn, Label: "Finish this one"},
			{Value: answerToday, Label: "No budget for the rest of today"},
			{Value: answerStop, Label: "Stop"},
		},
		AskedBy: run.Actor,
		State:   mercury.QuestionOpen,
	}
}

// tight says why a compaction that nobody asked for does not ask a model now.
func tight(ctx context.Context, w *engine.Work, p Profile) (why string, err error) {
	if p.Budget == nil {
		return "", nil
	}
	err = w.View(ctx, func(tx store.Tx) error {
		why, err = p.Budget.Tight(tx)
		return err
	})
	return why, err
}
