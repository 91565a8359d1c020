package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// ColumnType is what both databases store alike.
type ColumnType string

// The types of columns: UTF-8 text, a 64-bit number, a 64-bit fraction, bytes.
const (
	TextColumn   ColumnType = "text"
	NumberColumn ColumnType = "number"
	RealColumn   ColumnType = "real"
	BytesColumn  ColumnType = "bytes"
)

// Column is one column of a table.
type Column struct {
	Name   string
	Type   ColumnType
	Key    int  // its place in the primary key, from 1; 0: not part of it
	Serial bool // the database counts it; a copy keeps the numbers
}

// Table is a table as the open database has it.
type Table struct {
	Name    string
	Columns []Column
}

// CopyMark is the fact that a copy of a database has and the original never: when
// it was made, RFC 3339. Empty text means that there is no mark.
const CopyMark = "copy"

// Portable is a store whose whole content can be carried into another one. Both
// drivers are.
type Portable interface {
	Store
	// Export runs fn on one snapshot, however long it takes.
	Export(ctx context.Context, fn func(Reader) error) error
	// Import runs fn once in one transaction, however long it takes: all of
	// what fn wrote is there afterwards, or nothing.
	Import(ctx context.Context, fn func(Writer) error) error
}

// Reader reads everything there is.
type Reader interface {
	Meta
	// Tables are the tables of the schema, by name. Contents too large for a
	// row are not among them: Contents has those. What only makes rows
	// findable is left out too: each database makes that anew.
	Tables() ([]Table, error)
	// Rows hands over every row of t in the order of its key: a string, an
	// int64, a float64 or a []byte a column. The slice is reused.
	Rows(t Table, each func(values []any) error) error
	// Contents hands over every blob.
	Contents(each func(ref string, content []byte) error) error
}

// Writer fills a database.
type Writer interface {
	Reader
	// Insert adds rows with the numbers they have.
	Insert(t Table, rows [][]any) error
	// Clear removes every row of t.
	Clear(t Table) error
	// Filled is to be called after the last Insert into t.
	Filled(t Table) error
	// PutContent keeps a blob.
	PutContent(ref string, content []byte) error
}

// Sum is what a table holds: the number of its rows and a SHA-256 over all of
// them in the order of the key, the same on every database.
type Sum struct {
	Table  string `json:"table"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// passing are the tables that only say who is alive now. Nobody is while a
// database is carried, so they stay empty on the other side.
var passing = []string{"lease", "process"}

// Unoccupied removes from a copy what says who was alive when it was made: rights
// that nobody can give back would keep whoever opens it from its channels.
func Unoccupied(tx Tx) error {
	w, ok := tx.(interface{ Clear(t Table) error })
	if !ok {
		return fmt.Errorf("clear tables: a %T cannot", tx)
	}
	for _, name := range passing {
		if err := w.Clear(Table{Name: name}); err != nil {
			return fmt.Errorf("clear table %s: %w", name, err)
		}
	}
	return nil
}

// Kept are the tables of r that outlive a process.
func Kept(r Reader) ([]Table, error) {
	all, err := r.Tables()
	return slices.DeleteFunc(all, func(t Table) bool { return slices.Contains(passing, t.Name) }), err
}

// batch is how many values one insertion has at most; both databases take more.
const batch = 3000

// Copy carries everything from one store into another, reads it back and
// compares. finish, if not nil, is called in the same transaction when both
// sides are equal. What to holds before must be what an unfinished or outdated
// copy left, which the caller knows: it is replaced.
func Copy(ctx context.Context, from, to Portable, finish func(Writer) error) ([]Sum, error) {
	var sums []Sum
	err := from.Export(ctx, func(r Reader) error {
		return to.Import(ctx, func(w Writer) (err error) {
			if sums, err = carry(ctx, r, w); err != nil || finish == nil {
				return err
			}
			return finish(w)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("copy database: %w", err)
	}
	return sums, nil
}

func carry(ctx context.Context, r Reader, w Writer) ([]Sum, error) {
	tables, err := Kept(r)
	if err != nil {
		return nil, err
	}
	there, err := Kept(w)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(tables, there, alike) {
		return nil, &mercury.Error{Kind: mercury.Setup, Err: errors.New("the two databases have different tables"),
			Help: "Start this Mercury once on each of them, so that both have its schema, then try again."}
	}
	var sums []Sum
	for _, t := range tables {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := carryTable(r, w, t)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		back, err := SumOf(w, t)
		if err != nil {
			return nil, fmt.Errorf("read back table %s: %w", t.Name, err)
		}
		if back != s {
			return nil, fmt.Errorf("table %s: %d rows went in and %d other ones came out", t.Name, s.Rows, back.Rows)
		}
		sums = append(sums, s)
	}
	return sums, carryContents(ctx, r, w)
}

// alike compares what a copy relies on; the order of columns may differ.
func alike(a, b Table) bool {
	byName := func(x, y Column) int { return cmp.Compare(x.Name, y.Name) }
	return a.Name == b.Name && slices.Equal(slices.SortedFunc(slices.Values(a.Columns), byName), slices.SortedFunc(slices.Values(b.Columns), byName))
}

func carryTable(r Reader, w Writer, t Table) (Sum, error) {
	if err := w.Clear(t); err != nil {
		return Sum{}, err
	}
	h := newSummer(t.Name)
	var rows [][]any
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := w.Insert(t, rows)
		rows = rows[:0]
		return err
	}
	err := r.Rows(t, func(values []any) error {
		h.add(values)
		rows = append(rows, slices.Clone(values))
		if len(rows)*len(t.Columns) < batch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = w.Filled(t)
	}
	return h.sum(), err
}

func carryContents(ctx context.Context, r Reader, w Writer) error {
	return r.Contents(func(ref string, content []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != ref {
			return fmt.Errorf("content %s: %w", ref, ErrDamaged)
		}
		return w.PutContent(ref, content)
	})
}

// SumOf reads a table and sums it up.
func SumOf(r Reader, t Table) (Sum, error) {
	h := newSummer(t.Name)
	err := r.Rows(t, func(values []any) error {
		h.add(values)
		return nil
	})
	return h.sum(), err
}

type summer struct {
	table string
	rows  int64
	hash  hash.Hash
	head  [9]byte
}

func newSummer(table string) *summer { return &summer{table: table, hash: sha256.New()} }

// add takes in a row. Each value is written with its type and length before
// it, so that no two rows look alike.
func (s *summer) add(values []any) {
	s.rows++
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			s.head[0] = 'n'
			binary.BigEndian.PutUint64(s.head[1:], uint64(v))
			s.hash.Write(s.head[:])
		case float64:
			s.head[0] = 'r'
			binary.BigEndian.PutUint64(s.head[1:], math.Float64bits(v))
			s.hash.Write(s.head[:])
		case string:
			s.text('t', []byte(v))
		case []byte:
			s.text('b', v)
		default:
			panic(fmt.Sprintf("store: a row has a %T", v))
		}
	}
}

func (s *summer) text(kind byte, b []byte) {
	s.head[0] = kind
	binary.BigEndian.PutUint64(s.head[1:], uint64(len(b)))
	s.hash.Write(s.head[:])
	s.hash.Write(b)
}

func (s *summer) sum() Sum {
	return Sum{Table: s.table, Rows: s.rows, SHA256: hex.EncodeToString(s.hash.Sum(nil))}
}
