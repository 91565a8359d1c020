package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// schemaKey is the fact that says which migrations a database has.
const schemaKey = "schema"

// A Migration brings a database from the version before its own to its own.
type Migration struct {
	Version int
	Text    string // of every statement, separated by semicolons
}

// Migrations are all there are, oldest first, spelled in the dialect.
func (d *Dialect) Migrations() []Migration {
	return d.migrations(migrationFiles)
}

func (d *Dialect) migrations(files fs.FS) []Migration {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	var out []Migration
	for i, name := range names { // sorted by name, so by number
		b, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			panic("sqlstore: migrations are numbered without gaps, and " + name + " is not next")
		}
		out = append(out, Migration{i + 1, d.types.Replace(string(b))})
	}
	return out
}

// Schema returns the version a database has, 0 for an empty one.
func (tx *Tx) Schema() (int, error) {
	n, err := tx.count("schema.exists")
	if err != nil || n == 0 {
		return 0, err
	}
	text, err := tx.MetaValue(schemaKey)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read the schema's version %.20q: %w", text, store.ErrDamaged)
	}
	return v, nil
}

// Pending returns the migrations a database at version does not have yet, or
// ErrNewer when it has some that this program does not know.
func Pending(all []Migration, version int) ([]Migration, error) {
	if version > len(all) {
		return nil, &mercury.Error{Kind: mercury.Setup,
			Err:  fmt.Errorf("open schema %d with a program that knows %d: %w", version, len(all), store.ErrNewer),
			Help: "Start the newer Mercury that wrote this database, or restore a backup from before its upgrade.",
		}
	}
	return all[version:], nil
}

// Apply runs one migration and records it, inside the transaction at hand.
func (tx *Tx) Apply(m Migration) error {
	for _, statement := range statements(m.Text) {
		if _, err := tx.conn.ExecContext(tx.ctx, statement); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", m.Version, tx.classify(err))
		}
	}
	return tx.SetMeta(schemaKey, strconv.Itoa(m.Version))
}

// statements splits a migration at the semicolons that end a line, which is
// how migrations are written.
func statements(text string) []string {
	var out []string
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		if line == "" || strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		lines = append(lines, line)
		if strings.HasSuffix(line, ";") {
			out = append(out, strings.TrimSuffix(strings.Join(lines, "\n"), ";"))
			lines = nil
		}
	}
	if len(lines) > 0 {
		out = append(out, strings.Join(lines, "\n"))
	}
	return out
}

// Migrated brings the database at hand up to date within this transaction. An
// SQLite driver calls it for a database without data; where there are data a
// snapshot comes before, see the driver.
func Migrated(ctx context.Context, tx *Tx, all []Migration) error {
	version, err := tx.Schema()
	if err != nil {
		return err
	}
	pending, err := Pending(all, version)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if err := tx.Apply(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// LockSchema waits until no other process migrates, however long that takes,
// and keeps others waiting until this transaction ends.
func (tx *Tx) LockSchema() error {
	for _, name := range []string{"schema.patience", "schema.lock"} {
		if _, err := tx.exec(name); err != nil {
			return err
		}
	}
	return nil
}

// Encoding is how the database's server stores text.
func (tx *Tx) Encoding() (string, error) {
	var name string
	err := tx.one("encoding", nil, &name)
	return name, err
}
