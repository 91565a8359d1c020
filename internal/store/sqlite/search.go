package sqlite

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
	"github.com/mercury-agent/mercury/internal/words"
)

// SearchName is the file of the index by words. It may be deleted while
// Mercury does not run, and must be when another database takes the place of
// the one it was made from; it is made anew when something is looked for.
const SearchName = "search.db"

//go:embed search.sql
var searchText string

var searchQueries = sync.OnceValue(func() map[string]string {
	q, err := sqlstore.Queries(searchText)
	if err != nil {
		panic("sqlite: search.sql: " + err.Error())
	}
	return q
})

// indexBatch is how many rows are taken into the index at once, while searches
// wait.
const indexBatch = 1000

// manyBatches is from how many batches on the pieces they leave are made one:
// each search looks into every piece.
const manyBatches = 4

// A search is the index by words. It is opened when first used and catches up
// with the database before it answers a view. Inside an Update nothing is
// written to it, since that transaction may still be rolled back: what it does
// not hold yet is looked at row by row.
type search struct {
	path string

	mu     sync.Mutex
	c      *conn
	scopes map[string]int64
}

var _ sqlstore.Index = (*search)(nil)

// open opens the index, or makes it; one that cannot be read is made anew. The
// lock is held.
func (s *search) open() error {
	if s.c != nil {
		return nil
	}
	err := s.connect()
	if err == nil {
		return nil
	}
	if err := s.remove(); err != nil {
		return fmt.Errorf("make the search index anew: %w", err)
	}
	return s.connect()
}

func (s *search) connect() error {
	c, err := dial(s.path, "page_size(4096)", "journal_mode(WAL)", "synchronous(NORMAL)", "journal_size_limit(4194304)", "cache_size(-2000)")
	if err != nil {
		return fmt.Errorf("open the search index: %w", err)
	}
	for statement := range strings.SplitSeq(searchQueries()["schema"], ";\n") {
		if err := c.once(statement); err != nil {
			c.close()
			return fmt.Errorf("open the search index: %w", err)
		}
	}
	s.c, s.scopes = c, map[string]int64{}
	return os.Chmod(s.path, 0o600)
}

// heal does away with an index that turned out to be damaged, so that the next
// search makes it anew. The lock is held.
func (s *search) heal(err error) {
	if errors.Is(err, store.ErrDamaged) {
		_ = s.remove() // if it cannot be removed, that is said next time
	}
}

func (s *search) remove() error {
	if s.c != nil {
		s.c.close()
		s.c = nil
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return osError(err)
		}
	}
	return nil
}

func (s *search) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return nil
	}
	c := s.c
	s.c = nil
	return c.close()
}

// Memories returns the numbers of memories with one form of each word.
func (s *search) Memories(tx *sqlstore.Tx, rev int64, scope string, subconscious bool, words [][]string, limit int) (found []int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heal(err) }()
	var hits []int64
	if s.c != nil { // else CatchUp found nothing to look for
		number, known, err := s.scope(scope, false)
		if err != nil {
			return nil, err
		}
		if known {
			if hits, err = numbers(s.c, "memory.find", match(words, mark(number, subconscious)), limit); err != nil {
				return nil, err
			}
		}
	}
	if tx.ReadOnly() {
		return hits, nil
	}
	return unindexed(tx, rev, scope, subconscious, words, hits, limit)
}

// unindexed adds what the transaction holds and the index does not.
func unindexed(tx *sqlstore.Tx, rev int64, scope string, subconscious bool, query [][]string, hits []int64, limit int) ([]int64, error) {
	fresh, err := tx.Fresh(rev)
	if err != nil || len(fresh) == 0 {
		return hits, err
	}
	hits = slices.DeleteFunc(hits, func(n int64) bool { _, ok := fresh[n]; return ok })
	for n, m := range fresh {
		if m.Scope == scope && m.State == store.MemoryLive && (m.Tier == store.TierSubconscious) == subconscious && holds(m.Forms, query) {
			hits = append(hits, n)
		}
	}
	slices.SortFunc(hits, func(a, b int64) int { return cmp.Compare(b, a) })
	return hits[:min(len(hits), limit)], nil
}

// holds reports whether a text has one form of each word.
func holds(held map[string]bool, query [][]string) bool {
	for _, forms := range query {
		if !slices.ContainsFunc(forms, func(f string) bool { return held[f] }) {
			return false
		}
	}
	return true
}

// CatchUp opens the index and, for a view, takes in what its snapshot has
// besides. It returns the last change the index holds.
func (s *search) CatchUp(tx *sqlstore.Tx) (_ int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heal(err) }()
	for batches := 0; ; {
		last, err := tx.LastRev()
		if err != nil {
			return 0, err
		}
		if last == 0 && s.c == nil {
			return 0, nil // nothing was ever remembered: there is no index to open
		}
		if err := s.open(); err != nil {
			return 0, err
		}
		rev, err := s.number("memory/rev")
		if err != nil {
			return 0, err
		}
		cleared, err := tx.Cleared()
		if err != nil {
			return 0, err
		}
		known, err := s.value("memory/cleared")
		if err != nil {
			return 0, err
		}
		if tx.ReadOnly() && (known != cleared || rev > last) {
			if rev > 0 {
				// Another database, or memories deleted for good: no word of
				// them stays.
				if err := s.remove(); err != nil {
					return 0, err
				}
				if err := s.open(); err != nil {
					return 0, err
				}
			}
			if err := s.set("memory/cleared", cleared); err != nil {
				return 0, err
			}
			continue
		}
		if !tx.ReadOnly() && known != cleared {
			return 0, nil // its hits are of what is gone; all rows are looked at
		}
		if !tx.ReadOnly() || last <= rev {
			if batches >= manyBatches {
				return rev, s.exec("memory.optimize")
			}
			return rev, nil
		}
		if err := s.batch(tx, rev); err != nil {
			return 0, err
		}
		batches++
		s.mu.Unlock() // others may look for something meanwhile
		s.mu.Lock()
	}
}

// batch takes one batch of changed memories in.
func (s *search) batch(tx *sqlstore.Tx, rev int64) error {
	changed, err := tx.MemoriesSince(rev, indexBatch)
	if err != nil {
		return err
	}
	return s.atomic(func() error {
		for _, m := range changed {
			rev = m.Rev
			if m.State != store.MemoryLive {
				if err := s.exec("memory.drop", m.N); err != nil {
					return err
				}
				continue
			}
			scope, _, err := s.scope(m.Scope, true)
			if err != nil {
				return err
			}
			prefix := mark(scope, m.Tier == store.TierSubconscious)
			forms := words.Tokens(m.Text)
			for i, f := range forms {
				forms[i] = prefix + f
			}
			if err := s.exec("memory.put", m.N, strings.Join(forms, " ")); err != nil {
				return err
			}
		}
		return s.set("memory/rev", strconv.FormatInt(rev, 10))
	})
}

// mark stands before each form of a memory, so that a search reads nothing of
// other scopes and layers.
func mark(scope int64, subconscious bool) string {
	layer := "c"
	if subconscious {
		layer = "s"
	}
	return strconv.FormatInt(scope, 36) + layer + ":"
}

// match is a query as FTS5 writes it.
func match(words [][]string, prefix string) string {
	all := make([]string, len(words))
	for i, forms := range words {
		any := make([]string, len(forms))
		for j, f := range forms {
			any[j] = `"` + prefix + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
		all[i] = "(" + strings.Join(any, " OR ") + ")"
	}
	return strings.Join(all, " AND ")
}

// scope is the number of a scope's name.
func (s *search) scope(name string, add bool) (n int64, known bool, err error) {
	if n, ok := s.scopes[name]; ok {
		return n, true, nil
	}
	found, err := numbers(s.c, "scope.get", name)
	if err != nil {
		return 0, false, err
	}
	if len(found) == 0 {
		if !add {
			return 0, false, nil
		}
		id, err := s.insert("scope.add", name)
		if err != nil {
			return 0, false, err
		}
		found = []int64{id}
	}
	s.scopes[name] = found[0]
	return found[0], true, nil
}

// atomic runs fn in one transaction of the index.
func (s *search) atomic(fn func() error) error {
	if err := s.c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		err = s.c.run("COMMIT")
	}
	if err != nil {
		clear(s.scopes) // what was added to them is rolled back
		return errors.Join(err, s.c.run("ROLLBACK"))
	}
	return nil
}

func (s *search) exec(name string, args ...any) error {
	_, err := s.c.ExecContext(context.Background(), searchQueries()[name], args...)
	return classify(err)
}

func (s *search) insert(name string, args ...any) (int64, error) {
	res, err := s.c.ExecContext(context.Background(), searchQueries()[name], args...)
	if err != nil {
		return 0, classify(err)
	}
	return res.LastInsertId()
}

func (s *search) value(name string) (string, error) {
	rows, err := s.c.QueryContext(context.Background(), searchQueries()["mark.get"], name)
	if err != nil {
		return "", classify(err)
	}
	defer rows.Close()
	v := ""
	for rows.Next() {
		if err := rows.Scan(&v); err != nil {
			return "", classify(err)
		}
	}
	return v, classify(rows.Err())
}

func (s *search) number(name string) (int64, error) {
	v, err := s.value(name)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return math.MaxInt64, nil // nonsense: made anew
	}
	return n, nil
}

func (s *search) set(name, value string) error { return s.exec("mark.set", name, value) }

// numbers reads the first column of a query.
func numbers(c *conn, name string, args ...any) ([]int64, error) {
	rows, err := c.QueryContext(context.Background(), searchQueries()[name], args...)
	if err != nil {
		return nil, classify(err)
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, classify(err)
		}
		out = append(out, n)
	}
	return out, classify(rows.Err())
}
