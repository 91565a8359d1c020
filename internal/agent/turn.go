package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Turn is the handler of runs of kind "turn". It looks at what is on disk,
// does the one thing that comes next, and looks again.
func (a *Agent) Turn(ctx context.Context, w *engine.Work) error {
	t := &turn{agent: a, w: w, run: w.Run(), since: a.opts.Now()}
	if err := t.begin(ctx); err != nil {
		return err
	}
	for {
		if err := t.load(ctx); err != nil {
			return err
		}
		ended, err := t.next(ctx)
		if errors.Is(err, engine.ErrCanceled) || errors.Is(context.Cause(ctx), engine.ErrCanceled) {
			return t.stop(ctx)
		}
		if ended || err != nil {
			return err
		}
	}
}

// turn is one claimed run of kind "turn". What it holds is a reading of the
// store, renewed by load before each step.
type turn struct {
	agent   *Agent
	w       *engine.Work
	run     mercury.Run
	profile Profile
	since   time.Time // when this claim began

	conversation mercury.Conversation
	folder       string          // where it went; empty: its workspace
	entries      []mercury.Entry // from the conversation's head on, with results for the holes
	last         int64           // seq of the newest entry read
	tail         string
	waiting      int // inputs that waited at the last look
	journal      []mercury.Step
	questions    map[string]mercury.Question // newest by call id
	streamed     strings.Builder             // text of the model call in hand
	reserved     *store.LedgerRow            // its row in the ledger
	refusal      *llm.Error                  // names the window of a model
	summary      string                      // stands for what the next cut leaves out; empty: nothing but a mark
}

// begin reads who answers, and keeps what an earlier claim had streamed.
func (t *turn) begin(ctx context.Context) error {
	err := t.w.View(ctx, func(tx store.Tx) (err error) {
		t.conversation, err = tx.Conversation(t.run.ConversationID)
		return err
	})
	if err != nil {
		return fmt.Errorf("read conversation: %w", err)
	}
	if t.profile, err = t.agent.profile(ctx, t.w, t.run, t.conversation); err != nil {
		return err
	}
	return t.keepPartial(ctx)
}

// load reads what is new since the last look.
func (t *turn) load(ctx context.Context) error {
	var asked []mercury.Question
	err := t.w.View(ctx, func(tx store.Tx) error {
		conversation, err := tx.Conversation(t.run.ConversationID)
		if err != nil {
			return fmt.Errorf("read conversation: %w", err)
		}
		if conversation.Head != t.conversation.Head {
			t.entries, t.last = nil, 0
		}
		t.conversation = conversation
		// The owner may have chosen another mode for the run in hand.
		row, err := tx.Run(t.run.ID)
		if err != nil {
			return fmt.Errorf("read run: %w", err)
		}
		t.folder, err = tx.MetaValue(tool.FolderKey(t.run.ConversationID))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read where the conversation is: %w", err)
		}
		t.run.Mandate.Mode, t.run.Mandate.ModeUntil = row.Mandate.Mode, row.Mandate.ModeUntil
		after := max(t.last, conversation.Head-1)
		fresh, err := tx.Entries(t.run.ConversationID, max(after, 0), 0)
		if err != nil {
			return fmt.Errorf("read entries: %w", err)
		}
		if fresh, err = fillHoles(tx, t.run.ID, fresh); err != nil {
			return err
		}
		t.entries = append(t.entries, fresh...)
		for _, e := range fresh {
			t.last = max(t.last, e.Seq)
		}
		if t.waiting, err = tx.CountQueued(t.run.ConversationID); err != nil {
			return fmt.Errorf("count what waits: %w", err)
		}
		if asked, err = tx.RunQuestions(t.run.ID); err != nil {
			return fmt.Errorf("read questions: %w", err)
		}
		t.tail, err = t.profile.Tail(ctx, tx, conversation)
		return err
	})
	if err != nil {
		return err
	}
	if err := t.readJournal(ctx); err != nil {
		return err
	}
	t.questions = map[string]mercury.Question{}
	for _, q := range asked {
		if old, ok := t.questions[q.CallID]; !ok || q.CreatedAt.After(old.CreatedAt) || q.CreatedAt.Equal(old.CreatedAt) && q.ID > old.ID {
			t.questions[q.CallID] = q
		}
	}
	return nil
}

// readJournal reads the steps so far. An ending too large for its row is
// fetched from where the engine keeps it.
func (t *turn) readJournal(ctx context.Context) error {
	t.journal = t.w.Journal()
	for i, s := range t.journal {
		if s.Kind != stepModel || s.OutputRef == "" || s.Output != nil {
			continue
		}
		whole, err := t.w.Do(ctx, engine.StepCall{Round: s.Round, CallID: s.CallID, Kind: s.Kind, Name: s.Name, Effect: s.Effect},
			func(context.Context) (engine.StepResult, error) {
				return engine.StepResult{}, fmt.Errorf("read model step of round %d: its output is gone", s.Round)
			})
		if err != nil {
			return err
		}
		t.journal[i] = whole
	}
	return nil
}

// fillHoles adds a result to each call of another run that has none, because
// that run was stopped or died: its journal says whether the call had begun.
// The results are not stored.
func fillHoles(tx store.Tx, run string, entries []mercury.Entry) ([]mercury.Entry, error) {
	have := map[callKey]bool{}
	for _, e := range entries {
		if e.Kind == mercury.ToolResultEntry {
			have[callKey{e.RunID, e.CallID}] = true
		}
	}
	for _, e := range entries {
		if e.Kind != mercury.ToolCallEntry || e.RunID == run || have[callKey{e.RunID, e.CallID}] {
			continue
		}
		text := textUnknown
		_, err := tx.Step(e.RunID, e.Round, e.CallID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			text = textNotRun
		case err != nil:
			return nil, fmt.Errorf("read step of an interrupted call: %w", err)
		}
		hole := resultEntry(e.RunID, e.Round, e.CallID,
			resultData{Tool: data[callData](e).Tool, Result: text, IsError: true}, nil)
		hole.ConversationID, hole.Seq = e.ConversationID, e.Seq
		entries = append(entries, hole)
	}
	return entries, nil
}

// next does what comes next. It reports that the turn has ended, or parked,
// or that there is more to do.
func (t *turn) next(ctx context.Context) (ended bool, err error) {
	if t.reset() {
		return true, t.w.Settle(ctx, engine.Outcome{State: mercury.RunStopped, Code: "reset"}, nil)
	}
	if calls := t.pending(); len(calls) > 0 {
		if err := t.round(ctx, calls); err != nil {
			return false, err
		}
		_, err := t.w.Steers(ctx)
		return false, err
	}
	if end, ok := t.unsettled(); ok {
		return t.settle(ctx, end)
	}
	if end, ok := t.endedByTools(); ok {
		return t.settle(ctx, end)
	}
	if end, stop, err := t.limit(ctx); stop || err != nil {
		if err != nil {
			return false, err
		}
		return t.settle(ctx, end)
	}
	if q, ok := t.questions[wantedID(t.lastRound()+1)]; ok && q.State != mercury.QuestionOpen && q.Answer != answerWanted {
		return t.settle(ctx, t.stopped(codeNotWanted, sayDropped))
	}
	// What was said while the run waited joins before the model is asked, so
	// that no answer is made that is overtaken already.
	if t.waiting > 0 {
		if placed, err := t.w.Steers(ctx); err != nil || len(placed) > 0 {
			return false, err
		}
	}
	if end, stop, err := t.afford(ctx); stop || err != nil {
		if err != nil {
			return false, err
		}
		return t.settle(ctx, end)
	}
	return false, t.ask(ctx)
}

// reset reports whether the conversation was begun anew since this run
// began: what it works on is no longer there.
func (t *turn) reset() bool {
	return slices.ContainsFunc(t.entries, func(e mercury.Entry) bool {
		return e.Kind == mercury.ResetEntry && e.At.After(t.run.CreatedAt)
	})
}

// pending returns the calls of this run that have no result yet, in order.
func (t *turn) pending() []mercury.Entry {
	done := map[string]bool{}
	for _, e := range t.entries {
		if e.RunID == t.run.ID && e.Kind == mercury.ToolResultEntry {
			done[e.CallID] = true
		}
	}
	var calls []mercury.Entry
	for _, e := range t.entries {
		if e.RunID == t.run.ID && e.Kind == mercury.ToolCallEntry && !done[e.CallID] {
			calls = append(calls, e)
		}
	}
	return calls
}

// modelStep is what the journal keeps of a model call. End is set when the
// turn ends with it: then its entry is written by the commit that settles.
type modelStep struct {
	Usage mercury.Usage `json:"usage"`
	Model string        `json:"model,omitempty"`
	End   *ending       `json:"end,omitempty"`
}

// ending is how a turn ends: with an answer, or with words that say why not.
type ending struct {
	Round int              `json:"round"`
	Text  string           `json:"text"`            // of the entry
	Shown string           `json:"shown,omitempty"` // of the deliveries, when it differs
	Data  assistantData    `json:"data"`
	State mercury.RunState `json:"state,omitempty"` // zero: done
	Code  string           `json:"code,omitempty"`
	Taint []string         `json:"taint,omitempty"`
	Tools *tool.End        `json:"-"` // what the tools that ended it asked for
}

// unsettled returns the end of a turn that is journaled and whose entry is
// not yet in the conversation.
func (t *turn) unsettled() (ending, bool) {
	for _, s := range slices.Backward(t.journal) {
		if s.Kind != stepModel || s.State != mercury.StepDone {
			continue
		}
		m := decode[modelStep](s.Output)
		if m.End == nil {
			return ending{}, false
		}
		for _, e := range t.entries {
			if e.RunID == t.run.ID && e.Kind == mercury.AssistantEntry && e.Round == m.End.Round && !data[assistantData](e).Aborted {
				return ending{}, false
			}
		}
		return *m.End, true
	}
	return ending{}, false
}

// The kinds of step a turn journals.
const (
	stepModel = "model"
	stepTool  = "tool"
	stepLimit = "limit"
	stepWait  = "wait"

	stepSummary = "summary" // a piece of one
)

// stepOutage is the call id of the step that remembers since when the model
// of a round has been out of reach.
const stepOutage = "outage"

func decode[T any](b json.RawMessage) T {
	return data[T](mercury.Entry{Data: b})
}

// lastRound is the newest round of this run that has a model call behind it.
func (t *turn) lastRound() int {
	last := 0
	for _, s := range t.journal {
		if s.Kind == stepModel && s.State == mercury.StepDone {
			last = max(last, s.Round)
		}
	}
	for _, e := range t.entries {
		if e.RunID == t.run.ID && e.Kind == mercury.AssistantEntry && !e.Hidden {
			last = max(last, e.Round)
		}
	}
	return last
}

// callID names the nth call of a round: the same each time, unique among all
// runs, and fit for every wire.
func callID(run string, round, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", run, round, n))
	return "c" + hex.EncodeToString(sum[:8])
}

// limit decides whether the turn may take another step. It parks with a
// question where a person can answer, and otherwise says how the turn ends.
func (t *turn) limit(ctx context.Context) (end ending, stop bool, err error) {
	base, used, open := t.spent()
	calls := finished(t.entries, t.run.ID, base.Round)
	if c, ok := repeated(calls); ok {
		return t.failed(codeRepeated, sayRepeated(c, whatWasDone(calls))), true, nil
	}
	all := whatWasDone(finished(t.entries, t.run.ID, 0))
	if open {
		// A limit was reached and asked about. What was answered decides.
		q, asked := t.questions[limitID(base.Round)]
		switch {
		case !asked || q.State == mercury.QuestionOpen:
			return end, false, t.parkLimit(ctx, base, all)
		case q.State == mercury.QuestionAnswered && q.Answer == answerGoOn:
		case q.State == mercury.QuestionAnswered && q.Answer == answerToday:
			if t.agent.opts.Now().Before(endOfDay(q.AnsweredAt, t.agent.opts.Zone)) {
				return end, false, nil
			}
		default:
			return t.stopped(base.Code, sayStopped(base, all)), true, nil
		}
	}
	code, words := t.profile.Limits.over(used)
	if code == "" {
		return end, false, nil
	}
	now := limitStep{Code: code, Words: words, Round: t.lastRound(), Running: t.running()}
	if !t.run.Mandate.Interactive {
		return t.failed(code, sayLimit(now, all)), true, nil
	}
	_, err = t.w.Do(ctx, engine.StepCall{Round: now.Round, CallID: limitID(now.Round), Kind: stepLimit, Name: code, Effect: mercury.Read},
		func(context.Context) (engine.StepResult, error) { return engine.StepResult{Output: encode(now)}, nil })
	if err != nil {
		return end, false, err
	}
	return end, false, t.parkLimit(ctx, now, all)
}

func limitID(round int) string { return fmt.Sprintf("limit-%d", round) }

func (t *turn) parkLimit(ctx context.Context, l limitStep, done string) error {
	q, asked := t.questions[limitID(l.Round)]
	if !asked {
		q = limitQuestion(t.run, limitID(l.Round), l, done)
	}
	return t.park(ctx, []mercury.Question{q}, "limit reached")
}

// spent adds up the journal since the run last went on by itself, or since the
// last limit that was asked about; open says that it is such a limit.
func (t *turn) spent() (base limitStep, used spend, open bool) {
	for _, e := range t.entries {
		if d := data[noteData](e); e.Kind == mercury.NoteEntry && e.RunID == t.run.ID && d.Kind == noteNext {
			base = limitStep{Round: e.Round, Running: d.Running}
		}
	}
	for _, s := range t.journal {
		if s.Kind == stepLimit && s.State == mercury.StepDone {
			if l := decode[limitStep](s.Output); l.Round > base.Round || l.Round == base.Round && open {
				base, open = l, true
			}
		}
	}
	for _, s := range t.journal {
		if s.Kind == stepModel && s.State == mercury.StepDone && s.Round > base.Round {
			used.steps++
			used.tokens += decode[modelStep](s.Output).Usage.Weight()
		}
	}
	used.running = t.running() - base.Running
	return base, used, open
}

// running is how long this run has been in hand, over all claims.
func (t *turn) running() time.Duration {
	return t.run.Running + t.agent.opts.Now().Sub(t.since)
}

func (t *turn) failed(code, text string) ending {
	return t.ends(mercury.RunFailed, code, text)
}

func (t *turn) stopped(code, text string) ending {
	return t.ends(mercury.RunStopped, code, text)
}

// ends makes our own words the end of the turn.
func (t *turn) ends(state mercury.RunState, code, text string) ending {
	return ending{Round: t.lastRound() + 1, Text: text, State: state, Code: code,
		Data: assistantData{Parts: []llm.Part{{Kind: llm.Text, Text: text}}}, Taint: t.taint()}
}

func (t *turn) taint() []string {
	sources := taintOf(t.entries, t.run.Actor)
	if t.profile.Outside != nil {
		sources = union(sources, t.profile.Outside())
	}
	return sources
}

// origin names who gave an answer as parts do.
func origin(r llm.Response) string {
	return strings.Trim(r.Provider+"/"+r.Model, "/")
}
