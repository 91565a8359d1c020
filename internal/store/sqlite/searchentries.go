package sqlite

import (
	"context"
	"strings"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
	"github.com/mercury-agent/mercury/internal/words"
)

// Entries returns entries with the words, as far as IndexEntries has come.
func (s *search) Entries(_ *sqlstore.Tx, q store.EntryQuery) (_ []store.EntryHit, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heal(err) }()
	if err := s.open(); err != nil {
		return nil, err
	}
	name, args := "entry.find", []any{match(q.Words, ""), q.Before}
	if q.Conversation != "" {
		name, args = name+".in", append(args, q.Conversation)
	}
	rows, err := s.c.QueryContext(context.Background(), searchQueries()[name], append(args, q.Limit)...)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var hits []store.EntryHit
	for rows.Next() {
		var h store.EntryHit
		if err := rows.Scan(&h.N, &h.ConversationID, &h.Seq); err != nil {
			return nil, classify(err)
		}
		hits = append(hits, h)
	}
	return hits, classify(rows.Err())
}

// IndexEntries takes further entries in.
func (s *search) IndexEntries(tx *sqlstore.Tx, limit int) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heal(err) }()
	if err := s.open(); err != nil {
		return false, err
	}
	marks, err := s.entryMarks()
	if err != nil {
		return false, err
	}
	lasts, err := tx.Lasts()
	if err != nil {
		return false, err
	}
	for _, l := range lasts {
		if marks[l.ID] > l.To {
			// A database that is younger than the index took its place.
			return true, s.remove()
		}
	}
	left := limit
	err = s.atomic(func() error {
		for _, l := range lasts {
			for at := max(marks[l.ID], l.From); at < l.To; {
				if left <= 0 {
					more = true
					return nil
				}
				entries, err := tx.OwnEntries(l.ID, at, min(left, indexBatch))
				if err != nil {
					return err
				}
				if len(entries) == 0 {
					break
				}
				for _, e := range entries {
					if err := s.putEntry(l.ID, e.Seq, words.Tokens(sqlstore.Said(e))); err != nil {
						return err
					}
				}
				at = entries[len(entries)-1].Seq
				left -= len(entries)
				if err := s.exec("entry.mark", l.ID, at); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return more, err
}

func (s *search) putEntry(conversation string, seq int64, forms []string) error {
	if len(forms) == 0 {
		return nil
	}
	n, err := s.insert("entry.place", conversation, seq)
	if err != nil {
		return err
	}
	return s.exec("entry.put", n, strings.Join(forms, " "))
}

func (s *search) entryMarks() (map[string]int64, error) {
	rows, err := s.c.QueryContext(context.Background(), searchQueries()["entry.marks"])
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	marks := map[string]int64{}
	for rows.Next() {
		var id string
		var seq int64
		if err := rows.Scan(&id, &seq); err != nil {
			return nil, classify(err)
		}
		marks[id] = seq
	}
	return marks, classify(rows.Err())
}
