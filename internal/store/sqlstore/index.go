package sqlstore

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

// An Index finds rows by their words in a file beside the database. It may be
// behind; what it returns is looked up in the rows.
type Index interface {
	// CatchUp takes in what a view can see, and returns the change up to which
	// the index holds everything.
	CatchUp(tx *Tx) (rev int64, err error)
	// Memories returns the numbers of live memories of a scope and layer that
	// hold one form of each of the words, those made last first. rev is what
	// CatchUp returned.
	Memories(tx *Tx, rev int64, scope string, subconscious bool, words [][]string, limit int) ([]int64, error)
	Entries(tx *Tx, q store.EntryQuery) ([]store.EntryHit, error)
	IndexEntries(tx *Tx, limit int) (more bool, err error)
}

// WithIndex returns tx, finding words through i.
func (tx *Tx) WithIndex(i Index) *Tx {
	tx.index = i
	return tx
}

// ReadOnly reports whether the transaction is a view, whose rows are all
// committed.
func (tx *Tx) ReadOnly() bool { return tx.readOnly }

// How many of the memories that hold a word are looked at, those made last
// first; and in how many pairs of common words memories that hold both are
// looked for.
const (
	perWord = 64
	pairs   = 2
)

// indexed is the change up to which the index holds everything, after it has
// caught up if it is wanted. What a view sees stays the same: it catches up once.
func (tx *Tx) indexed(wanted bool) (rev int64, err error) {
	if tx.index == nil || !wanted || tx.caughtUp {
		return tx.rev, nil
	}
	if rev, err = tx.index.CatchUp(tx); err == nil && tx.readOnly {
		tx.rev, tx.caughtUp = rev, true
	}
	return rev, err
}

func (tx *Tx) MemoriesWith(q store.MemoryQuery) ([]store.Memory, error) {
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 20
	}
	rev, err := tx.indexed(len(q.Words) > 0)
	if err != nil {
		return nil, err
	}
	weight := map[int64]float64{}
	var common [][]string
	for _, w := range q.Words {
		hits, err := tx.memoryNumbers(q, rev, [][]string{w}, perWord)
		if err != nil {
			return nil, err
		}
		if len(hits) == perWord {
			common = append(common, w)
		}
		// The rarer a word, the more it tells.
		for _, n := range hits {
			weight[n] += 1 / math.Sqrt(float64(len(hits)))
		}
	}
	if len(common) < len(q.Words) {
		common = nil // rarer words have told enough
	}
	for i := 0; i+1 < len(common) && i < pairs; i++ {
		hits, err := tx.memoryNumbers(q, rev, common[i:i+2], q.Limit)
		if err != nil {
			return nil, err
		}
		for _, n := range hits {
			weight[n] = max(weight[n], 2/math.Sqrt(perWord))
		}
	}
	numbers := slices.Collect(maps.Keys(weight))
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(b, a)) })
	return tx.byNumber(q, numbers[:min(len(numbers), q.Limit)])
}

func (tx *Tx) memoryNumbers(q store.MemoryQuery, rev int64, words [][]string, limit int) ([]int64, error) {
	if len(words[0]) == 0 {
		return nil, nil
	}
	if tx.index != nil {
		return tx.index.Memories(tx, rev, q.Scope, q.Subconscious, words, limit)
	}
	rows, err := tx.query("memory.words", tsquery(words), q.Scope, flag(q.Subconscious), limit)
	return all(tx, rows, err, scanHit)
}

func scanHit(s scanner) (int64, error) {
	var n int64
	err := s.Scan(&n)
	return n, err
}

// byNumber reads the memories of these numbers, in this order. The index may
// be behind a change, so what they are is looked at again.
func (tx *Tx) byNumber(q store.MemoryQuery, numbers []int64) ([]store.Memory, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = n
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(args)), ", ")
	rows, err := tx.queryText(strings.Replace(tx.dialect.query("memory.numbers"), "?", marks, 1), args...)
	found, err := all(tx, rows, err, numberedRow(scanMemory))
	found = slices.DeleteFunc(found, func(r numbered[store.Memory]) bool {
		return r.row.Scope != q.Scope || (r.row.Tier == store.TierSubconscious) != q.Subconscious
	})
	slices.SortFunc(found, func(a, b numbered[store.Memory]) int {
		return cmp.Compare(slices.Index(numbers, a.n), slices.Index(numbers, b.n))
	})
	var out []store.Memory
	for _, r := range found {
		out = append(out, r.row)
	}
	return out, err
}

// tsquery is words as PostgreSQL writes a query, each form quoted.
func tsquery(words [][]string) string {
	quote := strings.NewReplacer(`\`, `\\`, "'", "''")
	all := make([]string, len(words))
	for i, forms := range words {
		any := make([]string, len(forms))
		for j, f := range forms {
			any[j] = "'" + quote.Replace(f) + "'"
		}
		all[i] = "(" + strings.Join(any, " | ") + ")"
	}
	return strings.Join(all, " & ")
}

func (tx *Tx) EntriesWith(q store.EntryQuery) ([]store.EntryHit, error) {
	if len(q.Words) == 0 || slices.ContainsFunc(q.Words, func(forms []string) bool { return len(forms) == 0 }) {
		return nil, nil
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	if q.Before <= 0 {
		q.Before = math.MaxInt64
	}
	if tx.index != nil {
		return tx.index.Entries(tx, q)
	}
	rows, err := tx.query("entry.words", tsquery(q.Words), q.Conversation, q.Conversation, q.Before, q.Limit)
	return all(tx, rows, err, func(s scanner) (store.EntryHit, error) {
		var h store.EntryHit
		err := s.Scan(&h.N, &h.ConversationID, &h.Seq)
		return h, err
	})
}

func (tx *Tx) IndexEntries(limit int) (more bool, err error) {
	if tx.index != nil {
		return tx.index.IndexEntries(tx, limit)
	}
	for left := limit; left > 0; {
		var id string
		var mark int64
		switch err := tx.one("entry.behind", nil, &id, &mark); {
		case errors.Is(err, store.ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		}
		entries, err := tx.OwnEntries(id, mark, left)
		if err != nil {
			return false, err
		}
		c, err := tx.LockConversation(id)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			mark = e.Seq
			if forms := words.Tokens(Said(e)); len(forms) > 0 {
				if _, err := tx.exec("entry.index", id, e.Seq, strings.Join(forms, " ")); err != nil {
					return false, err
				}
			}
		}
		if len(entries) == 0 {
			mark = c.LastSeq
		}
		if _, err := tx.exec("entry.mark", id, mark); err != nil {
			return false, err
		}
		left -= max(1, len(entries))
	}
	return true, nil
}

// OwnEntries returns a conversation's own entries after a seq, without what a
// fork shares with its parent.
func (tx *Tx) OwnEntries(id string, after int64, limit int) ([]mercury.Entry, error) {
	rows, err := tx.query("entry.after", id, after, int64(math.MaxInt64), limit)
	return all(tx, rows, err, scanEntry)
}

// Said is what of an entry people can search for: what they and Mercury said,
// not what tools printed nor the echo of commands.
func Said(e mercury.Entry) string {
	switch e.Kind {
	case mercury.UserEntry, mercury.AssistantEntry, mercury.SummaryEntry:
		return e.Text
	case mercury.NoteEntry:
		if !e.Hidden {
			return e.Text
		}
	}
	return ""
}

// A ChangedMemory is a memory as an index needs it.
type ChangedMemory struct {
	N, Rev             int64
	Scope, Tier, State string
	Text               string
}

// MemoriesSince returns what changed after rev, in order of change.
func (tx *Tx) MemoriesSince(rev int64, limit int) ([]ChangedMemory, error) {
	rows, err := tx.query("memory.since", rev, limit)
	return all(tx, rows, err, func(s scanner) (ChangedMemory, error) {
		var m ChangedMemory
		var summary, detail string
		err := s.Scan(&m.N, &m.Rev, &m.Scope, &m.Tier, &m.State, &summary, &detail)
		m.Text = summary + "\n" + detail
		return m, err
	})
}

// fresh are the memories that an index does not hold yet, as read so far.
type fresh struct {
	from, rev int64 // changes after from, up to rev
	list      map[int64]FreshMemory
}

// A FreshMemory is one that an index does not hold as it is.
type FreshMemory struct {
	ChangedMemory
	Forms map[string]bool
}

// freshBatch is how many changes are read at once.
const freshBatch = 1000

// Fresh returns the memories that changed after rev, by number, this
// transaction's own changes among them. What was read once is kept until the
// transaction ends.
func (tx *Tx) Fresh(rev int64) (map[int64]FreshMemory, error) {
	f := &tx.fresh
	if f.list == nil || f.from != rev {
		*f = fresh{from: rev, rev: rev, list: map[int64]FreshMemory{}}
	}
	for {
		changed, err := tx.MemoriesSince(f.rev, freshBatch)
		if err != nil {
			return nil, err
		}
		for _, m := range changed {
			f.rev = m.Rev
			forms := map[string]bool{}
			for _, form := range words.Tokens(m.Text) {
				forms[form] = true
			}
			f.list[m.N] = FreshMemory{m, forms}
		}
		if len(changed) < freshBatch {
			return f.list, nil
		}
	}
}

// LastRev is the newest change of a memory.
func (tx *Tx) LastRev() (int64, error) {
	var n int64
	err := tx.one("memory.lastrev", nil, &n)
	return n, err
}

// A Last is how far a conversation's own entries reach.
type Last struct {
	ID       string
	From, To int64
}

// Lasts lists all conversations.
func (tx *Tx) Lasts() ([]Last, error) {
	rows, err := tx.query("entry.lasts")
	return all(tx, rows, err, func(s scanner) (Last, error) {
		var l Last
		err := s.Scan(&l.ID, &l.From, &l.To)
		return l, err
	})
}
