package sqlstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/store"
)

func scanUndo(s scanner) (store.UndoRow, error) {
	var u store.UndoRow
	var mode, at, undone int64
	var taint string
	var r reader
	err := s.Scan(&u.ID, &u.RunID, &u.ConversationID, &u.CallID, &u.Tool, &u.Act, &u.Path, &u.Place, &u.Before, &u.BeforeRef,
		&mode, &u.After, &taint, &u.Note, &at, &undone)
	if err != nil {
		return u, err
	}
	r.decode(taint, &u.Taint)
	u.BeforeMode, u.At, u.UndoneAt = uint32(mode), moment(at), moment(undone)
	return u, r.err
}

func (tx *Tx) PutUndo(u store.UndoRow) error {
	if u.At.IsZero() {
		u.At = tx.Now()
	}
	_, err := tx.exec("undo.put", u.ID, u.RunID, u.ConversationID, u.CallID, u.Tool, u.Act, u.Path, u.Place, u.Before,
		u.BeforeRef, int64(u.BeforeMode), u.After, encodeList(u.Taint), u.Note, micros(u.At), micros(u.UndoneAt))
	return err
}

func (tx *Tx) UndoRows(runID string) ([]store.UndoRow, error) {
	rows, err := tx.query("undo.run", runID)
	return all(tx, rows, err, scanUndo)
}

func (tx *Tx) LastUndoRun(conversationID string) (string, error) {
	var id string
	err := tx.one("undo.last", []any{conversationID, conversationID}, &id)
	return id, err
}

func (tx *Tx) MarkUndone(id string, at time.Time) error {
	n, err := tx.exec("undo.done", micros(at), id)
	if err != nil || n > 0 {
		return err
	}
	known, err := tx.exists("undo.exists", id)
	if err != nil {
		return err
	}
	if !known {
		return store.ErrNotFound
	}
	return fmt.Errorf("undo %s: %w", id, store.ErrStale)
}

func (tx *Tx) UndoWants(ref string) (bool, error) { return tx.exists("undo.wants", ref) }

func (tx *Tx) TaintFile(path string, sources []string, runID string) error {
	if len(sources) == 0 {
		_, err := tx.exec("taint.delete", path)
		return err
	}
	_, err := tx.exec("taint.put", path, encodeList(sources), runID, micros(tx.Now()))
	return err
}

func (tx *Tx) FileTaint(path string) ([]string, error) {
	up := list{path}
	for dir := filepath.Dir(path); dir != up[len(up)-1]; dir = filepath.Dir(dir) {
		up = append(up, dir)
	}
	below := strings.TrimSuffix(path, string(filepath.Separator)) + string(filepath.Separator)
	rows, err := tx.query("taint.about", up, utf8.RuneCountInString(below), below)
	found, err := all(tx, rows, err, func(s scanner) ([]string, error) {
		var text string
		var sources []string
		var r reader
		err := s.Scan(&text)
		r.decode(text, &sources)
		if err == nil {
			err = r.err
		}
		return sources, err
	})
	union := slices.Concat(found...)
	slices.Sort(union)
	return slices.Compact(union), err
}

func scanJob(s scanner) (store.Job, error) {
	var j store.Job
	var code, detached, started, ended int64
	err := s.Scan(&j.ID, &j.ConversationID, &j.RunID, &j.Node, &j.Command, &j.Dir, &j.Output, &j.State, &j.Reason, &code,
		&detached, &started, &ended)
	j.ExitCode, j.Detached, j.StartedAt, j.EndedAt = int(code), detached != 0, moment(started), moment(ended)
	return j, err
}

func (tx *Tx) InsertJob(j store.Job) error {
	return inserted(tx.exec("job.insert", j.ID, j.ConversationID, j.RunID, j.Node, j.Command, j.Dir, j.Output, j.State,
		j.Reason, int64(j.ExitCode), flag(j.Detached), micros(j.StartedAt), micros(j.EndedAt)))
}

func (tx *Tx) SaveJob(j store.Job) error {
	return touched(tx.exec("job.save", j.State, j.Reason, int64(j.ExitCode), flag(j.Detached), micros(j.EndedAt), j.ID))
}

func (tx *Tx) Job(id string) (store.Job, error) {
	rows, err := tx.query("job.get", id)
	return first(tx, rows, err, scanJob)
}

func (tx *Tx) Jobs(conversationID string) ([]store.Job, error) {
	rows, err := tx.query("job.list", conversationID, conversationID)
	return all(tx, rows, err, scanJob)
}

func (tx *Tx) RunningJobs(node string) ([]store.Job, error) {
	rows, err := tx.query("job.running", node)
	return all(tx, rows, err, scanJob)
}
