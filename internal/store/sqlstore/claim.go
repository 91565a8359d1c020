package sqlstore

import (
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// claimTries bounds how many keys one claim steps around because another
// process is claiming under them at this moment.
const claimTries = 20

// Claim finds the best ready run, takes its key where other processes share
// the database, and marks it running. The unique index over keys in hand
// would refuse a second run of a key even if the search were wrong.
func (tx *Tx) Claim(c store.Claim) (mercury.Run, error) {
	if tx.readOnly {
		return mercury.Run{}, errReadOnlyTx
	}
	now := micros(tx.Now())
	closed, err := tx.exists("hold.any", list{"*", "lane/" + string(c.Lane)}, now)
	if err != nil {
		return mercury.Run{}, err
	}
	if closed {
		return mercury.Run{}, store.ErrNotFound
	}
	var avoid list
	for range claimTries {
		q := tx.compose("run.ready", string(c.Lane), now, c.Node, flag(c.TrustedOnly), now)
		q.when(c.Only != "", "run.ready.only", c.Only)
		q.when(len(c.Kinds) > 0, "run.ready.kinds", list(c.Kinds))
		q.when(len(avoid) > 0, "run.ready.except", avoid)
		q.add("run.ready.end")
		rows, err := q.rows()
		id, err := first(tx, rows, err, scanReady)
		if err != nil {
			return mercury.Run{}, err
		}
		free, err := tx.takeKey(id.key, now)
		if err != nil {
			return mercury.Run{}, err
		}
		if !free {
			avoid = append(avoid, id.key)
			continue
		}
		rows, err = tx.query("run.claim", c.Owner, now, id.id)
		return first(tx, rows, err, scanRun)
	}
	return mercury.Run{}, store.ErrNotFound
}

type ready struct{ id, key string }

func scanReady(s scanner) (ready, error) {
	var r ready
	err := s.Scan(&r.id, &r.key)
	return r, err
}

// takeKey reports whether this transaction may have a run of key. Where others
// claim at the same time it locks the key until commit, then looks again with
// what has been committed meanwhile. It never waits, so it cannot deadlock.
func (tx *Tx) takeKey(key string, now int64) (bool, error) {
	if key == "" || !tx.dialect.shared {
		return true, nil
	}
	var locked bool
	if err := tx.one("run.keylock", []any{"run/" + key}, &locked); err != nil || !locked {
		return false, err
	}
	busy, err := tx.exists("run.keybusy", key, key, now)
	return err == nil && !busy, err
}

func scanStep(s scanner) (mercury.Step, error) {
	var st mercury.Step
	var output string
	var started, ended int64
	err := s.Scan(&st.RunID, &st.Round, &st.CallID, &st.Kind, &st.Name, &st.Effect, &st.ArgsHash, &st.State,
		&output, &st.OutputRef, &st.Error, &st.Epoch, &started, &ended)
	st.Output, st.StartedAt, st.EndedAt = raw(output), moment(started), moment(ended)
	return st, err
}

func (tx *Tx) PutStep(s mercury.Step) error {
	_, err := tx.exec("step.put", s.RunID, s.Round, s.CallID, s.Kind, s.Name, string(s.Effect), s.ArgsHash,
		string(s.State), string(s.Output), s.OutputRef, s.Error, s.Epoch, micros(s.StartedAt), micros(s.EndedAt))
	return err
}

func (tx *Tx) Step(runID string, round int, callID string) (mercury.Step, error) {
	rows, err := tx.query("step.get", runID, round, callID)
	return first(tx, rows, err, scanStep)
}

func (tx *Tx) Steps(runID string) ([]mercury.Step, error) {
	rows, err := tx.query("step.list", runID)
	return all(tx, rows, err, scanStep)
}

func (tx *Tx) StartedSteps(runID string, epoch int64) ([]mercury.Step, error) {
	rows, err := tx.query("step.started", runID, epoch)
	return all(tx, rows, err, scanStep)
}
