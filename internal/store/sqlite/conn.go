package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"
)

// A conn is one connection with its prepared statements. It is used by one
// goroutine at a time.
type conn struct {
	db    *sql.DB
	c     *sql.Conn
	stmts map[string]*sql.Stmt
}

// maxStmts bounds the cache. The named queries are about a hundred; beyond
// them come lists of other lengths.
const maxStmts = 300

// dial opens one connection to the database file.
func dial(path string, pragmas ...string) (*conn, error) { return dialAs(path, "", pragmas...) }

// dialAs is dial with further parameters of SQLite's file names, such as
// "mode=ro".
func dialAs(path, how string, pragmas ...string) (*conn, error) {
	q := url.Values{"_pragma": append([]string{"busy_timeout(5000)", "temp_store(MEMORY)"}, pragmas...)}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: slashed}).String()
	name += "?" + q.Encode()
	if how != "" {
		name += "&" + how
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	c, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(classify(err), db.Close())
	}
	return &conn{db: db, c: c, stmts: make(map[string]*sql.Stmt)}, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return errors.Join(c.c.Close(), c.db.Close())
}

func (c *conn) stmt(query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if len(c.stmts) >= maxStmts {
		for text, s := range c.stmts {
			s.Close()
			delete(c.stmts, text)
		}
	}
	s, err := c.c.PrepareContext(context.Background(), query)
	if err == nil {
		c.stmts[query] = s
	}
	return s, err
}

// ExecContext ignores ctx: a statement that was begun is finished.
func (c *conn) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args...)
}

// QueryContext ignores ctx, as ExecContext does.
func (c *conn) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

// run executes a statement that is not worth asking about.
func (c *conn) run(query string) error {
	_, err := c.ExecContext(context.Background(), query)
	return classify(err)
}

// once executes a statement without keeping it prepared.
func (c *conn) once(query string, args ...any) error {
	_, err := c.c.ExecContext(context.Background(), query, args...)
	return classify(err)
}

func (c *conn) value(query string, into any) error {
	return classify(c.c.QueryRowContext(context.Background(), query).Scan(into))
}
