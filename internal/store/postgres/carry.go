package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

var _ store.Portable = (*Store)(nil)

// Export reads everything in one repeatable-read transaction without limits of
// time.
func (s *Store) Export(ctx context.Context, fn func(store.Reader) error) error {
	return s.whole(ctx, true, func(tx *sqlstore.Tx) error { return fn(tx) })
}

// Import writes everything in one transaction. It does not run again by
// itself: nobody else should be at work on a database that is being filled.
func (s *Store) Import(ctx context.Context, fn func(store.Writer) error) error {
	return s.whole(ctx, false, func(tx *sqlstore.Tx) error {
		if err := tx.LockSchema(); err != nil { // one import at a time
			return err
		}
		if err := tx.ClearContents(); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Aside moves every table of Mercury into a schema of its own, whose name it
// returns: the address is free for a new beginning, and what was there is kept.
func (s *Store) Aside(ctx context.Context, at time.Time) (schema string, err error) {
	schema = "mercury_moved_" + at.UTC().Format("20060102t150405")
	err = s.whole(ctx, false, func(tx *sqlstore.Tx) error {
		if err := tx.LockSchema(); err != nil {
			return err
		}
		return tx.Aside(schema)
	})
	return schema, err
}

func (s *Store) whole(ctx context.Context, readOnly bool, fn func(*sqlstore.Tx) error) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	db, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: readOnly})
	if err != nil {
		return beginError(err)
	}
	defer db.Rollback() // does nothing after a commit
	tx := sqlstore.NewTx(ctx, db, sqlstore.Postgres, readOnly, classify)
	if err := tx.Unhurried(); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Err(); err != nil || readOnly {
		return err
	}
	if err := db.Commit(); err != nil {
		return fmt.Errorf("whole database: %w", commitError(err))
	}
	return nil
}
