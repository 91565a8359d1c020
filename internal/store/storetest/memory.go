package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

// fact is a live memory of scope owner.
func fact(id, summary string, n int) store.Memory {
	return store.Memory{ID: id, Scope: "owner", Kind: "preference", Summary: summary, Tier: store.TierDurable, State: store.MemoryLive,
		Confidence: 0.8, Importance: 0.5, Durability: 0.9, Evidence: 1, Learned: "direct", Actor: owner,
		CreatedAt: at(n), SeenAt: at(n), ChangedAt: at(n)}
}

func memoryID(m store.Memory) string { return m.ID }

func keep(t testing.TB, s store.Store, ms ...store.Memory) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		for _, m := range ms {
			if err := tx.InsertMemory(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// found are the ids of a scope's memories with any of the words.
func found(t testing.TB, s store.Store, q string, change func(*store.MemoryQuery)) []string {
	t.Helper()
	var out []string
	view(t, s, func(tx store.Tx) error {
		query := store.MemoryQuery{Words: forms(q), Scope: "owner"}
		if change != nil {
			change(&query)
		}
		ms, err := tx.MemoriesWith(query)
		out = ids(ms, memoryID)
		return err
	})
	return out
}

func forms(text string) [][]string {
	var out [][]string
	for _, w := range words.Of(text) {
		if !w.Part {
			out = append(out, w.Forms)
		}
	}
	return out
}

var memoryTests = map[string]func(*testing.T, Home, store.Store){
	"a memory comes back as it was": func(t *testing.T, _ Home, s store.Store) {
		m := fact("mem_1", "prefers oolong tea", 1)
		m.Detail, m.Rival, m.RunID, m.Taint = "from Taiwan", "mem_0", "run_1", []string{"web:x"}
		m.Sources = []store.MemorySource{{EntryID: "en_1", RunID: "run_1", Said: "likes oolong", At: at(0)}}
		keep(t, s, m)
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertMemory(m) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveMemory(store.Memory{ID: "mem_9"}) })
		check := func() {
			view(t, s, func(tx store.Tx) error {
				got, err := tx.Memory("mem_1")
				same(t, "memory", got, m)
				return err
			})
		}
		check()
		m.Summary, m.Tier, m.State, m.Evidence, m.SeenAt, m.Confidence = "prefers green tea", store.TierSubconscious, store.MemoryForgotten, 3, at(9), 0.25
		update(t, s, func(tx store.Tx) error { return tx.SaveMemory(m) })
		check()
	},
	"lists are of one scope, kind, tier and state, newest first": func(t *testing.T, _ Home, s store.Store) {
		a, b, c, d := fact("mem_a", "one fact", 1), fact("mem_b", "two facts", 2), fact("mem_c", "three", 3), fact("mem_d", "four", 4)
		b.Kind, c.State, d.Scope = "goal", store.MemoryForgotten, "person/telegram/7"
		keep(t, s, a, b, c, d)
		for _, tt := range []struct {
			f    store.MemoryFilter
			want []string
		}{
			{store.MemoryFilter{}, []string{"mem_d", "mem_b", "mem_a"}},
			{store.MemoryFilter{Scope: "owner"}, []string{"mem_b", "mem_a"}},
			{store.MemoryFilter{Scope: "owner", Kinds: []string{"goal", "habit"}}, []string{"mem_b"}},
			{store.MemoryFilter{Scope: "owner", States: []string{store.MemoryForgotten}}, []string{"mem_c"}},
			{store.MemoryFilter{Tiers: []string{store.TierSubconscious}}, []string{}},
		} {
			view(t, s, func(tx store.Tx) error {
				got, _, err := tx.Memories(tt.f)
				same(t, fmt.Sprintf("%+v", tt.f), ids(got, memoryID), tt.want)
				return err
			})
		}
		view(t, s, func(tx store.Tx) error {
			page, next, err := tx.Memories(store.MemoryFilter{Page: store.Page{Limit: 2}})
			rest, _, err2 := tx.Memories(store.MemoryFilter{Page: store.Page{Limit: 2, After: next}})
			same(t, "pages", [][]string{ids(page, memoryID), ids(rest, memoryID)}, [][]string{{"mem_d", "mem_b"}, {"mem_a"}})
			counts, err3 := tx.CountMemories("owner")
			same(t, "counts", counts, []store.MemoryCount{{Kind: "goal", Tier: "durable", State: "live", N: 1},
				{Kind: "preference", Tier: "durable", State: "forgotten", N: 1}, {Kind: "preference", Tier: "durable", State: "live", N: 1}})
			scopes, err4 := tx.MemoryScopes()
			same(t, "scopes", scopes, []string{"owner", "person/telegram/7"})
			return errors.Join(err, err2, err3, err4)
		})
	},
	"the weightiest and the longest unseen are found": func(t *testing.T, _ Home, s store.Store) {
		a, b, c := fact("mem_a", "one", 1), fact("mem_b", "two", 20), fact("mem_c", "three", 30)
		b.Importance, c.Tier = 0.9, store.TierSubconscious
		keep(t, s, a, b, c)
		view(t, s, func(tx store.Tx) error {
			best, err := tx.BestMemories("owner", []string{"preference"}, time.Time{}, 5)
			same(t, "best", ids(best, memoryID), []string{"mem_b", "mem_a"})
			recent, err2 := tx.BestMemories("owner", []string{"preference"}, at(10), 5)
			same(t, "recent", ids(recent, memoryID), []string{"mem_b"})
			stale, err3 := tx.StaleMemories("owner", at(10), 5)
			same(t, "stale", ids(stale, memoryID), []string{"mem_a"})
			return errors.Join(err, err2, err3)
		})
	},
	"words of any script find memories, and changes are seen at once": func(t *testing.T, _ Home, s store.Store) {
		a, b, c, d := fact("mem_a", "prefers oolong tea", 1), fact("mem_b", "用户喜欢乌龙茶", 2), fact("mem_c", "يحب القهوة العربية", 3), fact("mem_d", "trinkt gern Kräutertee", 4)
		keep(t, s, a, b, c, d)
		for q, want := range map[string][]string{"OOLONG?": {"mem_a"}, "乌龙": {"mem_b"}, "茶": {"mem_b"}, "قهوة": {"mem_c"},
			"Kraeutertee": {"mem_d"}, "whisky": {}, `"' OR *`: {}, "oolong قهوة": {"mem_c", "mem_a"}} {
			same(t, q, found(t, s, q, nil), want)
		}
		a.Summary, a.ChangedAt = "prefers black coffee", at(9)
		b.Tier, c.State = store.TierSubconscious, store.MemoryForgotten
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.SaveMemory(a), tx.SaveMemory(b), tx.SaveMemory(c)) })
		same(t, "former words", found(t, s, "oolong", nil), []string{})
		same(t, "new words", found(t, s, "coffee", nil), []string{"mem_a"})
		same(t, "another layer", found(t, s, "乌龙", nil), []string{})
		same(t, "its layer", found(t, s, "乌龙", func(q *store.MemoryQuery) { q.Subconscious = true }), []string{"mem_b"})
		same(t, "forgotten", found(t, s, "قهوة", nil), []string{})
	},
	"the rarest and the most words come first, however much is known": func(t *testing.T, _ Home, s store.Store) {
		var many []store.Memory
		for i := range 300 {
			many = append(many, fact(fmt.Sprintf("mem_%03d", i), fmt.Sprintf("drinks tea with guest %d", i), i))
		}
		many[7].Summary, many[9].Summary, many[250].Summary = "drinks oolong tea in spring", "plays the harp in spring", "drinks tea in winter"
		keep(t, s, many...)
		same(t, "first", found(t, s, "tea in spring, oolong", nil)[:3], []string{"mem_007", "mem_009", "mem_250"})
		same(t, "a pair of common words", found(t, s, "tea guest", func(q *store.MemoryQuery) { q.Limit = 1 }), []string{"mem_299"})
		same(t, "as many as asked for", len(found(t, s, "tea", nil)), 20)
	},
	"a transaction finds what it has just written, and a rolled back one leaves no trace": func(t *testing.T, _ Home, s store.Store) {
		keep(t, s, fact("mem_a", "prefers oolong tea", 1))
		same(t, "before", found(t, s, "tea", nil), []string{"mem_a"})
		stop := errors.New("stop")
		fails(t, s, stop, func(tx store.Tx) error {
			if err := tx.InsertMemory(fact("mem_b", "drinks green tea", 2)); err != nil {
				return err
			}
			got, err := tx.MemoriesWith(store.MemoryQuery{Words: forms("tea"), Scope: "owner"})
			same(t, "inside", ids(got, memoryID), []string{"mem_b", "mem_a"})
			return errors.Join(stop, err)
		})
		keep(t, s, fact("mem_c", "collects stamps", 3))
		same(t, "rolled back", found(t, s, "tea", nil), []string{"mem_a"})
		same(t, "written after it", found(t, s, "stamps", nil), []string{"mem_c"})
	},
	"one scope's memories are not found in another": func(t *testing.T, _ Home, s store.Store) {
		a, b := fact("mem_a", "prefers oolong tea", 1), fact("mem_b", "prefers oolong tea", 2)
		b.Scope = "person/telegram/7"
		keep(t, s, a, b)
		same(t, "owner", found(t, s, "oolong", nil), []string{"mem_a"})
		same(t, "other", found(t, s, "oolong", func(q *store.MemoryQuery) { q.Scope = b.Scope }), []string{"mem_b"})
		same(t, "nobody", found(t, s, "oolong", func(q *store.MemoryQuery) { q.Scope = "person/telegram/8" }), []string{})
	},
	"what is cleared is gone for good, and so is what could bring it back": func(t *testing.T, _ Home, s store.Store) {
		other := fact("mem_b", "prefers oolong tea", 2)
		other.Scope = "person/telegram/7"
		keep(t, s, fact("mem_a", "prefers oolong tea", 1), other)
		same(t, "before", found(t, s, "oolong", nil), []string{"mem_a"})
		update(t, s, func(tx store.Tx) error {
			if err := tx.PutUndo(store.UndoRow{ID: "un_1", RunID: "run_1", ConversationID: "local/a", Act: "memory", Path: "mem_a", Before: "secret"}); err != nil {
				return err
			}
			n, err := tx.ClearMemories("owner")
			same(t, "cleared", n, 1)
			return err
		})
		view(t, s, func(tx store.Tx) error {
			left, err := tx.UndoRows("run_1")
			same(t, "undo rows", len(left), 0)
			return err
		})
		same(t, "after", found(t, s, "oolong", nil), []string{})
		same(t, "of others", found(t, s, "oolong", func(q *store.MemoryQuery) { q.Scope = other.Scope }), []string{"mem_b"})
		keep(t, s, fact("mem_c", "prefers oolong tea", 3))
		same(t, "again", found(t, s, "oolong", nil), []string{"mem_c"})
	},
	"entries of every conversation are found once they are indexed": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		conversation(t, s, "telegram/7")
		update(t, s, func(tx store.Tx) error {
			_, err := tx.Append("local/a", mercury.Entry{Kind: mercury.UserEntry, Text: "where is the blue umbrella?"},
				mercury.Entry{Kind: mercury.ToolResultEntry, Text: "umbrella umbrella"},
				mercury.Entry{Kind: mercury.NoteEntry, Text: "umbrella", Hidden: true},
				mercury.Entry{Kind: mercury.AssistantEntry, Text: "雨伞在门边"})
			_, err2 := tx.Append("telegram/7", mercury.Entry{Kind: mercury.UserEntry, Text: "an umbrella, please"})
			return errors.Join(err, err2)
		})
		index := func() {
			for more := true; more; {
				update(t, s, func(tx store.Tx) (err error) {
					more, err = tx.IndexEntries(2)
					return err
				})
			}
		}
		hits := func(text, in string) []string {
			out := []string{}
			view(t, s, func(tx store.Tx) error {
				found, err := tx.EntriesWith(store.EntryQuery{Words: forms(text), Conversation: in})
				for _, h := range found {
					out = append(out, fmt.Sprintf("%s:%d", h.ConversationID, h.Seq))
				}
				return err
			})
			return out
		}
		index()
		same(t, "all", len(hits("umbrella", "")), 2)
		same(t, "of one", hits("umbrella", "local/a"), []string{"local/a:1"})
		same(t, "one character", hits("伞", ""), []string{"local/a:4"})
		update(t, s, func(tx store.Tx) error {
			if err := tx.InsertConversation(mercury.Conversation{ID: "local/fork", Kind: "fork", ParentID: "local/a", ForkSeq: 4}); err != nil {
				return err
			}
			_, err := tx.Append("local/fork", mercury.Entry{Kind: mercury.UserEntry, Text: "umbrella again"})
			return err
		})
		index()
		same(t, "a fork's own", hits("umbrella", "local/fork"), []string{"local/fork:5"})
		same(t, "all words", len(hits("blue umbrella", "")), 1)
		same(t, "newest first", hits("umbrella", "")[0], "local/fork:5")
		view(t, s, func(tx store.Tx) error {
			first, err := tx.EntriesWith(store.EntryQuery{Words: forms("umbrella"), Limit: 1})
			rest, err2 := tx.EntriesWith(store.EntryQuery{Words: forms("umbrella"), Before: first[0].N})
			same(t, "older ones", len(rest), 2)
			return errors.Join(err, err2)
		})
	},
	"an opened home finds what was kept before": func(t *testing.T, home Home, s store.Store) {
		keep(t, s, fact("mem_a", "prefers oolong tea", 1))
		same(t, "before", found(t, s, "oolong", nil), []string{"mem_a"})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := home.Open(t)
		defer again.Close()
		same(t, "after", found(t, again, "oolong", nil), []string{"mem_a"})
	},
	"the cost of a talk is summed by purpose": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error {
			return errors.Join(
				tx.PutLedger(store.LedgerRow{ID: "lg_1", ConversationID: "local/a", Purpose: "turn", State: "settled", Usage: mercury.Usage{Input: 10, Output: 1}, At: at(1)}),
				tx.PutLedger(store.LedgerRow{ID: "lg_2", ConversationID: "local/a", Purpose: "turn", State: "settled", Usage: mercury.Usage{Input: 20, Output: 2}, At: at(2)}),
				tx.PutLedger(store.LedgerRow{ID: "lg_3", ConversationID: "local/a", Purpose: "learn", State: "settled", Usage: mercury.Usage{Input: 1}, At: at(3)}),
				tx.PutLedger(store.LedgerRow{ID: "lg_4", ConversationID: "local/b", Purpose: "turn", State: "settled", Usage: mercury.Usage{Input: 100}, At: at(3)}))
		})
		view(t, s, func(tx store.Tx) error {
			sums, err := tx.TalkCost("local/a")
			got := map[string]int64{}
			for _, u := range sums {
				got[u.Group] = u.Usage.Input + u.Usage.Output
			}
			same(t, "cost", got, map[string]int64{"turn": 33, "learn": 1})
			return err
		})
	},
}
