package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// parallel is how many calls of one round run at once.
const parallel = 8

// errRights means that what a call may do changed between its preparation and
// the commit that would have started it.
var errRights = errors.New("rights changed before the call began")

// call is one call of a round that has no result yet, and what is to be done
// about it. Exactly one of ask, say and run is set.
type call struct {
	entry    mercury.Entry
	data     callData
	prepared tool.Prepared
	question *mercury.Question // what a person answered about it
	begun    bool              // the journal has it as started

	ask *mercury.Question                              // wait for this
	say *tool.Output                                   // the result without running it
	run func(ctx context.Context) (tool.Output, error) // run it
}

// toolStep is what the journal keeps of a call beside its result entry.
type toolStep struct {
	Preview  string            `json:"preview,omitempty"`
	Question *mercury.Question `json:"question,omitempty"` // the tool asks; its answer becomes the result
}

// round brings every call of a round to its result. What may run does, in
// parallel; only then, with nothing else left to do, the run parks with all
// questions together.
func (t *turn) round(ctx context.Context, entries []mercury.Entry) error {
	calls := make([]*call, len(entries))
	for i, e := range entries {
		calls[i] = t.decide(ctx, e)
	}
	if err := t.runAll(ctx, calls); err != nil {
		if errors.Is(err, errRights) {
			return nil // the next look judges the call anew
		}
		return err
	}
	var questions []mercury.Question
	var fresh []*call
	for _, c := range calls {
		if c.ask != nil {
			questions = append(questions, *c.ask)
			if _, asked := t.questions[c.entry.CallID]; !asked {
				fresh = append(fresh, c)
			}
		}
	}
	if len(questions) == 0 {
		return nil
	}
	return t.park(ctx, questions, "waiting for your decision", func(tx *engine.Tx) error {
		for _, c := range fresh {
			if err := t.audit(tx, c.prepared, c.entry.CallID, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// decide prepares one call anew, whatever was decided about it before: rights
// may have changed meanwhile. A person's yes counts for exactly what was shown.
func (t *turn) decide(ctx context.Context, e mercury.Entry) *call {
	c := &call{entry: e, data: data[callData](e)}
	step, journaled := t.step(e)
	if journaled && step.State == mercury.StepDone {
		t.answered(c, decode[toolStep](step.Output))
		return c
	}
	c.begun = journaled
	if journaled && step.State != mercury.StepStarted {
		// A stop overtook it before it began, or the world showed that it had
		// not happened; the result was not written then.
		c.say = &tool.Output{Text: textNotRun, IsError: true}
		return c
	}
	if c.data.BadArgs != "" {
		out := tool.Error("The arguments were not a JSON object, so nothing ran. Send valid JSON. Received: " + preview(c.data.BadArgs, 300))
		c.say = &out
		return c
	}
	if t.profile.Tools == nil {
		out := tool.Error("There are no tools here.")
		c.say = &out
		return c
	}
	request := t.toolCall(e, c.data)
	q, asked := t.questions[e.CallID]
	if asked && q.State == mercury.QuestionAnswered && yes(q.Answer) {
		c.question = &q
		request.Approved = q.Hash
	}
	c.prepared = t.profile.Tools.Prepare(ctx, request)
	switch p := c.prepared; {
	case p.Run != nil:
		c.run = p.Run
	case p.Output != nil:
		c.say = p.Output
	case c.begun:
		// It had begun and may not go on without a new word: what it did
		// stays unknown, or is said to have been cut short.
		c.say = &tool.Output{Text: textNotRun, IsError: true}
	case asked && q.State == mercury.QuestionOpen:
		c.ask = &q
	case asked && c.question == nil:
		out := tool.Error(refusal(q))
		c.say = &out
	default: // never asked, or approved for something that has changed since
		fresh := *p.Question
		fresh.ID = mercury.NewID("qu")
		c.ask = &fresh
	}
	return c
}

// yes reports whether an answer to an approval allows the call.
func yes(answer string) bool {
	switch answer {
	case mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour, mercury.AnswerAlways:
		return true
	}
	return false
}

func refusal(q mercury.Question) string {
	if q.State == mercury.QuestionExpired {
		return tellExpired
	}
	return tellNo
}

// answered makes a person's answer to a tool's own question the result.
func (t *turn) answered(c *call, s toolStep) {
	if s.Question == nil {
		return
	}
	q, asked := t.questions[c.entry.CallID]
	switch {
	case !asked:
		c.ask = s.Question
	case q.State == mercury.QuestionOpen:
		c.ask = &q
	case q.State == mercury.QuestionAnswered:
		c.say = &tool.Output{Text: q.Answer}
		for _, choice := range q.Choices {
			if choice.Value == q.Answer && choice.Label != "" && choice.Label != q.Answer {
				c.say.Text = fmt.Sprintf("%s (%s)", q.Answer, choice.Label)
			}
		}
	default:
		c.say = &tool.Output{Text: tellNoAnswer, IsError: true}
	}
}

func (t *turn) step(e mercury.Entry) (mercury.Step, bool) {
	i := slices.IndexFunc(t.journal, func(s mercury.Step) bool { return s.Round == e.Round && s.CallID == e.CallID })
	if i < 0 {
		return mercury.Step{}, false
	}
	return t.journal[i], true
}

func (t *turn) toolCall(e mercury.Entry, d callData) tool.Call {
	mandate := t.run.Mandate
	mandate.Tools = narrowed(mandate.Tools, t.entries, t.run.ID, e.Round)
	return tool.Call{
		ID: e.CallID, RunID: t.run.ID, ConversationID: t.run.ConversationID,
		Name: d.Tool, Args: d.Args, Mandate: mandate, Taint: t.taint(), Dir: t.folder, Outputs: t.profile.Outputs,
		Progress: func(line string) {
			t.publish("tool", Progress{CallID: e.CallID, Tool: d.Tool, State: "running", Line: line})
		},
	}
}

// runAll runs what may run and stores what can be said at once. Calls that
// touch the same path, one of them writing, keep their order; the others go
// side by side. Each call finishes even when another one fails.
func (t *turn) runAll(ctx context.Context, calls []*call) error {
	slots := make(chan struct{}, parallel)
	done := make([]chan struct{}, len(calls))
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	for i, c := range calls {
		done[i] = make(chan struct{})
		if c.say == nil && c.run == nil {
			close(done[i])
			continue
		}
		group.Go(func() {
			defer close(done[i])
			for j := range i {
				if conflict(calls[j].prepared.Accesses, c.prepared.Accesses) {
					<-done[j]
				}
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = t.do(ctx, c)
		})
	}
	group.Wait()
	// An answer that ends the whole run goes before one that says try again.
	for _, err := range errs {
		if err != nil && !errors.Is(err, errRights) {
			return err
		}
	}
	return errors.Join(errs...)
}

// conflict reports whether the order of two calls matters.
func conflict(a, b []mercury.Access) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Target == y.Target && path(x) && path(y) && (x.Kind != mercury.ReadPath || y.Kind != mercury.ReadPath) {
				return true
			}
		}
	}
	return false
}

func path(a mercury.Access) bool {
	return a.Kind == mercury.ReadPath || a.Kind == mercury.WritePath || a.Kind == mercury.DeletePath
}

// do journals one call and its result. For a Once call the mark that it has
// begun is committed first, and rights are looked at again in that commit.
func (t *turn) do(ctx context.Context, c *call) error {
	e := c.entry
	unknown := t.result(c, tool.Output{Text: textUnknown, IsError: true})
	sc := engine.StepCall{
		Round: e.Round, CallID: e.CallID, Kind: stepTool, Name: c.data.Tool,
		Effect: c.prepared.Effect, Args: c.data.Args, Unknown: &unknown,
	}
	if step, ok := t.step(e); ok && step.State != mercury.StepStarted {
		// The tool has asked and was answered, or did not begin: this is a
		// second step.
		sc.CallID, sc.Kind, sc.Effect = e.CallID+"/answer", stepWait, mercury.Read
	}
	switch {
	case c.begun:
		sc.Effect = mercury.Once
	case sc.Effect == "" || c.say != nil:
		sc.Effect = mercury.Read
	}
	if probe := c.prepared.Probe; probe != nil {
		sc.Probe = func(ctx context.Context) (*engine.StepResult, bool, error) {
			out, notDone, err := probe(ctx)
			if out == nil || err != nil {
				return nil, notDone, err
			}
			r := t.result(c, *out)
			return &r, false, nil
		}
	}
	if c.run != nil && sc.Effect == mercury.Once {
		if q := c.question; q != nil && !c.begun && (q.Answer == mercury.AnswerOnce || q.Always == "") {
			sc.Grants = []string{engine.GrantID(q.ID)}
		}
		sc.Begin = func(tx *engine.Tx) error { return t.stillAllowed(ctx, tx, c) }
	}
	_, err := t.w.Do(ctx, sc, func(ctx context.Context) (engine.StepResult, error) {
		if c.say != nil {
			return t.result(c, *c.say), nil
		}
		t.phase("tool", c.data.Tool)
		t.progress(c, "running")
		out, err := c.run(ctx)
		if err != nil {
			t.progress(c, "failed")
			return engine.StepResult{}, err
		}
		if out.IsError {
			t.progress(c, "failed")
		} else {
			t.progress(c, "done")
		}
		return t.marked(ctx, c, out)
	})
	if errors.Is(err, errRights) {
		return errRights
	}
	return err
}

func (t *turn) progress(c *call, state string) {
	t.publish("tool", Progress{CallID: c.entry.CallID, Tool: c.data.Tool, State: state})
}

// stillAllowed prepares the call once more, inside the commit that would start
// it: the same accesses must still be allowed, and a person's yes still stand.
func (t *turn) stillAllowed(ctx context.Context, tx *engine.Tx, c *call) error {
	request := t.toolCall(c.entry, c.data)
	if c.question != nil {
		q, err := tx.Question(c.question.ID)
		if err != nil {
			return fmt.Errorf("read the approval: %w", err)
		}
		if q.State != mercury.QuestionAnswered || !yes(q.Answer) {
			return errRights
		}
		request.Approved = q.Hash
	}
	again := t.profile.Tools.Prepare(ctx, request)
	if again.Run == nil || again.Judgement.Hash != c.prepared.Judgement.Hash {
		return errRights
	}
	return nil
}

// result is what the journal, the conversation and our own state keep of a
// call's output, in one commit.
func (t *turn) result(c *call, out tool.Output) engine.StepResult {
	if out.Question != nil {
		q := *out.Question
		q.RunID, q.ConversationID, q.CallID = t.run.ID, t.run.ConversationID, c.entry.CallID
		q.State, q.AskedBy = mercury.QuestionOpen, t.run.Actor
		if q.ID == "" {
			q.ID = mercury.NewID("qu")
		}
		return engine.StepResult{Output: encode(toolStep{Question: &q})}
	}
	r := engine.StepResult{
		Output: encode(toolStep{Preview: preview(out.Text, 200)}),
		Entries: []mercury.Entry{resultEntry(t.run.ID, c.entry.Round, c.entry.CallID, resultData{
			Tool: c.data.Tool, Result: out.Text, IsError: out.IsError, Diff: out.Diff, Fence: out.Fence, Files: out.Files, Whole: out.Truncated, Loads: out.Loads, Narrows: out.Narrows, Ends: out.Ends,
		}, out.Taint)},
	}
	if out.IsError {
		r.Err = preview(out.Text, 200)
	}
	r.Commit = func(tx *engine.Tx) error {
		if err := t.audit(tx, c.prepared, c.entry.CallID, c.question); err != nil || out.Commit == nil {
			return err
		}
		return out.Commit(tx)
	}
	return r
}

// audit writes what the gate decided about a call, in the commit that the
// decision leads to. A call that was never judged has no row.
func (t *turn) audit(tx *engine.Tx, p tool.Prepared, callID string, asked *mercury.Question) error {
	j := p.Judgement
	if j.Rule == "" {
		return nil
	}
	var what []string
	for _, a := range p.Accesses {
		what = append(what, tool.Phrase(a))
	}
	detail := preview(strings.Join(what, "; "), 500)
	if asked != nil {
		detail += " (approved: " + asked.ID + ")"
	}
	return tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: t.run.Actor, Act: "judge",
		Subject: t.run.ID + "/" + callID, Verdict: j.Verdict.String(), Rule: j.Rule, Detail: detail})
}
