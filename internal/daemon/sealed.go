package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
)

// sealed is a store that no secret gets into: every text is taken through the
// vault on its way to a row, whichever room wrote it.
type sealed struct {
	store.Store
	secrets secrets
}

func (s sealed) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return fn(sealedTx{tx, s.secrets}) })
}

func (s sealed) Blobs() store.Blobs { return sealedBlobs{s.Store.Blobs(), s.secrets} }

type sealedBlobs struct {
	store.Blobs
	secrets secrets
}

func (b sealedBlobs) Put(ctx context.Context, content []byte) (string, error) {
	if text := string(content); b.secrets.Hide(text) != text {
		content = []byte(b.secrets.Hide(text))
	}
	return b.Blobs.Put(ctx, content)
}

type sealedTx struct {
	store.Tx
	secrets secrets
}

func (t sealedTx) Append(conversation string, entries ...mercury.Entry) ([]mercury.Entry, error) {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Text = t.secrets.Hide(entries[i].Text)
		entries[i].Data = t.secrets.hideJSON(entries[i].Data)
	}
	return t.Tx.Append(conversation, entries...)
}

func (t sealedTx) InsertInput(in mercury.Input) error {
	in.Text, in.Reason = t.secrets.Hide(in.Text), t.secrets.Hide(in.Reason)
	return t.Tx.InsertInput(in)
}

func (t sealedTx) SaveInput(in mercury.Input) error {
	in.Reason = t.secrets.Hide(in.Reason)
	return t.Tx.SaveInput(in)
}

func (t sealedTx) run(r mercury.Run) mercury.Run {
	r.Error, r.Cancel = t.secrets.Hide(r.Error), t.secrets.Hide(r.Cancel)
	r.Input, r.Result = t.secrets.hideJSON(r.Input), t.secrets.hideJSON(r.Result)
	return r
}

func (t sealedTx) InsertRun(r mercury.Run) error { return t.Tx.InsertRun(t.run(r)) }
func (t sealedTx) SaveRun(r mercury.Run) error   { return t.Tx.SaveRun(t.run(r)) }

func (t sealedTx) PutStep(s mercury.Step) error {
	s.Output, s.Error = t.secrets.hideJSON(s.Output), t.secrets.Hide(s.Error)
	return t.Tx.PutStep(s)
}

func (t sealedTx) question(q mercury.Question) mercury.Question {
	q.Title, q.Body, q.Answer, q.Always = t.secrets.Hide(q.Title), t.secrets.Hide(q.Body), t.secrets.Hide(q.Answer), t.secrets.Hide(q.Always)
	q.Accesses = slices.Clone(q.Accesses)
	for i, a := range q.Accesses {
		q.Accesses[i].Target, q.Accesses[i].Detail = t.secrets.Hide(a.Target), t.secrets.Hide(a.Detail)
		q.Accesses[i].Argv = slices.Clone(a.Argv)
		for j, word := range a.Argv {
			q.Accesses[i].Argv[j] = t.secrets.Hide(word)
		}
	}
	return q
}

func (t sealedTx) InsertQuestion(q mercury.Question) error { return t.Tx.InsertQuestion(t.question(q)) }
func (t sealedTx) SaveQuestion(q mercury.Question) error   { return t.Tx.SaveQuestion(t.question(q)) }

func (t sealedTx) delivery(d mercury.Delivery) mercury.Delivery {
	d.Text, d.Reason = t.secrets.Hide(d.Text), t.secrets.Hide(d.Reason)
	d.Parts = slices.Clone(d.Parts)
	for i, p := range d.Parts {
		d.Parts[i].Text, d.Parts[i].Error = t.secrets.Hide(p.Text), t.secrets.Hide(p.Error)
	}
	return d
}

func (t sealedTx) InsertDelivery(d mercury.Delivery) error { return t.Tx.InsertDelivery(t.delivery(d)) }
func (t sealedTx) SaveDelivery(d mercury.Delivery) error   { return t.Tx.SaveDelivery(t.delivery(d)) }

func (t sealedTx) PutHold(h store.Hold) error {
	h.Reason = t.secrets.Hide(h.Reason)
	return t.Tx.PutHold(h)
}

func (t sealedTx) job(j store.Job) store.Job {
	j.Command, j.Reason = t.secrets.Hide(j.Command), t.secrets.Hide(j.Reason)
	return j
}

func (t sealedTx) InsertJob(j store.Job) error { return t.Tx.InsertJob(t.job(j)) }
func (t sealedTx) SaveJob(j store.Job) error   { return t.Tx.SaveJob(t.job(j)) }

func (t sealedTx) schedule(s store.Schedule) store.Schedule {
	s.Name, s.Reason, s.Said = t.secrets.Hide(s.Name), t.secrets.Hide(s.Reason), t.secrets.Hide(s.Said)
	s.Text, s.Command, s.Precheck = t.secrets.Hide(s.Text), t.secrets.Hide(s.Command), t.secrets.Hide(s.Precheck)
	s.Watch = t.secrets.Hide(s.Watch)
	return s
}

func (t sealedTx) InsertSchedule(s store.Schedule) error { return t.Tx.InsertSchedule(t.schedule(s)) }
func (t sealedTx) SaveSchedule(s store.Schedule) error   { return t.Tx.SaveSchedule(t.schedule(s)) }

func (t sealedTx) occurrence(o store.Occurrence) store.Occurrence {
	o.Reason = t.secrets.Hide(o.Reason)
	return o
}

func (t sealedTx) InsertOccurrence(o store.Occurrence) error {
	return t.Tx.InsertOccurrence(t.occurrence(o))
}

func (t sealedTx) SaveOccurrence(o store.Occurrence) error {
	return t.Tx.SaveOccurrence(t.occurrence(o))
}

func (t sealedTx) memory(m store.Memory) store.Memory {
	m.Summary, m.Detail = t.secrets.Hide(m.Summary), t.secrets.Hide(m.Detail)
	m.Sources = slices.Clone(m.Sources)
	for i, s := range m.Sources {
		m.Sources[i].Said = t.secrets.Hide(s.Said)
	}
	return m
}

func (t sealedTx) InsertMemory(m store.Memory) error { return t.Tx.InsertMemory(t.memory(m)) }
func (t sealedTx) SaveMemory(m store.Memory) error   { return t.Tx.SaveMemory(t.memory(m)) }

func (t sealedTx) PutUndo(u store.UndoRow) error {
	if u.Act == memory.UndoAct || u.Act == schedule.UndoAct { // the other states are sums
		u.Before, u.After = string(t.secrets.hideJSON(json.RawMessage(u.Before))), string(t.secrets.hideJSON(json.RawMessage(u.After)))
	}
	return t.Tx.PutUndo(u)
}

// SetMeta seals what memory keeps there; other facts are the program's own.
func (t sealedTx) SetMeta(key, value string) error {
	if strings.HasPrefix(key, memory.MetaPrefix) {
		value = t.secrets.Hide(value)
	}
	return t.Tx.SetMeta(key, value)
}

func (t sealedTx) Audit(row store.AuditRow) error {
	row.Detail, row.Rule = t.secrets.Hide(row.Detail), t.secrets.Hide(row.Rule)
	return t.Tx.Audit(row)
}
