package sqlstore

import (
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func scanRun(s scanner) (mercury.Run, error) {
	var r mercury.Run
	var rd reader
	var notBefore, deadline, waitUntil, running, created, started, ended int64
	var detached, woken, trusted int64
	var actor, mandate, input, wait, result, usage string
	err := s.Scan(&r.ID, &r.Kind, &r.Lane, &r.Key, &r.ConversationID, &r.ParentID, &r.ReplayOf, &r.State,
		&r.Priority, &notBefore, &deadline, &r.Owner, &r.Epoch, &r.Attempts, &r.Takeovers, &r.Cancel, &detached,
		&woken, &r.Node, &trusted, &actor, &mandate, &input, &wait, &waitUntil, &result, &r.ErrorCode, &r.Error,
		&usage, &running, &created, &started, &ended)
	if err != nil {
		return r, err
	}
	rd.decode(actor, &r.Actor)
	rd.decode(mandate, &r.Mandate)
	rd.decode(wait, &r.Wait)
	rd.decode(usage, &r.Usage)
	r.Input, r.Result = raw(input), raw(result)
	r.Detached, r.Woken = detached != 0, woken != 0
	r.NotBefore, r.Deadline, r.CreatedAt = moment(notBefore), moment(deadline), moment(created)
	r.StartedAt, r.EndedAt = moment(started), moment(ended)
	r.Running = time.Duration(running) * time.Microsecond
	return r, rd.err
}

// runColumns are a run's columns after its id, in the order of the table.
func runColumns(r mercury.Run) []any {
	wait, waitUntil := "", int64(0)
	if r.Wait != nil {
		wait, waitUntil = encode(r.Wait), micros(r.Wait.Until)
	}
	usage := ""
	if r.Usage != (mercury.Usage{}) {
		usage = encode(r.Usage)
	}
	return []any{r.Kind, string(r.Lane), r.Key, r.ConversationID, r.ParentID, r.ReplayOf, string(r.State),
		r.Priority, micros(r.NotBefore), micros(r.Deadline), r.Owner, r.Epoch, r.Attempts, r.Takeovers, r.Cancel,
		flag(r.Detached), flag(r.Woken), r.Node, flag(r.Actor.Trusted()), encode(r.Actor), encode(r.Mandate),
		string(r.Input), wait, waitUntil, string(r.Result), r.ErrorCode, r.Error, usage,
		r.Running.Microseconds(), micros(r.CreatedAt), micros(r.StartedAt), micros(r.EndedAt)}
}

func (tx *Tx) InsertRun(r mercury.Run) error {
	return inserted(tx.exec("run.insert", append([]any{r.ID}, runColumns(r)...)...))
}

func (tx *Tx) Run(id string) (mercury.Run, error) {
	rows, err := tx.query("run.get", id)
	return first(tx, rows, err, scanRun)
}

func (tx *Tx) LockRun(id string) (mercury.Run, error) {
	rows, err := tx.query("run.lock", id)
	return first(tx, rows, err, scanRun)
}

func (tx *Tx) LiveRun(conversationID string) (mercury.Run, error) {
	rows, err := tx.query("run.live", conversationID)
	return first(tx, rows, err, scanRun)
}

func (tx *Tx) SaveRun(r mercury.Run) error {
	return touched(tx.exec("run.save", append(runColumns(r), r.ID)...))
}

// indexedRuns are the states whose runs a partial index lists.
var indexedRuns = []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting, mercury.RunDead}

func (tx *Tx) Runs(f store.RunFilter) ([]mercury.Run, string, error) {
	n, err := before(f.Page)
	if err != nil {
		return nil, "", err
	}
	q := tx.compose("run.list", n)
	q.when(f.ConversationID != "", "run.list.conversation", f.ConversationID)
	q.when(f.ParentID != "", "run.list.parent", f.ParentID)
	q.when(f.Key != "", "run.list.key", f.Key)
	q.when(f.Kind != "", "run.list.kind", f.Kind)
	q.when(f.Lane != "", "run.list.lane", string(f.Lane))
	if len(f.States) > 0 {
		q.add("run.list.states", texts(f.States))
		if contains(indexedRuns, f.States) {
			q.add("run.list.indexed")
		}
	}
	size := limit(f.Page)
	q.add("run.list.end", size+1)
	rows, err := q.rows()
	found, err := all(tx, rows, err, numberedRow(scanRun))
	if err != nil {
		return nil, "", err
	}
	out, next := cut(found, size)
	return out, next, nil
}

func (tx *Tx) Children(parentID string) ([]mercury.Run, error) {
	rows, err := tx.query("run.children", parentID)
	return all(tx, rows, err, scanRun)
}

// Depths fills only lanes that have a live run.
func (tx *Tx) Depths() (map[mercury.Lane]store.LaneDepth, error) {
	rows, err := tx.query("run.depths")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[mercury.Lane]store.LaneDepth)
	for rows.Next() {
		var lane mercury.Lane
		var state mercury.RunState
		var n int
		if err := rows.Scan(&lane, &state, &n); err != nil {
			return nil, tx.classify(err)
		}
		d := out[lane]
		switch state {
		case mercury.RunQueued:
			d.Queued = n
		case mercury.RunRunning:
			d.Running = n
		case mercury.RunWaiting:
			d.Waiting = n
		}
		out[lane] = d
	}
	return out, tx.close(rows)
}

func (tx *Tx) CountQueuedKey(key string) (int, error) {
	return tx.count("run.queuedkey", key)
}

func (tx *Tx) Orphans(now time.Time, limit int) ([]mercury.Run, error) {
	rows, err := tx.query("run.orphans", micros(now), atMost(limit))
	return all(tx, rows, err, scanRun)
}

func (tx *Tx) NextDue(now time.Time) (time.Time, bool, error) {
	return tx.earliest("run.due", micros(now), micros(now))
}

func (tx *Tx) Overdue(now time.Time, limit int) ([]mercury.Run, error) {
	rows, err := tx.query("run.overdue", micros(now), atMost(limit))
	return all(tx, rows, err, scanRun)
}

// PruneRuns keeps everything when keep is zero or less: an absent setting must
// not delete.
func (tx *Tx) PruneRuns(key string, keep int) error {
	if key == "" || keep <= 0 {
		return nil
	}
	for _, p := range []struct {
		keep  int
		query string
	}{{keep, "run.prune.steps"}, {10 * keep, "run.prune.rows"}} {
		rows, err := tx.query("run.prune.last", key, p.keep)
		last, err := all(tx, rows, err, scanNumber)
		if err != nil {
			return err
		}
		if len(last) == 0 {
			return nil
		}
		if _, err := tx.exec(p.query, key, last[0]); err != nil {
			return err
		}
	}
	return nil
}

func scanNumber(s scanner) (int64, error) {
	var n int64
	err := s.Scan(&n)
	return n, err
}

// atMost is a LIMIT; zero limits nothing.
func atMost(n int) int64 {
	if n <= 0 {
		return everything
	}
	return int64(n)
}

func texts[S ~string](in []S) list {
	out := make(list, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// contains reports whether all of some are in set.
func contains[S comparable](set, some []S) bool {
	return !slices.ContainsFunc(some, func(s S) bool { return !slices.Contains(set, s) })
}

// A composed query is put together from named pieces.
type composed struct {
	tx   *Tx
	text strings.Builder
	args []any
}

func (tx *Tx) compose(name string, args ...any) *composed {
	q := &composed{tx: tx}
	q.add(name, args...)
	return q
}

func (q *composed) add(name string, args ...any) {
	if q.text.Len() > 0 {
		q.text.WriteByte('\n')
	}
	q.text.WriteString(q.tx.dialect.query(name))
	q.args = append(q.args, args...)
}

func (q *composed) when(condition bool, name string, args ...any) {
	if condition {
		q.add(name, args...)
	}
}

func (q *composed) rows() (*sql.Rows, error) {
	return q.tx.queryText(q.text.String(), q.args...)
}
