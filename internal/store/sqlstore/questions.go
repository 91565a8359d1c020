package sqlstore

import (
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func scanQuestion(s scanner) (mercury.Question, error) {
	var q mercury.Question
	var r reader
	var choices, accesses, askedBy, answerers, answeredBy string
	var created, expires, answered int64
	err := s.Scan(&q.ID, &q.RunID, &q.ConversationID, &q.CallID, &q.Kind, &q.Title, &q.Body, &choices, &accesses,
		&q.Hash, &q.Rule, &q.Always, &askedBy, &answerers, &q.State, &q.Answer, &answeredBy, &q.AnsweredVia,
		&created, &expires, &answered)
	if err != nil {
		return q, err
	}
	r.decode(choices, &q.Choices)
	r.decode(accesses, &q.Accesses)
	r.decode(askedBy, &q.AskedBy)
	r.decode(answerers, &q.Answerers)
	r.decode(answeredBy, &q.AnsweredBy)
	q.CreatedAt, q.ExpiresAt, q.AnsweredAt = moment(created), moment(expires), moment(answered)
	return q, r.err
}

// questionColumns are a question's columns after its id, in the order of the
// table.
func questionColumns(q mercury.Question) []any {
	answeredBy := ""
	if q.AnsweredBy != (mercury.Actor{}) {
		answeredBy = encode(q.AnsweredBy)
	}
	return []any{q.RunID, q.ConversationID, q.CallID, q.Kind, q.Title, q.Body, encodeList(q.Choices),
		encodeList(q.Accesses), q.Hash, q.Rule, q.Always, encode(q.AskedBy), encodeList(q.Answerers),
		string(q.State), q.Answer, answeredBy, q.AnsweredVia, micros(q.CreatedAt), micros(q.ExpiresAt),
		micros(q.AnsweredAt)}
}

func (tx *Tx) InsertQuestion(q mercury.Question) error {
	return inserted(tx.exec("question.insert", append([]any{q.ID}, questionColumns(q)...)...))
}

func (tx *Tx) Question(id string) (mercury.Question, error) {
	rows, err := tx.query("question.get", id)
	return first(tx, rows, err, scanQuestion)
}

func (tx *Tx) LockQuestion(id string) (mercury.Question, error) {
	rows, err := tx.query("question.lock", id)
	return first(tx, rows, err, scanQuestion)
}

func (tx *Tx) SaveQuestion(q mercury.Question) error {
	return touched(tx.exec("question.save", append(questionColumns(q), q.ID)...))
}

func (tx *Tx) OpenQuestions(conversationID string) ([]mercury.Question, error) {
	if conversationID == "" {
		rows, err := tx.query("question.open")
		return all(tx, rows, err, scanQuestion)
	}
	rows, err := tx.query("question.open.conversation", conversationID)
	return all(tx, rows, err, scanQuestion)
}

func (tx *Tx) RunQuestions(runID string) ([]mercury.Question, error) {
	rows, err := tx.query("question.run", runID)
	return all(tx, rows, err, scanQuestion)
}

func (tx *Tx) QuestionsList(p store.Page) ([]mercury.Question, string, error) {
	n, err := before(p)
	if err != nil {
		return nil, "", err
	}
	size := limit(p)
	rows, err := tx.query("question.list", n, size+1)
	found, err := all(tx, rows, err, numberedRow(scanQuestion))
	if err != nil {
		return nil, "", err
	}
	out, next := cut(found, size)
	return out, next, nil
}

func (tx *Tx) ExpiredQuestions(now time.Time, limit int) ([]mercury.Question, error) {
	rows, err := tx.query("question.expired", micros(now), atMost(limit))
	return all(tx, rows, err, scanQuestion)
}

func (tx *Tx) NextExpiry() (time.Time, bool, error) {
	return tx.earliest("question.expiry")
}
