// Package sqlstore is store.Tx over database/sql, shared by both drivers. The
// drivers open connections, begin and commit; everything between stands here
// once, with its SQL in .sql files.
package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// A Conn runs statements inside one open transaction. *sql.Tx is one.
type Conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Tx is store.Tx inside the transaction that conn has open. It is used by one
// goroutine at a time and forgotten when the transaction ends.
type Tx struct {
	ctx      context.Context
	conn     Conn
	dialect  *Dialect
	classify func(error) error
	readOnly bool
	now      int64
	err      error // of a method that returns none
	index    Index // nil: the database finds words itself
	fresh    fresh // what the index does not hold yet
	rev      int64 // of a view: up to where the index holds everything,
	caughtUp bool  // once it has caught up
}

var _ store.Tx = (*Tx)(nil)

// NewTx returns the Tx of an open transaction. The driver's classify turns
// its errors into the store's; statements run under ctx.
func NewTx(ctx context.Context, conn Conn, d *Dialect, readOnly bool, classify func(error) error) *Tx {
	return &Tx{ctx: ctx, conn: conn, dialect: d, readOnly: readOnly, classify: classify}
}

// Err is an error that a method without an error result met. The driver rolls
// back when there is one.
func (tx *Tx) Err() error { return tx.err }

// errReadOnlyTx is a fault of the caller, told apart from a database that
// cannot be written.
var errReadOnlyTx = errors.New("write inside a view")

// Now is the clock at its first call in the transaction, so that all a
// transaction writes bears one time.
func (tx *Tx) Now() time.Time {
	if tx.now == 0 {
		tx.now = time.Now().UnixMicro()
		if tx.dialect.shared {
			if err := tx.one("clock", nil, &tx.now); err != nil && tx.err == nil {
				tx.err = fmt.Errorf("read the database's clock: %w", err)
			}
		}
	}
	return moment(tx.now)
}

// Notify announces n at commit where other processes share the database.
func (tx *Tx) Notify(n store.Notice) error {
	if !tx.dialect.shared {
		return nil
	}
	payload, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = tx.exec("notify", string(payload))
	return err
}

// exec runs a named writing query and returns how many rows it touched.
func (tx *Tx) exec(name string, args ...any) (int64, error) {
	if tx.readOnly {
		return 0, errReadOnlyTx
	}
	text, args := tx.dialect.bind(tx.dialect.query(name), args)
	res, err := tx.conn.ExecContext(tx.ctx, text, args...)
	if err != nil {
		return 0, tx.classify(err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, tx.classify(err)
	}
	return n, nil
}

// query runs a named query. A view reads without the locks that the same query
// takes in an Update: its snapshot does not change, and PostgreSQL refuses them.
func (tx *Tx) query(name string, args ...any) (*sql.Rows, error) {
	text := tx.dialect.query(name)
	if tx.readOnly {
		text = strings.TrimSuffix(strings.TrimSpace(text), "FOR UPDATE")
	}
	return tx.queryText(text, args...)
}

func (tx *Tx) queryText(text string, args ...any) (*sql.Rows, error) {
	text, args = tx.dialect.bind(text, args)
	rows, err := tx.conn.QueryContext(tx.ctx, text, args...)
	if err != nil {
		return nil, tx.classify(err)
	}
	return rows, nil
}

// one reads a single row, ErrNotFound if there is none.
func (tx *Tx) one(name string, args []any, into ...any) error {
	rows, err := tx.query(name, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return tx.classify(err)
		}
		return store.ErrNotFound
	}
	if err := rows.Scan(into...); err != nil {
		return tx.classify(err)
	}
	return tx.close(rows)
}

// close ends rows and reports what reading them met.
func (tx *Tx) close(rows *sql.Rows) error {
	if err := rows.Close(); err != nil {
		return tx.classify(err)
	}
	if err := rows.Err(); err != nil {
		return tx.classify(err)
	}
	return nil
}

// inserted turns a count of inserted rows into ErrExists when there was none.
func inserted(n int64, err error) error {
	if err == nil && n == 0 {
		return store.ErrExists
	}
	return err
}

// touched turns a count of updated rows into ErrNotFound when there was none.
func touched(n int64, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return err
}

// A scanner is *sql.Rows, so far as one row is concerned.
type scanner interface{ Scan(into ...any) error }

// all collects the rows of a query.
func all[T any](tx *Tx, rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, tx.classify(err)
		}
		out = append(out, v)
	}
	return out, tx.close(rows)
}

// first is the only row of a query, ErrNotFound if there is none.
func first[T any](tx *Tx, rows *sql.Rows, err error, scan func(scanner) (T, error)) (T, error) {
	found, err := all(tx, rows, err, scan)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// earliest reads a min(…), which is null over no rows.
func (tx *Tx) earliest(name string, args ...any) (time.Time, bool, error) {
	var at sql.NullInt64
	if err := tx.one(name, args, &at); err != nil || !at.Valid {
		return time.Time{}, false, err
	}
	return moment(at.Int64), true, nil
}

func (tx *Tx) count(name string, args ...any) (int, error) {
	var n int
	err := tx.one(name, args, &n)
	return n, err
}

// exists reports whether a query has a row.
func (tx *Tx) exists(name string, args ...any) (bool, error) {
	var n int64
	err := tx.one(name, args, &n)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
