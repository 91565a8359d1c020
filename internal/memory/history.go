package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

// historyPages bounds how many pages of hits are looked through for one that
// the person may see.
const historyPages = 20

// IndexBatch is how many entries one transaction makes findable.
const IndexBatch = 500

// A Reader says what of all conversations somebody may look through.
type Reader struct {
	Actor        mercury.Actor
	Conversation string // where the question is asked
}

// sees reports whether an entry is the reader's to see: the owner and admins
// see everything when they are alone with Mercury; elsewhere and for others it
// is the conversation in which they ask, and what they wrote, or were answered,
// alone with Mercury.
func (r Reader) sees(tx store.Tx, e mercury.Entry) (bool, error) {
	if e.ConversationID == r.Conversation {
		return true, nil
	}
	alone := Private(r.Actor, r.Conversation)
	if !alone {
		return false, nil
	}
	if r.Actor.Trusted() || r.Actor.Role == mercury.Schedule {
		return true, nil
	}
	if e.Kind == mercury.UserEntry {
		return e.Actor.ID == r.Actor.ID && e.Actor.Channel == r.Actor.Channel, nil
	}
	run, err := tx.Run(e.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whose answer it is: %w", err)
	}
	return run.Actor.ID == r.Actor.ID && run.Actor.Channel == r.Actor.Channel, nil
}

// History returns entries that hold the words of a text, newest first: all of
// them, or where nothing has all, as many as possible. Entries that a summary
// or a fresh start hides from the model are among them. Index must have come
// far enough; see IndexBatch.
func History(tx store.Tx, r Reader, text, conversation string, limit int) ([]mercury.Entry, error) {
	var query [][]string
	for _, w := range words.Of(text) {
		if !w.Stop && !w.Part {
			query = append(query, w.Forms)
		}
	}
	if len(query) == 0 { // nothing but common words: then these
		for _, w := range words.Of(text) {
			if !w.Part {
				query = append(query, w.Forms)
			}
		}
	}
	query = query[:min(len(query), queryWords)]
	if len(query) == 0 {
		return nil, nil
	}
	found, err := r.page(tx, store.EntryQuery{Words: query, Conversation: conversation, Limit: max(limit, 50)}, limit)
	if err != nil || len(found) > 0 || len(query) == 1 {
		return found, err
	}
	// Nothing holds all of them: what holds any, those with the most first.
	return r.any(tx, query, conversation, limit)
}

func (r Reader) page(tx store.Tx, q store.EntryQuery, limit int) ([]mercury.Entry, error) {
	var out []mercury.Entry
	for range historyPages {
		hits, err := tx.EntriesWith(q)
		if err != nil {
			return nil, fmt.Errorf("search history: %w", err)
		}
		for _, h := range hits {
			q.Before = h.N
			list, err := tx.Entries(h.ConversationID, h.Seq-1, 1)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read entry: %w", err)
			}
			if len(list) == 0 || list[0].Seq != h.Seq {
				continue
			}
			ok, err := r.sees(tx, list[0])
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, list[0])
			}
			if len(out) == limit {
				return out, nil
			}
		}
		if len(hits) < q.Limit {
			break
		}
	}
	return out, nil
}

// any finds entries that hold some of the words.
func (r Reader) any(tx store.Tx, query [][]string, conversation string, limit int) ([]mercury.Entry, error) {
	count := map[string]int{}
	var all []mercury.Entry
	for _, w := range query {
		found, err := r.page(tx, store.EntryQuery{Words: [][]string{w}, Conversation: conversation, Limit: 100}, 100)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if count[e.ID]++; count[e.ID] == 1 {
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mercury.Entry) int {
		if count[a.ID] != count[b.ID] {
			return count[b.ID] - count[a.ID]
		}
		return b.At.Compare(a.At)
	})
	return all[:min(len(all), limit)], nil
}
