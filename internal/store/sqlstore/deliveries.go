package sqlstore

import (
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func scanDelivery(s scanner) (mercury.Delivery, error) {
	var d mercury.Delivery
	var r reader
	var channel, files, parts, sender string
	var notBefore, created, settled int64
	err := s.Scan(&d.ID, &channel, &d.Address, &d.ConversationID, &d.RunID, &d.RequestID, &d.Digest, &d.Kind,
		&d.EntrySeq, &d.QuestionID, &d.Text, &files, &d.State, &d.Reason, &d.SupersededBy, &d.Receipt, &notBefore,
		&d.Attempts, &parts, &sender, &created, &settled)
	if err != nil {
		return d, err
	}
	r.decode(files, &d.Files)
	var stored []part
	r.decode(parts, &stored)
	for _, p := range stored {
		d.Parts = append(d.Parts, p.word())
	}
	d.NotBefore, d.CreatedAt, d.SettledAt = moment(notBefore), moment(created), moment(settled)
	return d, r.err
}

// part is a mercury.Part as stored.
type part struct {
	N         int                   `json:"n"`
	Text      string                `json:"text,omitempty"`
	File      *mercury.File         `json:"file,omitempty"`
	State     mercury.DeliveryState `json:"state"`
	AttemptID string                `json:"attempt,omitempty"`
	Owner     string                `json:"owner,omitempty"`
	Receipt   string                `json:"receipt,omitempty"`
	Error     string                `json:"error,omitempty"`
	At        int64                 `json:"at,omitempty"`
}

func (p part) word() mercury.Part {
	return mercury.Part{N: p.N, Text: p.Text, File: p.File, State: p.State, AttemptID: p.AttemptID, Owner: p.Owner,
		Receipt: p.Receipt, Error: p.Error, At: moment(p.At)}
}

// deliveryColumns are a delivery's columns after its id, in the order of the
// table. The sender is whoever has a part in hand.
func deliveryColumns(d mercury.Delivery) []any {
	var parts []part
	sender := ""
	for _, p := range d.Parts {
		if p.State == mercury.DeliverySending {
			sender = p.Owner
		}
		parts = append(parts, part{N: p.N, Text: p.Text, File: p.File, State: p.State, AttemptID: p.AttemptID,
			Owner: p.Owner, Receipt: p.Receipt, Error: p.Error, At: micros(p.At)})
	}
	return []any{mercury.ChannelOf(d.Address), d.Address, d.ConversationID, d.RunID, d.RequestID, d.Digest,
		string(d.Kind), d.EntrySeq, d.QuestionID, d.Text, encodeList(d.Files), string(d.State), d.Reason,
		d.SupersededBy, d.Receipt, micros(d.NotBefore), d.Attempts, encodeList(parts), sender,
		micros(d.CreatedAt), micros(d.SettledAt)}
}

func (tx *Tx) InsertDelivery(d mercury.Delivery) error {
	return inserted(tx.exec("delivery.insert", append([]any{d.ID}, deliveryColumns(d)...)...))
}

func (tx *Tx) FindDelivery(address, requestID string) (mercury.Delivery, error) {
	rows, err := tx.query("delivery.find", address, requestID)
	return first(tx, rows, err, scanDelivery)
}

func (tx *Tx) Delivery(id string) (mercury.Delivery, error) {
	rows, err := tx.query("delivery.get", id)
	return first(tx, rows, err, scanDelivery)
}

func (tx *Tx) LockDelivery(id string) (mercury.Delivery, error) {
	rows, err := tx.query("delivery.lock", id)
	return first(tx, rows, err, scanDelivery)
}

func (tx *Tx) SaveDelivery(d mercury.Delivery) error {
	return touched(tx.exec("delivery.save", append(deliveryColumns(d), d.ID)...))
}

// openDeliveries are the states whose deliveries a partial index lists.
var openDeliveries = []mercury.DeliveryState{mercury.DeliveryPending, mercury.DeliveryHeld,
	mercury.DeliverySending, mercury.DeliveryUnknown}

func (tx *Tx) Deliveries(f store.DeliveryFilter) ([]mercury.Delivery, string, error) {
	n, err := before(f.Page)
	if err != nil {
		return nil, "", err
	}
	q := tx.compose("delivery.list", n)
	q.when(f.Address != "", "delivery.list.address", f.Address)
	q.when(f.ConversationID != "", "delivery.list.conversation", f.ConversationID)
	q.when(f.RunID != "", "delivery.list.run", f.RunID)
	if len(f.States) > 0 {
		q.add("delivery.list.states", texts(f.States))
		if contains(openDeliveries, f.States) {
			q.add("delivery.list.indexed")
		}
	}
	size := limit(f.Page)
	q.add("delivery.list.end", size+1)
	rows, err := q.rows()
	found, err := all(tx, rows, err, numberedRow(scanDelivery))
	if err != nil {
		return nil, "", err
	}
	out, next := cut(found, size)
	return out, next, nil
}

func (tx *Tx) NextDelivery(channels []string, now time.Time) (mercury.Delivery, error) {
	rows, err := tx.query("delivery.next", list(channels), micros(now))
	return first(tx, rows, err, scanDelivery)
}

func (tx *Tx) HeldAnswers(conversationID string) ([]mercury.Delivery, error) {
	rows, err := tx.query("delivery.unsettled", conversationID)
	return all(tx, rows, err, scanDelivery)
}

func (tx *Tx) RecentAnswers(conversationID string, limit int) ([]mercury.Delivery, error) {
	rows, err := tx.query("delivery.recent", conversationID, atMost(limit))
	return all(tx, rows, err, scanDelivery)
}

func (tx *Tx) SendingBy(owner string, now time.Time) ([]mercury.Delivery, error) {
	if owner == "" {
		rows, err := tx.query("delivery.sending.dead", micros(now))
		return all(tx, rows, err, scanDelivery)
	}
	rows, err := tx.query("delivery.sending", owner)
	return all(tx, rows, err, scanDelivery)
}

func (tx *Tx) NextDeliveryDue(channels []string, now time.Time) (time.Time, bool, error) {
	return tx.earliest("delivery.due", list(channels), micros(now))
}

// CountDeliveries counts what is not settled: pending, held, sending, unknown.
// The others only grow, and counting them would read the whole history.
func (tx *Tx) CountDeliveries() (map[mercury.DeliveryState]int, error) {
	rows, err := tx.query("delivery.count")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[mercury.DeliveryState]int)
	for rows.Next() {
		var state mercury.DeliveryState
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return nil, tx.classify(err)
		}
		out[state] = n
	}
	return out, tx.close(rows)
}
