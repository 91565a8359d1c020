package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// How long a question stays open, and how long "one hour" lasts.
const (
	questionLife = 24 * time.Hour
	hourGrant    = time.Hour
)

// GrantID is the id of the grant that the answer to a question gives.
func GrantID(questionID string) string { return "gr_" + strings.TrimPrefix(questionID, "qu_") }

// ask writes a question of r, with its defaults. One of r's own that is still
// open is waited for again, as it stands.
func (t *Tx) ask(r mercury.Run, q mercury.Question) (mercury.Question, error) {
	if q.ID == "" {
		q.ID = mercury.NewID("qu")
	}
	old, err := t.Question(q.ID)
	if known, err := found(err); err != nil {
		return q, err
	} else if known && old.RunID == r.ID && old.State == mercury.QuestionOpen {
		return old, nil
	}
	q.RunID, q.ConversationID, q.State = r.ID, r.ConversationID, mercury.QuestionOpen
	if q.AskedBy == (mercury.Actor{}) {
		q.AskedBy = r.Actor
	}
	if q.CreatedAt.IsZero() {
		q.CreatedAt = t.Now()
	}
	if q.ExpiresAt.IsZero() {
		q.ExpiresAt = q.CreatedAt.Add(questionLife)
	}
	if err := t.InsertQuestion(q); err != nil {
		return q, fmt.Errorf("ask: %w", err)
	}
	t.event(Event{Type: "question", ConversationID: q.ConversationID, RunID: q.RunID, Data: q})
	return q, nil
}

// Answer settles a question by one compare-and-set, together with the grant it
// gives, the audit, and waking its run once nothing else is open. Whoever
// comes second gets a mercury.Conflict that says who answered, and the
// question as it stands. Who may not answer gets Denied. via names the channel
// or face.
//
// To an approval everything but once, run, hour and always is a no; a choice
// takes only what was offered.
func (t *Tx) Answer(questionID, answer string, by mercury.Actor, via string) (mercury.Question, error) {
	q, err := t.Question(questionID)
	if err != nil {
		return q, fmt.Errorf("answer question %s: %w", questionID, err)
	}
	run, err := t.lockRun(q.RunID)
	if known, err := found(err); err != nil {
		return q, err
	} else if !known {
		run = mercury.Run{}
	}
	if q, err = t.LockQuestion(questionID); err != nil {
		return q, err
	}
	if q.State != mercury.QuestionOpen {
		return q, settledBefore(q)
	}
	if !mayAnswer(q, by) {
		return q, &mercury.Error{Kind: mercury.Denied, Help: "This is not yours to decide.",
			Err: fmt.Errorf("answer question %s: %s may not", q.ID, by.Role)}
	}
	if q.Answer, err = offered(q, answer); err != nil {
		return q, err
	}
	q.State, q.AnsweredBy, q.AnsweredVia, q.AnsweredAt = mercury.QuestionAnswered, by, via, t.Now()
	if err := t.grant(q); err != nil {
		return q, err
	}
	if err := t.Audit(store.AuditRow{ID: mercury.NewID("au"), At: t.Now(), Actor: by, Act: "answer",
		Subject: q.ID, Verdict: q.Answer, Rule: q.Rule, Detail: q.Title}); err != nil {
		return q, err
	}
	return q, t.settleQuestion(q, &run)
}

// settleQuestion writes a question that is no longer open, and wakes its run.
func (t *Tx) settleQuestion(q mercury.Question, run *mercury.Run) error {
	if err := t.SaveQuestion(q); err != nil {
		return err
	}
	t.event(Event{Type: "question", ConversationID: q.ConversationID, RunID: q.RunID, Data: q})
	if err := t.unsend(q); err != nil {
		return err
	}
	return t.wake(run)
}

// unsend cancels copies of the question that have not gone out.
func (t *Tx) unsend(q mercury.Question) error {
	if q.RunID == "" {
		return nil
	}
	waiting, _, err := t.Deliveries(store.DeliveryFilter{RunID: q.RunID,
		States: []mercury.DeliveryState{mercury.DeliveryPending}})
	if err != nil {
		return err
	}
	for _, d := range waiting {
		if d.QuestionID != q.ID || len(d.Parts) > 0 {
			continue
		}
		d.State, d.Reason, d.SettledAt = mercury.DeliveryCancelled, string(q.State), t.Now()
		if err := t.SaveDelivery(d); err != nil {
			return err
		}
		if err := t.delivered(d); err != nil {
			return err
		}
	}
	return nil
}

func settledBefore(q mercury.Question) error {
	help := "This question is no longer open."
	switch q.State {
	case mercury.QuestionAnswered:
		who := q.AnsweredBy.Name
		if who == "" {
			who = string(q.AnsweredBy.Role)
		}
		help = fmt.Sprintf("%s answered this already, with %q", who, q.Answer)
		if q.AnsweredVia != "" {
			help += " (" + q.AnsweredVia + ")"
		}
		help += "."
	case mercury.QuestionExpired:
		help = "This question waited too long and counts as no."
	}
	return &mercury.Error{Kind: mercury.Conflict, Help: help, Err: fmt.Errorf("answer question %s: it is %s", q.ID, q.State)}
}

// mayAnswer: the owner always, others when the question names their role. A
// member decides nothing but what they themselves were asked in words.
func mayAnswer(q mercury.Question, by mercury.Actor) bool {
	switch {
	case by.Role == mercury.Owner:
		return true
	case !slices.Contains(q.Answerers, by.Role):
		return false
	case by.Role == mercury.Admin:
		return true
	}
	return q.Kind != "approval" && q.Kind != "limit" && isPerson(by) && sameActor(q.AskedBy, by)
}

// offered turns what a person said into an answer the question takes.
func offered(q mercury.Question, answer string) (string, error) {
	said := strings.TrimSpace(answer)
	for _, c := range q.Choices {
		if strings.EqualFold(said, c.Value) || strings.EqualFold(said, c.Label) {
			return c.Value, nil
		}
	}
	switch q.Kind {
	case "approval":
		lower := strings.ToLower(said)
		switch lower {
		case mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour, mercury.AnswerAlways:
			if len(q.Choices) == 0 {
				return lower, nil
			}
		}
		return mercury.AnswerNo, nil
	case "text":
		return answer, nil
	}
	if len(q.Choices) == 0 {
		return answer, nil
	}
	var labels []string
	for _, c := range q.Choices {
		labels = append(labels, c.Value)
	}
	return "", &mercury.Error{Kind: mercury.Invalid, Help: "Choose one of: " + strings.Join(labels, ", ") + ".",
		Err: fmt.Errorf("answer question %s: %q is not offered", q.ID, said)}
}

// grant writes the right an approval gives. Where no lasting rule was offered,
// a lasting answer is good for this once.
func (t *Tx) grant(q mercury.Question) error {
	if q.Kind != "approval" || q.Answer == mercury.AnswerNo {
		return nil
	}
	g := store.Grant{ID: GrantID(q.ID), Actor: q.AskedBy, Rule: q.Always, GivenBy: q.AnsweredBy, Via: q.ID, CreatedAt: t.Now()}
	switch {
	case q.Answer == mercury.AnswerOnce || q.Always == "":
		g.Once, g.RunID, g.Rule = true, q.RunID, OnceRule(q.CallID, q.Hash)
	case q.Answer == mercury.AnswerRun:
		g.RunID = q.RunID
	case q.Answer == mercury.AnswerHour:
		g.ExpiresAt = t.Now().Add(hourGrant)
	}
	if err := t.InsertGrant(g); err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	return nil
}

// OnceRule is the rule of a grant that is good for one call with exactly the
// accesses that were shown.
func OnceRule(callID, hash string) string { return "call " + callID + " " + hash }

// withdrawQuestions closes what a run that ends still asks.
func (t *Tx) withdrawQuestions(r mercury.Run) error {
	qs, err := t.RunQuestions(r.ID)
	if err != nil {
		return err
	}
	for _, q := range qs {
		if q.State != mercury.QuestionOpen {
			continue
		}
		q.State, q.AnsweredAt = mercury.QuestionWithdrawn, t.Now()
		if err := t.settleQuestion(q, &mercury.Run{}); err != nil {
			return err
		}
	}
	return nil
}

// expire settles questions whose time is over, as no, and wakes runs whose
// time has come.
func (e *Engine) expire(ctx context.Context, s seen) error {
	for _, q := range s.questions {
		if err := e.Update(ctx, "question.expire", func(t *Tx) error { return t.expireQuestion(q.ID) }); err != nil {
			return fmt.Errorf("expire question %s: %w", q.ID, err)
		}
	}
	for _, r := range s.runs {
		err := e.Update(ctx, "wake", func(t *Tx) error {
			r, err := t.LockRun(r.ID)
			if err != nil {
				return err
			}
			return t.wake(&r)
		})
		if err != nil {
			return fmt.Errorf("wake run %s: %w", r.ID, err)
		}
	}
	return nil
}

func (t *Tx) expireQuestion(id string) error {
	q, err := t.Question(id)
	if err != nil {
		return err
	}
	run, err := t.lockRun(q.RunID)
	if known, err := found(err); err != nil {
		return err
	} else if !known {
		run = mercury.Run{}
	}
	if q, err = t.LockQuestion(id); err != nil || q.State != mercury.QuestionOpen {
		return err
	}
	q.State, q.AnsweredAt = mercury.QuestionExpired, t.Now()
	if q.Kind == "approval" {
		q.Answer = mercury.AnswerNo
	}
	return t.settleQuestion(q, &run)
}
