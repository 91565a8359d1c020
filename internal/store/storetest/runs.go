package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// fullRun has a value in every field, so that none can be forgotten.
func fullRun(id string) mercury.Run {
	return mercury.Run{ID: id, Kind: "turn", Lane: mercury.Bot, Key: "bot/x", ConversationID: "local/a",
		ParentID: "run_parent", ReplayOf: "run_old", State: mercury.RunQueued, Priority: -3, NotBefore: at(1),
		Deadline: at(100), Owner: "proc_1", Epoch: 7, Attempts: 2, Takeovers: 1, Cancel: "why", Detached: true,
		Woken: true, Node: "node", Actor: owner,
		Mandate: mercury.Mandate{Actor: owner, Mode: "guided", Interactive: true, Tools: []string{"read_file"},
			Scopes: []mercury.Scope{{Path: "/w", Read: true}}, Workspace: "/w", Destination: "local/a"},
		Input: json.RawMessage(`{"b": 1, "a":  [true]}`),
		Wait: &mercury.Wait{Questions: []string{"qu_1"}, Children: []string{"run_2"},
			Until: at(50), Reason: "asks"},
		Result: json.RawMessage(`"done"`), ErrorCode: "limit_steps", Error: "too many",
		Usage:   mercury.Usage{Input: 1, Output: 2, Cached: 3, CacheWrite: 4, Reasoning: 5, Estimated: true},
		Running: 1500 * time.Microsecond, CreatedAt: at(0), StartedAt: at(2), EndedAt: at(3)}
}

var runTests = map[string]func(*testing.T, Home, store.Store){
	"a run is read as it was written": func(t *testing.T, _ Home, s store.Store) {
		r := fullRun("run_1")
		insert(t, s, r)
		check := func(what string) {
			t.Helper()
			update(t, s, func(tx store.Tx) error {
				got, err := tx.Run("run_1")
				same(t, what, got, r)
				locked, err2 := tx.LockRun("run_1")
				same(t, what+" locked", locked, r)
				return errors.Join(err, err2)
			})
		}
		check("run")
		r = mercury.Run{ID: "run_1", Kind: "learn", Lane: mercury.Quiet, State: mercury.RunDone, CreatedAt: at(0)}
		update(t, s, func(tx store.Tx) error { return tx.SaveRun(r) })
		check("emptied")
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Run("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.LockRun("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveRun(mercury.Run{ID: "x"}) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertRun(mercury.Run{ID: "run_1"}) })
	},
	"a conversation has one live run": func(t *testing.T, _ Home, s store.Store) {
		for _, state := range []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting} {
			id := "local/" + string(state)
			first := newRun("run_1"+string(state), 0)
			first.ConversationID, first.State = id, state
			insert(t, s, first)
			second := newRun("run_2"+string(state), 1)
			second.ConversationID = id
			fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertRun(second) })
			update(t, s, func(tx store.Tx) error {
				live, err := tx.LiveRun(id)
				same(t, "live", live.ID, first.ID)
				return err
			})
			view(t, s, func(tx store.Tx) error {
				live, err := tx.LiveRun(id)
				same(t, "live in a view", live.ID, first.ID)
				return err
			})
			first.State = mercury.RunDone
			update(t, s, func(tx store.Tx) error { return tx.SaveRun(first) })
			fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.LiveRun(id); return err })
			insert(t, s, second)
		}
		insert(t, s, newRun("run_a", 0), newRun("run_b", 0)) // without a conversation any number
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.LiveRun(""); return err })
	},
	"eight that start a run in one conversation: one wins": func(t *testing.T, _ Home, s store.Store) {
		for round := range 10 {
			oneWins(t, race(8, func(i int) error {
				r := newRun(fmt.Sprintf("run_%d_%d", round, i), 0)
				r.ConversationID = fmt.Sprint("local/", round)
				return s.Update(context.Background(), func(tx store.Tx) error { return tx.InsertRun(r) })
			}))
		}
	},
	"a key has one run in hand": func(t *testing.T, _ Home, s store.Store) {
		a, b := newRun("run_a", 0), newRun("run_b", 1)
		a.Key, b.Key = "bot/x", "bot/x"
		insert(t, s, a, b)
		a.State, b.State = mercury.RunWaiting, mercury.RunRunning
		update(t, s, func(tx store.Tx) error { return tx.SaveRun(a) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.SaveRun(b) })
		a.State = mercury.RunDone
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.SaveRun(a), tx.SaveRun(b)) })
	},
	"runs are listed newest first, filtered, in pages": func(t *testing.T, _ Home, s store.Store) {
		for i := range 6 {
			r := newRun(fmt.Sprint("run_", i), 0)
			r.ParentID = "run_0"
			r.ConversationID = fmt.Sprint("local/", i%2)
			r.Key = fmt.Sprint("k", i%3)
			r.State = mercury.RunDone
			if i == 3 {
				r.Kind, r.Lane, r.State = "learn", mercury.Quiet, mercury.RunDead
			}
			if i == 4 {
				r.State = mercury.RunFailed
			}
			insert(t, s, r)
		}
		for name, tt := range map[string]struct {
			filter store.RunFilter
			want   []string
		}{
			"all":          {store.RunFilter{}, []string{"run_5", "run_4", "run_3", "run_2", "run_1", "run_0"}},
			"conversation": {store.RunFilter{ConversationID: "local/1"}, []string{"run_5", "run_3", "run_1"}},
			"key":          {store.RunFilter{Key: "k1"}, []string{"run_4", "run_1"}},
			"kind":         {store.RunFilter{Kind: "learn"}, []string{"run_3"}},
			"lane":         {store.RunFilter{Lane: mercury.Quiet}, []string{"run_3"}},
			"dead":         {store.RunFilter{States: []mercury.RunState{mercury.RunDead}}, []string{"run_3"}},
			"two states": {store.RunFilter{States: []mercury.RunState{mercury.RunDead, mercury.RunFailed}},
				[]string{"run_4", "run_3"}},
			"parent and key": {store.RunFilter{ParentID: "run_0", Key: "k0"}, []string{"run_3", "run_0"}},
			"none":           {store.RunFilter{Key: "k9"}, []string{}},
		} {
			var got []string
			for pages := 0; ; pages++ {
				if pages > 10 {
					t.Fatalf("%s: pages do not end", name)
				}
				tt.filter.Limit = 2
				view(t, s, func(tx store.Tx) error {
					list, next, err := tx.Runs(tt.filter)
					got = append(got, ids(list, runID)...)
					tt.filter.After = next
					return err
				})
				if tt.filter.After == "" {
					break
				}
			}
			same(t, name, append([]string{}, got...), tt.want)
		}
		view(t, s, func(tx store.Tx) error {
			kids, err := tx.Children("run_0")
			same(t, "children", ids(kids, runID), []string{"run_0", "run_1", "run_2", "run_3", "run_4", "run_5"})
			none, err2 := tx.Children("")
			same(t, "children of nobody", len(none), 0)
			return errors.Join(err, err2)
		})
	},
	"depths count live runs": func(t *testing.T, _ Home, s store.Store) {
		for i, state := range []mercury.RunState{mercury.RunQueued, mercury.RunQueued, mercury.RunRunning,
			mercury.RunWaiting, mercury.RunDone, mercury.RunDead} {
			r := newRun(fmt.Sprint("run_", i), 0)
			r.State = state
			if i < 2 {
				r.Key = "k0"
			}
			insert(t, s, r)
		}
		bot := newRun("run_bot", 0)
		bot.Lane = mercury.Bot
		insert(t, s, bot)
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Depths()
			same(t, "depths", got, map[mercury.Lane]store.LaneDepth{
				mercury.Chat: {Queued: 2, Running: 1, Waiting: 1}, mercury.Bot: {Queued: 1}})
			n, err2 := tx.CountQueuedKey("k0")
			same(t, "queued of a key", n, 2)
			return errors.Join(err, err2)
		})
	},
	"orphans are runs whose owner's lease is over": func(t *testing.T, _ Home, s store.Store) {
		var now time.Time
		update(t, s, func(tx store.Tx) error {
			now = tx.Now()
			return errors.Join(tx.PutProcess(store.Process{ID: "alive", LeaseUntil: now.Add(time.Minute)}),
				tx.PutProcess(store.Process{ID: "over", LeaseUntil: now.Add(-time.Second)}))
		})
		for i, owner := range []string{"alive", "over", "gone", "over"} {
			r := newRun(fmt.Sprint("run_", i), 0)
			r.State, r.Owner = mercury.RunRunning, owner
			if i == 3 {
				r.State = mercury.RunWaiting // nobody has it in hand
			}
			insert(t, s, r)
		}
		view(t, s, func(tx store.Tx) error {
			list, err := tx.Orphans(now, 10)
			same(t, "orphans", ids(list, runID), []string{"run_1", "run_2"})
			later, err2 := tx.Orphans(now.Add(time.Hour), 2)
			same(t, "later", ids(later, runID), []string{"run_0", "run_1"})
			return errors.Join(err, err2)
		})
	},
	"what comes due is known": func(t *testing.T, _ Home, s store.Store) {
		expect := func(now int, want time.Time, ok bool) {
			t.Helper()
			view(t, s, func(tx store.Tx) error {
				got, found, err := tx.NextDue(at(now))
				same(t, fmt.Sprint("due after ", now), []any{got, found}, []any{want, ok})
				return err
			})
		}
		expect(0, time.Time{}, false)
		queued, parked, done := newRun("run_1", 0), newRun("run_2", 0), newRun("run_3", 0)
		queued.NotBefore = at(20)
		parked.State, parked.Wait = mercury.RunWaiting, &mercury.Wait{Until: at(10)}
		done.State, done.NotBefore = mercury.RunDone, at(5)
		asking := newRun("run_4", 0)
		asking.State, asking.Wait = mercury.RunWaiting, &mercury.Wait{Questions: []string{"qu"}}
		insert(t, s, queued, parked, done, asking)
		expect(0, at(10), true)
		expect(10, at(20), true)
		expect(20, time.Time{}, false)
		view(t, s, func(tx store.Tx) error {
			before, err := tx.Overdue(at(9), 5)
			same(t, "not yet", len(before), 0)
			list, err2 := tx.Overdue(at(10), 5)
			same(t, "overdue", ids(list, runID), []string{"run_2"})
			return errors.Join(err, err2)
		})
	},
	"pruning keeps the newest of a key and every input": func(t *testing.T, _ Home, s store.Store) {
		const total = 35
		for i := range total {
			r := newRun(fmt.Sprintf("run_%02d", i), i)
			r.Key, r.State = "bot/x", mercury.RunDone
			if i == 0 {
				r.State = mercury.RunWaiting // live: never pruned
			}
			other := newRun(fmt.Sprintf("other_%02d", i), i)
			other.Key, other.State = "bot/y", mercury.RunDone
			insert(t, s, r, other)
			update(t, s, func(tx store.Tx) error {
				in := newInput(fmt.Sprint("in_", i), i)
				in.RunID = r.ID
				return errors.Join(tx.InsertInput(in), tx.PutStep(mercury.Step{RunID: r.ID, CallID: "c"}),
					tx.PutStep(mercury.Step{RunID: other.ID, CallID: "c"}))
			})
		}
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.PruneRuns("bot/x", 3), tx.PruneRuns("bot/y", 0)) })
		view(t, s, func(tx store.Tx) error {
			list, _, err := tx.Runs(store.RunFilter{Key: "bot/x", Page: store.Page{Limit: 1000}})
			same(t, "rows", len(list), 31) // ten times three, and the live one
			steps := 0
			for _, r := range list {
				st, err := tx.Steps(r.ID)
				if err != nil {
					return err
				}
				steps += len(st)
			}
			same(t, "runs with steps", steps, 4)
			others, _, err2 := tx.Runs(store.RunFilter{Key: "bot/y", Page: store.Page{Limit: 1000}})
			same(t, "rows of the other key", len(others), total)
			_, err3 := tx.Input("in_1")
			return errors.Join(err, err2, err3)
		})
	},
}

var stepTests = map[string]func(*testing.T, Home, store.Store){
	"a step is read as it was written, and overwritten by its key": func(t *testing.T, _ Home, s store.Store) {
		st := mercury.Step{RunID: "run_1", Round: 2, CallID: "c1", Kind: "tool", Name: "read_file",
			Effect: mercury.Once, ArgsHash: "h", State: mercury.StepStarted, Epoch: 3, StartedAt: at(1)}
		check := func(what string) {
			t.Helper()
			view(t, s, func(tx store.Tx) error {
				got, err := tx.Step("run_1", 2, "c1")
				same(t, what, got, st)
				return err
			})
		}
		update(t, s, func(tx store.Tx) error { return tx.PutStep(st) })
		check("started")
		st.State, st.Output, st.OutputRef, st.Error = mercury.StepDone, json.RawMessage(`{"x":1}`), "ref", "e"
		st.Epoch, st.EndedAt = 4, at(2)
		update(t, s, func(tx store.Tx) error { return tx.PutStep(st) })
		check("done")
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Step("run_1", 1, "c1"); return err })
	},
	"steps come by round, then start": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			for _, st := range []mercury.Step{
				{Round: 2, CallID: "a", StartedAt: at(9), State: mercury.StepStarted, Epoch: 2},
				{Round: 1, CallID: "z", StartedAt: at(1), State: mercury.StepDone, Epoch: 1},
				{Round: 2, CallID: "b", StartedAt: at(5), State: mercury.StepStarted, Epoch: 1},
			} {
				st.RunID = "run_1"
				if err := tx.PutStep(st); err != nil {
					return err
				}
			}
			return tx.PutStep(mercury.Step{RunID: "run_2", CallID: "other"})
		})
		call := func(st mercury.Step) string { return st.CallID }
		view(t, s, func(tx store.Tx) error {
			list, err := tx.Steps("run_1")
			same(t, "steps", ids(list, call), []string{"z", "b", "a"})
			left, err2 := tx.StartedSteps("run_1", 2)
			same(t, "left started", ids(left, call), []string{"b"})
			return errors.Join(err, err2)
		})
	},
}
