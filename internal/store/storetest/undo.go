package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

var undoTests = map[string]func(*testing.T, Home, store.Store){
	"changes come back in order, once each": func(t *testing.T, _ Home, s store.Store) {
		rows := []store.UndoRow{
			{ID: "un_1", RunID: "run_1", ConversationID: "local/a", CallID: "c1", Tool: "write_file", Act: "write", Path: "/w/a",
				Taint: []string{"web"}, Before: "aa", BeforeRef: "ref", BeforeMode: 0o640, After: "bb", At: time.UnixMicro(5).UTC()},
			{ID: "un_2", RunID: "run_1", ConversationID: "local/a", CallID: "c2", Tool: "delete_file", Act: "delete", Path: "/w/b",
				Place: "/t/b", Before: "folder", Note: "too large", At: time.UnixMicro(6).UTC()},
		}
		update(t, s, func(tx store.Tx) error {
			for _, r := range append(rows, rows[0]) {
				if err := tx.PutUndo(r); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.UndoRows("run_1")
			if !reflect.DeepEqual(got, rows) {
				t.Errorf("got %+v", got)
			}
			return err
		})
	},
	"the last run with a change that is left is named": func(t *testing.T, _ Home, s store.Store) {
		last := func(conversation string) (id string) {
			view(t, s, func(tx store.Tx) (err error) {
				id, err = tx.LastUndoRun(conversation)
				if errors.Is(err, store.ErrNotFound) {
					id, err = "none", nil
				}
				return err
			})
			return id
		}
		if got := last(""); got != "none" {
			t.Errorf("at first %q", got)
		}
		update(t, s, func(tx store.Tx) error {
			return errors.Join(tx.PutUndo(store.UndoRow{ID: "un_1", RunID: "run_1", ConversationID: "local/a", BeforeRef: "r"}),
				tx.PutUndo(store.UndoRow{ID: "un_2", RunID: "run_2", ConversationID: "local/b"}))
		})
		if a, all := last("local/a"), last(""); a != "run_1" || all != "run_2" {
			t.Errorf("of one %q, of all %q", a, all)
		}
		update(t, s, func(tx store.Tx) error { return tx.MarkUndone("un_2", tx.Now()) })
		if got := last(""); got != "run_1" {
			t.Errorf("then %q", got)
		}
		fails(t, s, store.ErrStale, func(tx store.Tx) error { return tx.MarkUndone("un_2", tx.Now()) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.MarkUndone("un_9", tx.Now()) })
		view(t, s, func(tx store.Tx) error {
			yes, err := tx.UndoWants("r")
			no, err2 := tx.UndoWants("other")
			if !yes || no {
				t.Errorf("wanted %v, %v", yes, no)
			}
			return errors.Join(err, err2)
		})
	},
	"a mark on a file is found from it, from above and from below": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			return errors.Join(tx.TaintFile("/w/sub/é.txt", []string{"web"}, "run_1"), tx.TaintFile("/w/out", []string{"mail"}, "run_1"))
		})
		for path, want := range map[string][]string{
			"/w/sub/é.txt": {"web"}, "/w/sub": {"web"}, "/w": {"mail", "web"}, "/w/out/deep/x": {"mail"},
			"/w/sub2": nil, "/w/su": nil, "/w/sub/é": nil, "/": {"mail", "web"},
		} {
			view(t, s, func(tx store.Tx) error {
				got, err := tx.FileTaint(path)
				if !slices.Equal(got, want) {
					t.Errorf("%s: got %v, want %v", path, got, want)
				}
				return err
			})
		}
		update(t, s, func(tx store.Tx) error {
			return errors.Join(tx.TaintFile("/w/out", []string{"x"}, "run_2"), tx.TaintFile("/w/sub/é.txt", nil, ""))
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.FileTaint("/w")
			if !slices.Equal(got, []string{"x"}) {
				t.Errorf("then %v", got)
			}
			return err
		})
	},
	"jobs are kept with how they ended": func(t *testing.T, _ Home, s store.Store) {
		j := store.Job{ID: "job_1", ConversationID: "local/a", RunID: "run_1", Node: "n", Command: "make", Dir: "/w", Output: "/o",
			State: store.JobRunning, StartedAt: time.UnixMicro(7).UTC()}
		update(t, s, func(tx store.Tx) error { return tx.InsertJob(j) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertJob(j) })
		j.State, j.Reason, j.ExitCode, j.Detached, j.EndedAt = store.JobDone, "why", 3, true, time.UnixMicro(9).UTC()
		other := store.Job{ID: "job_2", ConversationID: "local/b", Node: "n", State: store.JobRunning}
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.SaveJob(j), tx.InsertJob(other)) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveJob(store.Job{ID: "job_9"}) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Job("job_1")
			if got != j {
				t.Errorf("got %+v", got)
			}
			ofA, err2 := tx.Jobs("local/a")
			all, err3 := tx.Jobs("")
			running, err4 := tx.RunningJobs("n")
			if len(ofA) != 1 || len(all) != 2 || all[0].ID != "job_2" || len(running) != 1 || running[0].ID != "job_2" {
				t.Errorf("of one %v, all %v, running %v", ofA, all, running)
			}
			return errors.Join(err, err2, err3, err4)
		})
	},
}
