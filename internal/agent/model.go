package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// ask makes one model call and journals it with everything that follows from
// it. A crash in between asks again: a model call leaves no mark on the world.
func (t *turn) ask(ctx context.Context) error {
	round := t.lastRound() + 1
	s, err := t.fit(levelWhole, 0)
	if err != nil {
		return t.outage(ctx, round, err)
	}
	if s, err = t.summarised(ctx, round, s); err != nil {
		return err
	}
	t.phase("thinking", "")
	reserved := t.reserve(s)
	t.reserved = &reserved
	var failed []llm.Attempt
	t.refusal = nil
	_, err = t.w.Do(ctx, engine.StepCall{
		Round: round, CallID: stepModel, Kind: stepModel, Name: t.profile.ModelName, Effect: mercury.Read, Reserve: &reserved,
	}, func(ctx context.Context) (engine.StepResult, error) {
		s, response, err := t.stream(ctx, s, t.awaited(round))
		failed = response.Failed
		if err != nil {
			return engine.StepResult{}, err
		}
		t.streamed.Reset()
		result := t.digest(round, s, response)
		row := settled(reserved, response.Provider, response.Model, result.Usage)
		result.Ledger = &row
		result.Commit = putRows(failedRows(reserved, failed), result.Commit)
		if t.refusal != nil {
			result.Commit = both(learnWindow(t.refusal), result.Commit)
		}
		result.Commit = t.warned(result.Commit)
		return result, nil
	})
	if err == nil {
		t.reserved = nil
		return nil
	}
	if ctx.Err() != nil || llm.ClassOf(err) == "" {
		return t.brokenOff(ctx, err)
	}
	t.reserved = nil
	if err := settleFailed(ctx, t.w, reserved, failed); err != nil {
		return err
	}
	return t.outage(ctx, round, err)
}

// both joins two changes of a commit; the second may be nil.
func both(a, b func(*engine.Tx) error) func(*engine.Tx) error {
	return func(tx *engine.Tx) error {
		if err := a(tx); err != nil || b == nil {
			return err
		}
		return b(tx)
	}
}

// awaited reports whether a person waits for this very call, rather than for
// one of the tries that follow an outage.
func (t *turn) awaited(round int) bool {
	return t.run.Lane == mercury.Chat && !slices.ContainsFunc(t.journal, func(s mercury.Step) bool {
		return s.Round == round && s.CallID == stepOutage
	})
}

// maxRefused is how often one step makes its request shorter after a refusal.
const maxRefused = 4

// stream asks until there is an answer, and takes away from the request what
// the provider refuses: thinking it does not know, once, and length, step by
// step.
func (t *turn) stream(ctx context.Context, s shape, awaited bool) (shape, llm.Response, error) {
	var failed []llm.Attempt
	for bare, refused := false, 0; ; {
		s.request.Insist = awaited
		response, err := t.profile.Model.Stream(ctx, s.request, t.show)
		failed = append(failed, response.Failed...)
		response.Failed = failed
		switch class := llm.ClassOf(err); {
		case err == nil:
			t.agent.estimator.Learn(s.request.Model, llm.EstimateRequest(s.request), learned(response))
			return s, response, nil
		case ctx.Err() != nil:
			return s, response, err
		case class == llm.Empty:
			response.Parts = nil
			return s, response, nil
		case class == llm.ContentFiltered:
			response.Finish = llm.ContentFilter
			if response.Text() == "" {
				response.Parts = []llm.Part{{Kind: llm.Text, Text: llmError(err).Message}}
			}
			return s, response, nil
		case class == llm.ForeignReasoning && !bare:
			bare = true
			s.request.Messages = withoutThinking(s.request.Messages)
		case class == llm.ContextLength:
			// What was refused is larger than the window, whatever we were
			// told its size is.
			t.profile.Window = min(t.profile.Window, s.size)
			if e := llmError(err); e.Limit > 0 {
				t.profile.Window = min(t.profile.Window, e.Limit)
				t.refusal = e
			}
			shorter, tooLong := t.fit(min(s.level+1, levelBare), s.size)
			if tooLong != nil || refused == maxRefused {
				return s, response, err
			}
			refused++
			if s = shorter; bare {
				s.request.Messages = withoutThinking(s.request.Messages)
			}
		default:
			return s, response, err
		}
	}
}

// learned is what a response teaches about the size of its request: nothing
// when the tokens were not counted, or another model did.
func learned(r llm.Response) int {
	if r.Usage.Estimated || r.Fallback {
		return 0
	}
	return r.Usage.Input
}

// withoutThinking leaves out thinking and signatures, for a provider that
// takes none of them.
func withoutThinking(messages []llm.Message) []llm.Message {
	bare := make([]llm.Message, len(messages))
	for i, m := range messages {
		bare[i].Role = m.Role
		for _, p := range m.Parts {
			if p.Kind == llm.Reasoning {
				continue
			}
			p.Signature, p.Raw, p.Origin = "", "", ""
			bare[i].Parts = append(bare[i].Parts, p)
		}
	}
	return bare
}

// digest turns a response into what is stored of it: entries when the turn
// goes on, an ending when it does not.
func (t *turn) digest(round int, s shape, r llm.Response) engine.StepResult {
	taint := t.taint()
	usage := usageOf(s.request, r)
	result := engine.StepResult{Entries: slices.Clone(s.marks), Usage: usage}
	step := modelStep{Usage: usage, Model: origin(r)}
	if say, told := t.fallback(r); say != nil {
		result.Entries = append(result.Entries, *say)
		if !told {
			result.Commit = t.tell(fmt.Sprintf("fallback/%s/%d", t.run.ID, round), say.Text)
		}
	}
	head := s.head
	if head > 0 {
		before := result.Commit
		result.Commit = func(tx *engine.Tx) error {
			if before != nil {
				if err := before(tx); err != nil {
					return err
				}
			}
			return moveHead(tx, t.run.ConversationID, head)
		}
	}

	stored, calls := t.own(round, r.Parts)
	d := assistantData{Parts: stored, Model: step.Model, Finish: r.Finish}
	text := strings.TrimSpace(llm.TextOf(r.Parts))
	answer := mercury.Entry{Kind: mercury.AssistantEntry, RunID: t.run.ID, Round: round, Text: text, Data: encode(d), Taint: taint}
	who := step.Model
	if who == "" {
		who = t.profile.ModelName
	}
	end := ending{Round: round, Text: text, Data: d, Taint: taint}
	ours := func(code, words string) {
		end = ending{Round: round, Text: words, State: mercury.RunFailed, Code: code, Taint: taint,
			Data: assistantData{Parts: []llm.Part{{Kind: llm.Text, Text: words}}, Model: step.Model, Finish: r.Finish}}
		step.End = &end
	}
	done := whatWasDone(finished(t.entries, t.run.ID, 0))
	cut := slices.ContainsFunc(r.Parts, func(p llm.Part) bool { return p.Kind == llm.ToolCall && p.Cut })
	switch {
	case len(calls) > 0:
		for i := range calls {
			calls[i].Taint = taint
		}
		result.Entries = append(append(result.Entries, answer), calls...)
	case r.Finish == llm.ContentFilter:
		ours("content_filter", sayFiltered(who, text))
	case cut && !t.told(noteContinue):
		if text != "" {
			result.Entries = append(result.Entries, answer)
		}
		result.Entries = append(result.Entries, note(t.run.ID, noteContinue, tellCutCall))
	case text == "" && !t.told(noteNudge):
		result.Entries = append(result.Entries, note(t.run.ID, noteNudge, tellNudge))
	case text == "":
		ours("empty_answer", sayEmpty(who, done))
	case r.Finish == llm.Length && !t.told(noteContinue):
		result.Entries = append(result.Entries, answer, note(t.run.ID, noteContinue, tellContinue))
	default:
		end.Shown = text
		if before := t.unfinished(); before != "" {
			// The seam is the model's own: no space is added or lost.
			end.Shown = strings.TrimLeft(before, " \n") + strings.TrimRight(llm.TextOf(r.Parts), " \n")
		}
		if r.Finish == llm.Length {
			end.Shown += sayCut
		}
		if end.Shown == text {
			end.Shown = ""
		}
		step.End = &end
	}
	result.Output = encode(step)
	return result
}

// own replaces a provider's calls by references under our ids, and returns
// the entries that hold them. Calls that were cut are left out.
func (t *turn) own(round int, parts []llm.Part) (stored []llm.Part, calls []mercury.Entry) {
	for _, p := range parts {
		switch {
		case p.Kind != llm.ToolCall:
			stored = append(stored, p)
		case p.Cut:
		default:
			id := callID(t.run.ID, round, len(calls))
			stored = append(stored, llm.Part{Kind: llm.ToolCall, ID: id, Signature: p.Signature, Raw: p.Raw, Origin: p.Origin})
			calls = append(calls, mercury.Entry{Kind: mercury.ToolCallEntry, RunID: t.run.ID, Round: round, CallID: id,
				Data: encode(callData{Tool: p.Name, Args: object(p.Args), BadArgs: p.BadArgs})})
		}
	}
	return stored, calls
}

// told reports whether the model was given a note of this kind since a person
// last spoke.
func (t *turn) told(kind string) bool {
	for _, e := range slices.Backward(t.entries) {
		switch {
		case e.Kind == mercury.UserEntry:
			return false
		case e.Kind == mercury.NoteEntry && e.RunID == t.run.ID && data[noteData](e).Kind == kind:
			return true
		}
	}
	return false
}

// unfinished is the text of the answer that hit the output limit, when the
// one in hand continues it.
func (t *turn) unfinished() string {
	for i, e := range slices.Backward(t.entries) {
		switch {
		case e.Hidden:
		case e.Kind == mercury.NoteEntry && data[noteData](e).Kind == noteContinue && i > 0:
			if before := t.entries[i-1]; before.Kind == mercury.AssistantEntry && before.RunID == t.run.ID {
				return llm.TextOf(data[assistantData](before).Parts)
			}
			return ""
		case e.Kind == mercury.NoteEntry:
		default:
			return ""
		}
	}
	return ""
}

// toldAgain is after how long a fallback that still answers is told again.
const toldAgain = 6 * time.Hour

// fallback is the note that another model than the first answered, once per
// run. told reports that its person was told of the same one lately.
func (t *turn) fallback(r llm.Response) (say *mercury.Entry, told bool) {
	if !r.Fallback {
		return nil, false
	}
	for _, e := range t.entries {
		if e.Kind != mercury.NoteEntry {
			continue
		}
		if d := data[noteData](e); d.Kind == noteFallback && d.Model == origin(r) {
			if e.RunID == t.run.ID {
				return nil, true
			}
			told = t.agent.opts.Now().Sub(e.At) < toldAgain
		}
	}
	n := note(t.run.ID, noteFallback, sayFallback(r))
	n.Data = encode(noteData{Kind: noteFallback, Model: origin(r)})
	return &n, told
}

// tell sends a notice to where the answer goes.
func (t *turn) tell(request, text string) func(*engine.Tx) error {
	return func(tx *engine.Tx) error {
		for _, address := range t.addresses() {
			_, _, err := tx.Emit(mercury.Delivery{Address: address, ConversationID: t.run.ConversationID, RunID: t.run.ID,
				RequestID: request, Kind: mercury.NoticeDelivery, Text: text})
			if err != nil {
				return fmt.Errorf("emit notice: %w", err)
			}
		}
		return nil
	}
}

func moveHead(tx *engine.Tx, conversationID string, head int64) error {
	c, err := tx.LockConversation(conversationID)
	if err != nil {
		return err
	}
	c.Head = max(c.Head, head)
	return tx.SaveConversation(c)
}

// outage turns a failed model call into a failure that knows since when the
// model has been out of reach. The first one is journaled, so that waiting
// goes on where it was after a restart.
func (t *turn) outage(ctx context.Context, round int, err error) error {
	if ctx.Err() != nil || !waitable(llm.ClassOf(err)) {
		return err
	}
	step, journalErr := t.w.Do(ctx, engine.StepCall{Round: round, CallID: stepOutage, Kind: stepWait, Effect: mercury.Read},
		func(context.Context) (engine.StepResult, error) {
			return engine.StepResult{Output: encode(t.agent.opts.Now())}, nil
		})
	if journalErr != nil {
		return errors.Join(journalErr, err)
	}
	f := &failure{err: err, callID: wantedID(round), since: decode[time.Time](step.Output)}
	if q, ok := t.questions[f.callID]; ok && q.AnsweredAt.After(f.since) {
		f.since = q.AnsweredAt
	}
	return f
}
