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
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// settle stores the answer and its deliveries and ends the run, unless more
// input has arrived: then the answer is stored and held, and the turn goes on.
// The words of a failure are the engine's to tell: it always does.
func (t *turn) settle(ctx context.Context, end ending) (ended bool, err error) {
	t.phase("sending", "")
	o := engine.Outcome{State: end.State, Code: end.Code}
	if end.State == mercury.RunFailed {
		o.Error = end.Text
		return true, t.w.Settle(ctx, o, nil)
	}
	shown := end.Shown
	if shown == "" {
		shown = end.Text
	}
	o.Entries = []mercury.Entry{{Kind: mercury.AssistantEntry, RunID: t.run.ID, Round: end.Round,
		Text: end.Text, Data: encode(end.Data), Taint: end.Taint}}
	files := t.files()
	said, err := t.said(ctx)
	if err != nil {
		return false, err
	}
	aside := t.aside(end.Text)
	if aside != "" {
		o.Entries = append(o.Entries, note(t.run.ID, noteAside, aside))
		aside = "\n\n" + aside
	}
	to := t.addresses()
	if t.profile.Silent != nil && len(files) == 0 && t.profile.Silent(shown) {
		to = nil
	}
	for _, address := range to {
		if len(files) == 0 && slices.Contains(said[address], strings.TrimSpace(shown)) {
			continue // a tool sent these very words there: people read them once
		}
		o.Answer = append(o.Answer, mercury.Delivery{
			Address: address, ConversationID: t.run.ConversationID, RunID: t.run.ID,
			RequestID: fmt.Sprintf("answer/%s/%d", t.run.ID, end.Round),
			Kind:      mercury.AnswerDelivery, Text: shown + aside, Files: files,
		})
	}
	switch {
	case end.Tools != nil:
		o.Result = encode(Result{End: EndedByTools})
	case t.profile.Next != nil && t.restful():
		o.Result = encode(Result{End: EndedRestful})
	case t.profile.Next != nil:
		o.Next = func(tx *engine.Tx, r mercury.Run) ([]mercury.Entry, error) { return t.goesOn(tx, r, o.Entries[0]) }
	}
	switch err := t.w.Settle(ctx, o, func(tx *engine.Tx) error { return t.ended(tx, end, o.Entries[0]) }); {
	case errors.Is(err, engine.ErrMore):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// Result is what a run of kind "turn" leaves beside its answer.
type Result struct {
	End string `json:"end,omitempty"` // why it did not go on, when that was not its profile's choice
}

// Why a run that might have gone on ended.
const (
	EndedByTools = "tools"   // its tools asked for it
	EndedRestful = "restful" // it had answered too often in a row without doing anything
)

// restfulAnswers is how many answers in a row without a call of a tool end a
// run that would go on by itself.
const restfulAnswers = 3

// restful reports whether the answer at hand is one too many without a call.
func (t *turn) restful() bool {
	quiet := 1
	for _, e := range slices.Backward(t.entries) {
		switch {
		case e.RunID != t.run.ID || e.Hidden:
		case e.Kind == mercury.ToolCallEntry || e.Kind == mercury.UserEntry:
			return quiet >= restfulAnswers
		case e.Kind == mercury.AssistantEntry:
			quiet++
		}
	}
	return quiet >= restfulAnswers
}

// ended joins the commit that ends the run with an answer.
func (t *turn) ended(tx *engine.Tx, end ending, answer mercury.Entry) error {
	if t.profile.Said != nil {
		if err := t.profile.Said(tx, t.run, answer); err != nil {
			return err
		}
	}
	if end.Tools != nil && end.Tools.Afresh {
		return tx.Reset(t.run.ConversationID, t.run.Actor)
	}
	return nil
}

// goesOn has the run go on after an answer, if its profile says so.
func (t *turn) goesOn(tx *engine.Tx, r mercury.Run, answer mercury.Entry) ([]mercury.Entry, error) {
	text := t.profile.Next(r)
	if text == "" {
		return nil, nil
	}
	if t.profile.Said != nil {
		if err := t.profile.Said(tx, r, answer); err != nil {
			return nil, err
		}
	}
	next := note(r.ID, noteNext, text)
	next.Round, next.Data = answer.Round, encode(noteData{Kind: noteNext, Running: t.running()})
	return []mercury.Entry{next}, nil
}

// endedByTools returns the end that the tools of the last round ask for: all
// of them must, and nobody may have written since.
func (t *turn) endedByTools() (ending, bool) {
	round := 0
	for _, e := range t.entries {
		if e.RunID == t.run.ID && e.Kind == mercury.ToolCallEntry {
			round = max(round, e.Round)
		}
	}
	var calls []string
	ends := map[string]*tool.End{}
	for _, e := range t.entries {
		switch {
		case e.RunID != t.run.ID || round == 0:
		case e.Kind == mercury.ToolCallEntry && e.Round == round:
			calls = append(calls, e.CallID)
		case e.Kind == mercury.ToolResultEntry && e.Round == round:
			ends[e.CallID] = data[resultData](e).Ends
		case e.Kind == mercury.AssistantEntry && e.Round > round,
			e.Kind == mercury.UserEntry && len(calls) > 0 && len(ends) == len(calls):
			return ending{}, false
		}
	}
	var end tool.End
	var texts []string
	for _, id := range calls {
		asked := ends[id]
		if asked == nil {
			return ending{}, false
		}
		end.Afresh = end.Afresh || asked.Afresh
		if text := strings.TrimSpace(asked.Text); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return ending{}, false
	}
	end.Text = strings.Join(texts, "\n\n")
	return ending{Round: round + 1, Text: end.Text, Taint: t.taint(), Tools: &end,
		Data: assistantData{Parts: []llm.Part{{Kind: llm.Text, Text: end.Text}}}}, true
}

// aside is what the program itself says under an answer.
func (t *turn) aside(answer string) string {
	if t.profile.Aside == nil {
		return ""
	}
	var used []string
	for _, e := range t.entries {
		if d := data[resultData](e); e.Kind == mercury.ToolResultEntry && e.RunID == t.run.ID && !d.IsError {
			used = append(used, d.Tool)
		}
	}
	return t.profile.Aside(answer, used)
}

// said are the texts that tools of this run have sent, by address. What is
// known not to have been shown is not among them.
func (t *turn) said(ctx context.Context) (map[string][]string, error) {
	if !slices.ContainsFunc(t.w.Journal(), func(s mercury.Step) bool { return s.Kind == "tool" }) {
		return nil, nil
	}
	said := map[string][]string{}
	err := t.w.View(ctx, func(tx store.Tx) error {
		clear(said)
		sent, _, err := tx.Deliveries(store.DeliveryFilter{RunID: t.run.ID, Page: store.Page{Limit: 1000}})
		for _, d := range sent {
			if d.Kind == mercury.DirectDelivery && len(d.Files) == 0 && d.State != mercury.DeliveryRefused && d.State != mercury.DeliveryCancelled {
				said[d.Address] = append(said[d.Address], strings.TrimSpace(d.Text))
			}
		}
		return err
	})
	return said, err
}

// addresses is where this run's answers and questions go. A child's answer is
// its parent's to read, and threads of bots and helpers are read where they
// stand.
func (t *turn) addresses() []string {
	c := t.conversation
	switch {
	case t.profile.Addresses != nil:
		return t.profile.Addresses(c)
	case t.run.Mandate.Destination != "":
		return []string{t.run.Mandate.Destination}
	case t.run.ParentID != "" && !t.run.Detached, c.Kind == "bot", c.Kind == "helper", c.Kind == "fork" && c.ParentID == "":
		return nil
	case c.Kind == "fork":
		return []string{c.ParentID}
	}
	return []string{c.ID}
}

// stop ends a run that somebody cancelled. What had been streamed by then
// stays, marked as broken off, and so does what it cost. Without a model call
// in hand the engine ends the run as well.
func (t *turn) stop(ctx context.Context) error {
	if t.reserved == nil {
		return engine.ErrCanceled
	}
	o := engine.Outcome{State: mercury.RunStopped}
	err := t.w.View(context.WithoutCancel(ctx), func(tx store.Tx) error {
		r, err := tx.Run(t.run.ID)
		o.Code = r.Cancel
		return err
	})
	if err != nil {
		return errors.Join(engine.ErrCanceled, err)
	}
	if text := t.streamed.String(); strings.TrimSpace(text) != "" {
		o.Entries = []mercury.Entry{aborted(t.run.ID, text)}
	}
	row := t.arrived()
	return t.w.Settle(ctx, o, func(tx *engine.Tx) error { return tx.PutLedger(row) })
}

// files returns what tools made for the person since the last answer.
func (t *turn) files() []mercury.File {
	var files []mercury.File
	for _, e := range t.entries {
		switch {
		case e.RunID != t.run.ID:
		case e.Kind == mercury.AssistantEntry && !hasCalls(e) && !e.Hidden:
			files = nil
		case e.Kind == mercury.ToolResultEntry:
			files = append(files, data[resultData](e).Files...)
		}
	}
	return files
}

func hasCalls(e mercury.Entry) bool {
	return slices.ContainsFunc(data[assistantData](e).Parts, func(p llm.Part) bool { return p.Kind == llm.ToolCall })
}

// park asks people and waits for their answers without holding anything.
func (t *turn) park(ctx context.Context, questions []mercury.Question, reason string, also ...func(*engine.Tx) error) error {
	t.phase("waiting", reason)
	var hush time.Time
	if t.profile.Hush != nil {
		hush = t.profile.Hush(t.agent.opts.Now())
	}
	for i, q := range questions {
		if t.profile.Patience > 0 && q.ExpiresAt.IsZero() {
			questions[i].ExpiresAt = t.agent.opts.Now().Add(t.profile.Patience)
		}
		if len(q.Answerers) > 0 {
			continue
		}
		questions[i].Answerers = slices.Clone(t.profile.Answerers)
		// What the model asks a person, that person answers; a decision over
		// rights or costs is the owner's, and whose the owner named.
		if q.Kind != "approval" && q.Kind != "limit" {
			questions[i].Answerers = append(questions[i].Answerers, t.run.Actor.Role)
		}
	}
	return t.w.Park(ctx, engine.Park{Questions: questions, Reason: reason}, func(tx *engine.Tx) error {
		for _, q := range questions {
			for _, address := range t.addresses() {
				_, _, err := tx.Emit(mercury.Delivery{Address: address, ConversationID: t.run.ConversationID, RunID: t.run.ID,
					RequestID: "question/" + q.ID, Kind: mercury.QuestionDelivery, QuestionID: q.ID, Text: sayQuestion(q), NotBefore: hush})
				if err != nil {
					return fmt.Errorf("emit question: %w", err)
				}
			}
		}
		for _, fn := range also {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	})
}
