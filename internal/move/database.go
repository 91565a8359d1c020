package move

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // reads the databases of other agents
)

//go:embed sql/hermes_sessions.sql
var hermesSessions string

//go:embed sql/hermes_sessions_untitled.sql
var hermesSessionsUntitled string

//go:embed sql/hermes_messages.sql
var hermesMessages string

//go:embed sql/mercury_memories.sql
var mercuryMemories string

// database calls read with a copy of an SQLite database of the foreign home.
// The copy, with its log, is made because opening the original could write
// beside it. A database that is not there is none; one that cannot be read is
// a warning.
func (h *home) database(name string, read func(*sql.DB) error) {
	if !h.has(name) {
		return
	}
	if err := h.readDatabase(name, read); err != nil {
		h.warn("%s was not read, or in part: %v", name, err)
	}
}

func (h *home) readDatabase(name string, read func(*sql.DB) error) (err error) {
	dir, err := os.MkdirTemp("", "mercury-import-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "copy.db")
	for _, end := range []string{"", "-wal"} {
		if err := copyFile(h.at(name)+end, to+end); err != nil && (end == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(to)+"?_pragma=query_only(1)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return read(db)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// rows calls each row of a query.
func rows(db *sql.DB, query string, each func(*sql.Rows) error, args ...any) error {
	r, err := db.Query(query, args...)
	if err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	defer r.Close()
	for r.Next() {
		if err := each(r); err != nil {
			return err
		}
	}
	return r.Err()
}
