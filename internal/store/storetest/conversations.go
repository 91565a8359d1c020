package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

var conversationTests = map[string]func(*testing.T, Home, store.Store){
	"a conversation is read as it was written": func(t *testing.T, _ Home, s store.Store) {
		c := mercury.Conversation{ID: "telegram/1", Kind: "chat", Title: "Ünïcode ☕", Profile: "p", Head: 3,
			Mode: "ask", ModeUntil: at(9), CreatedAt: at(1), UpdatedAt: at(2)}
		update(t, s, func(tx store.Tx) error { return tx.InsertConversation(c) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertConversation(c) })
		c.Title, c.Mode, c.Head, c.UpdatedAt = "other", "guided", 7, at(5)
		changed := c
		changed.LastSeq, changed.CreatedAt = 99, at(99) // must not be written
		update(t, s, func(tx store.Tx) error { return tx.SaveConversation(changed) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Conversation(c.ID)
			same(t, "conversation", got, c)
			return err
		})
		update(t, s, func(tx store.Tx) error {
			got, err := tx.LockConversation(c.ID)
			same(t, "locked", got, c)
			return err
		})
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.LockConversation("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Conversation("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error {
			return tx.SaveConversation(mercury.Conversation{ID: "x"})
		})
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error {
			_, err := tx.Append("x", mercury.Entry{Text: "lost"})
			return err
		})
	},
	"conversations are listed newest activity first, in pages": func(t *testing.T, _ Home, s store.Store) {
		for i, n := range []int{3, 1, 2, 2, 5} {
			c := mercury.Conversation{ID: fmt.Sprint("local/", i), CreatedAt: at(0), UpdatedAt: at(n)}
			update(t, s, func(tx store.Tx) error { return tx.InsertConversation(c) })
		}
		var got []string
		page := store.Page{Limit: 2}
		for {
			view(t, s, func(tx store.Tx) error {
				list, next, err := tx.Conversations(page)
				got = append(got, ids(list, func(c mercury.Conversation) string { return c.ID })...)
				page.After = next
				return err
			})
			if page.After == "" {
				break
			}
		}
		same(t, "list", got, []string{"local/4", "local/0", "local/2", "local/3", "local/1"})
		update(t, s, func(tx store.Tx) error { _, err := tx.Append("local/1", mercury.Entry{Text: "x"}); return err })
		view(t, s, func(tx store.Tx) error {
			list, _, err := tx.Conversations(store.Page{Limit: 1})
			same(t, "newest", list[0].ID, "local/1")
			return err
		})
		err := s.View(t.Context(), func(tx store.Tx) error {
			_, _, err := tx.Conversations(store.Page{After: "nonsense"})
			return err
		})
		same(t, "kind of a bad cursor", mercury.KindOf(err), mercury.Invalid)
	},
	"entries keep everything and their order": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		e := mercury.Entry{ID: "en_1", Kind: mercury.ToolResultEntry, RunID: "run_1", Round: 4, CallID: "c1",
			Actor: owner, Text: "text", Data: json.RawMessage(`{"a": [1,  2]}`), Hidden: true,
			Taint: []string{"web:x"}, At: at(3)}
		var wrote []mercury.Entry
		update(t, s, func(tx store.Tx) (err error) {
			wrote, err = tx.Append("local/a", e, mercury.Entry{Text: "second"})
			return err
		})
		e.ConversationID, e.Seq = "local/a", 1
		same(t, "first", wrote[0], e)
		if wrote[1].Seq != 2 || wrote[1].ID == "" || wrote[1].At.IsZero() {
			t.Errorf("second lacks what append fills in: %+v", wrote[1])
		}
		view(t, s, func(tx store.Tx) error {
			list, err := tx.Entries("local/a", 0, 0)
			same(t, "entries", list, wrote)
			one, err2 := tx.Entry("en_1")
			same(t, "entry", one, e)
			c, err3 := tx.Conversation("local/a")
			same(t, "last", c.LastSeq, int64(2))
			if _, err := tx.Entry("nope"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("unknown entry: %v", err)
			}
			return errors.Join(err, err2, err3)
		})
	},
	"entries are paged from both ends": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		say(t, s, "local/a", "1", "2", "3", "4", "5")
		expectEntries(t, s, "local/a", []string{"1", "2", "3", "4", "5"}, func(tx store.Tx) ([]mercury.Entry, error) {
			return tx.Entries("local/a", 0, 0)
		})
		expectEntries(t, s, "local/a", []string{"3", "4"}, func(tx store.Tx) ([]mercury.Entry, error) {
			return tx.Entries("local/a", 2, 2)
		})
		expectEntries(t, s, "local/a", []string{"4", "5"}, func(tx store.Tx) ([]mercury.Entry, error) {
			return tx.EntriesBefore("local/a", 0, 2)
		})
		expectEntries(t, s, "local/a", []string{"2", "3"}, func(tx store.Tx) ([]mercury.Entry, error) {
			return tx.EntriesBefore("local/a", 4, 2)
		})
		expectEntries(t, s, "local/a", []string{}, func(tx store.Tx) ([]mercury.Entry, error) {
			return tx.Entries("local/a", 5, 0)
		})
	},
	"a fork shows its parent's entries up to the fork": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		say(t, s, "local/a", "a1", "a2", "a3")
		fork := func(id, parent string, seq int64) {
			update(t, s, func(tx store.Tx) error {
				return tx.InsertConversation(mercury.Conversation{ID: id, Kind: "fork", ParentID: parent, ForkSeq: seq})
			})
		}
		fork("local/b", "local/a", 2)
		say(t, s, "local/a", "a4")
		say(t, s, "local/b", "b3", "b4")
		fork("local/c", "local/b", 3)
		say(t, s, "local/c", "c4")
		fork("local/d", "local/c", 1) // forks where only the grandparent has entries
		say(t, s, "local/d", "d2")
		for id, want := range map[string][]string{
			"local/a": {"a1", "a2", "a3", "a4"},
			"local/b": {"a1", "a2", "b3", "b4"},
			"local/c": {"a1", "a2", "b3", "c4"},
			"local/d": {"a1", "d2"},
		} {
			expectEntries(t, s, id, want, func(tx store.Tx) ([]mercury.Entry, error) { return tx.Entries(id, 0, 0) })
			for n := 1; n <= len(want); n++ {
				expectEntries(t, s, id, want[len(want)-n:], func(tx store.Tx) ([]mercury.Entry, error) {
					return tx.EntriesBefore(id, 0, n)
				})
				expectEntries(t, s, id, want[n:], func(tx store.Tx) ([]mercury.Entry, error) {
					return tx.Entries(id, int64(n), 0)
				})
			}
		}
	},
	"seq is dense under eight writers": func(t *testing.T, home Home, s store.Store) {
		const writers, each = 8, 20
		conversation(t, s, "local/a")
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					err := s.Update(context.Background(), func(tx store.Tx) error {
						if _, err := tx.LockConversation("local/a"); err != nil {
							return err
						}
						_, err := tx.Append("local/a", mercury.Entry{Text: fmt.Sprint(w, ".", i)}, mercury.Entry{})
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		view(t, s, func(tx store.Tx) error {
			list, err := tx.Entries("local/a", 0, 0)
			same(t, "number of entries", len(list), writers*each*2)
			for i, e := range list {
				if e.Seq != int64(i+1) {
					t.Fatalf("entry %d has seq %d", i, e.Seq)
				}
			}
			return err
		})
	},
	"two that insert one conversation at once: one wins": func(t *testing.T, _ Home, s store.Store) {
		for round := range 10 {
			got := race(8, func(int) error {
				return s.Update(context.Background(), func(tx store.Tx) error {
					return tx.InsertConversation(mercury.Conversation{ID: fmt.Sprint("local/", round)})
				})
			})
			oneWins(t, got)
		}
	},
}

// race runs fn n times at once and returns the outcomes.
func race(n int, fn func(int) error) []error {
	out := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

// oneWins checks that one of the outcomes is nil and the others ErrExists.
func oneWins(t *testing.T, outcomes []error) {
	t.Helper()
	wins := 0
	for _, err := range outcomes {
		switch {
		case err == nil:
			wins++
		case !errors.Is(err, store.ErrExists):
			t.Errorf("got %v, want ErrExists", err)
		}
	}
	same(t, "winners", wins, 1)
}

func say(t *testing.T, s store.Store, id string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		update(t, s, func(tx store.Tx) error { _, err := tx.Append(id, mercury.Entry{Text: text}); return err })
	}
}

func expectEntries(t *testing.T, s store.Store, id string, want []string, read func(store.Tx) ([]mercury.Entry, error)) {
	t.Helper()
	view(t, s, func(tx store.Tx) error {
		list, err := read(tx)
		if got := ids(list, entryText); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
		return err
	})
}
