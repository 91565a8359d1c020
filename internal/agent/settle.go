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
	switch err := t.w.Settle(ctx, o, nil); {
	case errors.Is(err, engine.ErrMore):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
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
