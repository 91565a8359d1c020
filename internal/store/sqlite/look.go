package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// Sums looks through every page of a database file that nobody has open, and
// sums up its tables. It returns its schema too.
func Sums(ctx context.Context, path string) (schema int, sums []store.Sum, err error) {
	if _, err := inspect(path); err != nil {
		return 0, nil, err
	}
	c, err := dial(path, "query_only(1)")
	if err != nil {
		return 0, nil, err
	}
	defer c.close()
	err = look(ctx, c, true, func(tx store.Tx, found, _ int) error {
		schema = found
		r := tx.(*sqlstore.Tx)
		tables, err := store.Kept(r)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if err := ctx.Err(); err != nil {
				return err
			}
			s, err := store.SumOf(r, t)
			if err != nil {
				return fmt.Errorf("sum up table %s: %w", t.Name, err)
			}
			sums = append(sums, s)
		}
		return nil
	})
	return schema, sums, err
}

// Look reads the database of the home in dir without owning it, beside another
// process that does or without one, and changes nothing. It is not for the
// owner itself, whose locks would suffer. check says whether
// its pages are looked through, which takes a while; then fn reads, unless the
// schema is not the one this program knows: schema and known tell. A damaged
// database is store.ErrDamaged, a missing one store.ErrNotFound.
func Look(ctx context.Context, dir string, check bool, fn func(tx store.Tx, schema, known int) error) error {
	path := filepath.Join(dir, FileName)
	found, err := inspect(path)
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	if !found {
		return fmt.Errorf("look at the database: %w", store.ErrNotFound)
	}
	open := "mode=ro"
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		// Nobody has it open. A database that keeps a log would make the files
		// of one, even for a reader.
		open = "immutable=1"
	}
	c, err := dialAs(path, open, "query_only(1)")
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	defer c.close()
	if err := look(ctx, c, check, fn); err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	return nil
}

func look(ctx context.Context, c *conn, check bool, fn func(tx store.Tx, schema, known int) error) error {
	if err := quickLook(c); err != nil {
		return err
	}
	if check {
		var said string
		if err := c.value("PRAGMA quick_check(1)", &said); err != nil {
			return err
		}
		if said != "ok" {
			return damaged(errors.New(said))
		}
	}
	if err := c.once("BEGIN"); err != nil {
		return err
	}
	tx := sqlstore.NewTx(ctx, c, sqlstore.SQLite, true, classify)
	schema, err := tx.Schema()
	if err != nil {
		return err
	}
	return errors.Join(fn(tx, schema, len(sqlstore.SQLite.Migrations())), tx.Err())
}
