package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// Look reads the database of a postgres:// URL beside whoever works on it and
// changes nothing: it migrates nothing either, so fn must look at the schema
// before it reads. A database without Mercury's tables is store.ErrNotFound.
func Look(ctx context.Context, address string, fn func(tx store.Tx, schema, known int) error) error {
	config, err := pgx.ParseConfig(address)
	if err != nil { // its text may quote the address, password and all
		return errors.New("look at the database: database.url is not a PostgreSQL address")
	}
	prepareConfig(config)
	s := &Store{config: config, db: stdlib.OpenDB(*config)}
	defer s.db.Close()
	db, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("look at the database %s: %w", s.where(), beginError(err))
	}
	defer db.Rollback()
	tx := sqlstore.NewTx(ctx, db, sqlstore.Postgres, true, classify)
	schema, err := tx.Schema()
	if err == nil && schema == 0 {
		err = store.ErrNotFound
	}
	if err == nil {
		err = errors.Join(fn(tx, schema, len(sqlstore.Postgres.Migrations())), tx.Err())
	}
	if err != nil {
		return fmt.Errorf("look at the database %s: %w", s.where(), err)
	}
	return nil
}

// Where is an address as people may see it, without its password.
func Where(address string) string {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return "an address that is none"
	}
	return (&Store{config: config}).where()
}
