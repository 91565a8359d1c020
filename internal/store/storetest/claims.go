package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// claim takes one run of the chat lane; "" when there is nothing to do.
func claim(t testing.TB, s store.Store, change ...func(*store.Claim)) string {
	t.Helper()
	c := store.Claim{Owner: "proc_1", Node: "here", Lane: mercury.Chat}
	for _, f := range change {
		f(&c)
	}
	var r mercury.Run
	err := s.Update(context.Background(), func(tx store.Tx) (err error) {
		r, err = tx.Claim(c)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if r.State != mercury.RunRunning || r.Owner != c.Owner || r.StartedAt.IsZero() {
		t.Errorf("claimed %s", show(r))
	}
	return r.ID
}

// claims takes runs until there is nothing to do.
func claims(t testing.TB, s store.Store, change ...func(*store.Claim)) []string {
	t.Helper()
	out := []string{}
	for id := claim(t, s, change...); id != ""; id = claim(t, s, change...) {
		out = append(out, id)
	}
	return out
}

var claimTests = map[string]func(*testing.T, Home, store.Store){
	"a claim takes the run and raises its epoch": func(t *testing.T, _ Home, s store.Store) {
		r := newRun("run_1", 0)
		r.Epoch = 4
		insert(t, s, r)
		same(t, "claimed", claim(t, s), "run_1")
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Run("run_1")
			if got.Epoch != 5 || got.Owner != "proc_1" || got.State != mercury.RunRunning {
				t.Errorf("after the claim: %s", show(got))
			}
			started := got.StartedAt
			r = got
			r.State = mercury.RunQueued
			same(t, "started", started.IsZero(), false)
			return err
		})
		update(t, s, func(tx store.Tx) error { return tx.SaveRun(r) })
		same(t, "claimed again", claim(t, s), "run_1")
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Run("run_1")
			same(t, "first start stays", got.StartedAt, r.StartedAt)
			same(t, "epoch", got.Epoch, int64(6))
			return err
		})
		same(t, "nothing is left", claim(t, s), "")
	},
	"woken ones first, then priority, then age": func(t *testing.T, _ Home, s store.Store) {
		old, young, high, woken := newRun("old", 1), newRun("young", 2), newRun("high", 9), newRun("woken", 20)
		high.Priority, woken.Woken = 5, true
		oldest := newRun("oldest", 0) // inserted last, yet made first
		insert(t, s, young, old, high, woken, oldest)
		same(t, "order", claims(t, s), []string{"woken", "high", "oldest", "old", "young"})
	},
	"only its own lane": func(t *testing.T, _ Home, s store.Store) {
		r := newRun("run_1", 0)
		r.Lane = mercury.Bot
		insert(t, s, r)
		same(t, "chat", claim(t, s), "")
		same(t, "bot", claim(t, s, func(c *store.Claim) { c.Lane = mercury.Bot }), "run_1")
	},
	"not before its time": func(t *testing.T, _ Home, s store.Store) {
		early, late := newRun("early", 1), newRun("late", 0)
		late.NotBefore = time.Now().Add(time.Hour)
		early.NotBefore = time.Now().Add(-time.Hour)
		insert(t, s, early, late)
		same(t, "due", claims(t, s), []string{"early"})
	},
	"one at a time of a key, running or parked": func(t *testing.T, _ Home, s store.Store) {
		for i, key := range []string{"a", "a", "b", "", ""} {
			r := newRun(fmt.Sprint("run_", i), i)
			r.Key = key
			insert(t, s, r)
		}
		same(t, "first of each", claims(t, s), []string{"run_0", "run_2", "run_3", "run_4"})
		park(t, s, "run_0", mercury.RunWaiting)
		same(t, "while parked", claim(t, s), "")
		park(t, s, "run_0", mercury.RunDone)
		same(t, "then", claim(t, s), "run_1")
	},
	"not what is held": func(t *testing.T, _ Home, s store.Store) {
		a, b := newRun("run_a", 0), newRun("run_b", 1)
		a.Key, b.Key = "bot/a", "bot/b"
		insert(t, s, a, b)
		hold := func(key string, until time.Time) {
			update(t, s, func(tx store.Tx) error {
				return tx.PutHold(store.Hold{Key: key, Until: until, Reason: "why", By: "me"})
			})
		}
		release := func(key string) { update(t, s, func(tx store.Tx) error { return tx.DeleteHold(key) }) }
		hold("*", time.Time{})
		same(t, "all held", claim(t, s), "")
		release("*")
		hold("lane/chat", time.Now().Add(time.Hour))
		same(t, "lane held", claim(t, s), "")
		release("lane/chat")
		hold("lane/bot", time.Time{})
		hold("bot/a", time.Now().Add(time.Hour))
		same(t, "key held", claim(t, s), "run_b")
		same(t, "still held", claim(t, s), "")
		hold("bot/a", time.Now().Add(-time.Second))
		same(t, "hold over", claim(t, s), "run_a")
	},
	"pinned ones only on their node": func(t *testing.T, _ Home, s store.Store) {
		here, there, anywhere := newRun("here", 0), newRun("there", 1), newRun("anywhere", 2)
		here.Node, there.Node = "here", "there"
		insert(t, s, here, there, anywhere)
		same(t, "here", claims(t, s), []string{"here", "anywhere"})
		same(t, "there", claims(t, s, func(c *store.Claim) { c.Node = "there" }), []string{"there"})
	},
	"trusted only, when asked": func(t *testing.T, _ Home, s store.Store) {
		for i, role := range []mercury.Role{mercury.Stranger, mercury.Member, mercury.BotRole, mercury.Admin, mercury.Owner} {
			r := newRun(fmt.Sprint("run_", i), i)
			r.Actor = mercury.Actor{Role: role}
			insert(t, s, r)
		}
		same(t, "trusted", claims(t, s, func(c *store.Claim) { c.TrustedOnly = true }), []string{"run_3", "run_4"})
		same(t, "rest", claims(t, s), []string{"run_0", "run_1", "run_2"})
	},
	"only one conversation's and what descends from it": func(t *testing.T, _ Home, s store.Store) {
		top, child, grandchild := newRun("top", 0), newRun("child", 1), newRun("grandchild", 2)
		top.ConversationID, child.ParentID, child.ConversationID = "local/a", "top", "helper/1"
		grandchild.ParentID = "child"
		stranger, strangersChild := newRun("stranger", 0), newRun("strangerschild", 0)
		stranger.ConversationID, strangersChild.ParentID = "local/b", "stranger"
		insert(t, s, top, child, grandchild, stranger, strangersChild, newRun("nobody", 0))
		got := claims(t, s, func(c *store.Claim) { c.Only = "local/a" })
		same(t, "family", got, []string{"top", "child", "grandchild"})
	},
	"a run of a kind that the claimer cannot do stays": func(t *testing.T, home Home, s store.Store) {
		other := newRun("other", 0)
		other.Kind = "future"
		insert(t, s, other, newRun("turn", 1))
		can := func(kinds ...string) func(*store.Claim) { return func(c *store.Claim) { c.Kinds = kinds } }
		same(t, "turns", claims(t, s, can("turn", "learn")), []string{"turn"})
		same(t, "the rest", claims(t, s, can("future")), []string{"other"})
	},
	"eight claimers take every run once": func(t *testing.T, home Home, s store.Store) {
		const total, keys = 120, 6
		var rows []mercury.Run
		for i := range total {
			r := newRun(fmt.Sprintf("run_%03d", i), i)
			if i%2 == 0 {
				r.Key = fmt.Sprint("k", i%keys)
			}
			rows = append(rows, r)
		}
		insert(t, s, rows...)
		var mu sync.Mutex
		taken, inHand := map[string]int{}, map[string]string{}
		var wg sync.WaitGroup
		for w := range 8 {
			st := s
			if home.Shared && w%2 == 1 {
				st = home.Open(t)
			}
			wg.Go(func() {
				idle := 0
				for idle < 200 {
					var r mercury.Run
					err := st.Update(context.Background(), func(tx store.Tx) (err error) {
						r, err = tx.Claim(store.Claim{Owner: fmt.Sprint(w), Lane: mercury.Chat})
						return err
					})
					if errors.Is(err, store.ErrNotFound) {
						mu.Lock()
						done := len(taken) == total
						mu.Unlock()
						if done {
							return
						}
						idle++
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					idle = 0
					mu.Lock()
					taken[r.ID]++
					if other := inHand[r.Key]; r.Key != "" && other != "" {
						t.Errorf("%s and %s of key %s at once", other, r.ID, r.Key)
					}
					inHand[r.Key] = r.ID
					mu.Unlock()
					mu.Lock()
					inHand[r.Key] = ""
					mu.Unlock()
					r.State = mercury.RunDone
					if err := st.Update(context.Background(), func(tx store.Tx) error { return tx.SaveRun(r) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		left := claims(t, s)
		for _, id := range left { // a claimer may have given up while others held the keys
			taken[id]++
			park(t, s, id, mercury.RunDone)
		}
		for id, n := range taken {
			if n != 1 {
				t.Errorf("%s was taken %d times", id, n)
			}
		}
	},
}

func park(t testing.TB, s store.Store, id string, state mercury.RunState) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		r, err := tx.LockRun(id)
		if err != nil {
			return err
		}
		r.State = state
		return tx.SaveRun(r)
	})
}
