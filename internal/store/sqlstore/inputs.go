package sqlstore

import (
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func scanInput(s scanner) (mercury.Input, error) {
	var in mercury.Input
	var r reader
	var actor, files string
	var sent, accepted, settled int64
	err := s.Scan(&in.ID, &in.Channel, &in.MessageID, &in.ConversationID, &actor, &in.Mode, &in.Text, &files,
		&in.Digest, &in.State, &in.Reason, &in.RunID, &sent, &accepted, &settled)
	if err != nil {
		return in, err
	}
	r.decode(actor, &in.Actor)
	r.decode(files, &in.Files)
	in.SentAt, in.AcceptedAt, in.SettledAt = moment(sent), moment(accepted), moment(settled)
	return in, r.err
}

func (tx *Tx) InsertInput(in mercury.Input) error {
	return inserted(tx.exec("input.insert", in.ID, in.Channel, in.MessageID, in.ConversationID, encode(in.Actor),
		string(in.Mode), in.Text, encodeList(in.Files), in.Digest, string(in.State), in.Reason, in.RunID,
		micros(in.SentAt), micros(in.AcceptedAt), micros(in.SettledAt)))
}

func (tx *Tx) FindInput(channel, messageID string) (mercury.Input, error) {
	rows, err := tx.query("input.find", channel, messageID)
	return first(tx, rows, err, scanInput)
}

func (tx *Tx) Input(id string) (mercury.Input, error) {
	rows, err := tx.query("input.get", id)
	return first(tx, rows, err, scanInput)
}

func (tx *Tx) QueuedInputs(conversationID string) ([]mercury.Input, error) {
	rows, err := tx.query("input.queued", conversationID)
	return all(tx, rows, err, scanInput)
}

func (tx *Tx) RunInputs(runID string) ([]mercury.Input, error) {
	rows, err := tx.query("input.run", runID)
	return all(tx, rows, err, scanInput)
}

func (tx *Tx) SaveInput(in mercury.Input) error {
	return touched(tx.exec("input.save", string(in.State), in.Reason, in.RunID, micros(in.SettledAt),
		string(in.Mode), in.ID))
}

func (tx *Tx) CountQueued(conversationID string) (int, error) {
	return tx.count("input.count", conversationID)
}

func (tx *Tx) InputAfter(conversationID string, t time.Time) (bool, error) {
	return tx.exists("input.later", conversationID, micros(t))
}
