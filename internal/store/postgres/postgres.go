// Package postgres keeps a store in a PostgreSQL database that any number of
// processes share.
//
// Rows are locked where two processes could meet, claims skip what others have
// locked, and the database's clock decides about leases. Transactions that
// the server rolled back because of each other run again by themselves.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

const (
	// safetyPoll bounds how long lost announcements delay work.
	safetyPoll = 5 * time.Second
	// patience bounds one transaction, so that a cut network does not hold
	// its caller for ever. The server gives up its side earlier.
	patience = time.Minute
	// tries is how often a transaction that others got in the way of, or that
	// lost its connection before commit, is begun.
	tries = 10
)

// Options tune a store. A zero field means its default.
type Options struct {
	Connections int // open at once, besides the one that listens; default 8
	migrations  []sqlstore.Migration
	committed   func(error) error // tests: stands between COMMIT and its outcome
}

// A Store is an open PostgreSQL database.
type Store struct {
	config *pgx.ConnConfig
	db     *sql.DB
	opts   Options
	ended  context.Context // Close ends it
	end    context.CancelFunc

	mu     sync.Mutex
	inHand sync.WaitGroup // transactions; added to only under mu while not closed
	closed bool
}

var _ store.Store = (*Store)(nil)

// Open connects to the database of a postgres:// URL and brings its schema up
// to date; several processes may do so at once. The error wraps
// store.ErrUnavailable when it cannot be reached or does not let us in, and
// store.ErrNewer when a newer Mercury has migrated it.
func Open(ctx context.Context, address string, opts Options) (store.Store, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		// The parser's text may quote what it was given, password and all.
		return nil, &mercury.Error{Kind: mercury.Setup, Err: errors.New("open store: database.url is not a PostgreSQL address"),
			Help: "Write database.url as postgres://user:password@host:5432/name."}
	}
	if opts.Connections <= 0 {
		opts.Connections = 8
	}
	if opts.migrations == nil {
		opts.migrations = sqlstore.Postgres.Migrations()
	}
	prepareConfig(config)
	s := &Store{config: config, opts: opts, db: stdlib.OpenDB(*config)}
	s.db.SetMaxOpenConns(opts.Connections)
	s.db.SetMaxIdleConns(opts.Connections)
	s.ended, s.end = context.WithCancel(context.Background())
	if err := s.migrate(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store %s: %w", s.where(), err)
	}
	return s, nil
}

// prepareConfig sets what a server should not do for ever, where the address
// does not say otherwise, and finds out by itself when the other side is gone.
func prepareConfig(config *pgx.ConnConfig) {
	if config.RuntimeParams == nil {
		config.RuntimeParams = make(map[string]string)
	}
	for name, value := range map[string]string{
		"application_name":  "mercury",
		"statement_timeout": "45s",
		"lock_timeout":      "30s",
		// A frozen process must let go of its locks before its lease is over,
		// so that whoever takes over need not wait for them.
		"idle_in_transaction_session_timeout": "15s",
	} {
		if _, ok := config.RuntimeParams[name]; !ok {
			config.RuntimeParams[name] = value
		}
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	dialer := &net.Dialer{Timeout: config.ConnectTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
	config.DialFunc = dialer.DialContext
}

func (s *Store) migrate(ctx context.Context) error {
	var version int
	err := s.View(ctx, func(tx store.Tx) error {
		t := tx.(*sqlstore.Tx)
		encoding, err := t.Encoding()
		if err != nil {
			return err
		}
		if encoding != "UTF8" {
			return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("database is encoded in %s", encoding),
				Help: "Create the database with ENCODING 'UTF8'."}
		}
		version, err = t.Schema()
		return err
	})
	if err != nil {
		return err
	}
	pending, err := sqlstore.Pending(s.opts.migrations, version)
	if err != nil || len(pending) == 0 {
		return err
	}
	return s.Update(ctx, func(tx store.Tx) error {
		t := tx.(*sqlstore.Tx)
		if err := t.LockSchema(); err != nil {
			return err
		}
		return sqlstore.Migrated(ctx, t, s.opts.migrations)
	})
}

// begin counts a transaction in; its result counts it out.
func (s *Store) begin() (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.inHand.Add(1)
	return s.inHand.Done, nil
}

// Update runs fn again when other transactions got in its way, or when the
// connection was lost before commit, up to ten times.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.repeat(ctx, func() error { return s.update(ctx, fn) })
}

// View runs fn on one snapshot, and again if the connection was lost.
func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	return s.repeat(ctx, func() error { return s.view(ctx, fn) })
}

// repeat tries what failed for a reason that another try may not meet. Lost
// connections are tried once more only: a pool notices them one by one, a
// server that is gone stays gone for longer than a caller should wait.
func (s *Store) repeat(ctx context.Context, try func() error) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	lost := 0
	for n := 1; ; n++ {
		err := try()
		var again *againError
		if !errors.As(err, &again) {
			return err
		}
		if again.lost {
			lost++
		}
		if n == tries || lost > s.opts.Connections || (again.lost && errors.Is(err, errConnect)) {
			return again.err
		}
		// Those who collided must not collide again in step.
		wait := time.Duration(rand.Int64N(int64(n) * int64(5*time.Millisecond)))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Store) update(ctx context.Context, fn func(store.Tx) error) error {
	// The transaction outlives ctx: once fn has returned its outcome is
	// awaited. Statements still end with ctx.
	life, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	conn, err := s.db.Conn(ctx) // waiting for one ends with ctx
	if err != nil {
		return beginError(err)
	}
	defer conn.Close()
	db, err := conn.BeginTx(life, nil)
	if err != nil {
		return beginError(err)
	}
	defer db.Rollback() // does nothing after a commit
	tx := sqlstore.NewTx(ctx, db, sqlstore.Postgres, false, classify)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Err(); err != nil {
		return err
	}
	crash.At(ctx, "commit.before")
	err = db.Commit()
	if s.opts.committed != nil {
		err = s.opts.committed(err)
	}
	if err != nil {
		return commitError(err)
	}
	crash.At(ctx, "commit.after")
	return nil
}

func (s *Store) view(ctx context.Context, fn func(store.Tx) error) error {
	life, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	db, err := s.db.BeginTx(life, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return beginError(err)
	}
	defer db.Rollback()
	tx := sqlstore.NewTx(life, db, sqlstore.Postgres, true, classify)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Err()
}

// SafetyPoll is how long an announcement that got lost may delay work.
func (s *Store) SafetyPoll() time.Duration { return safetyPoll }

// Info tells the server's own estimates of rows.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Engine: "postgres", Where: s.where()}
	err := s.View(ctx, func(tx store.Tx) error {
		t := tx.(*sqlstore.Tx)
		var err error
		if info.Version, err = t.EngineVersion(); err != nil {
			return err
		}
		if info.Schema, err = t.Schema(); err != nil {
			return err
		}
		if info.Bytes, err = t.Bytes(); err != nil {
			return err
		}
		info.Rows, err = t.RowCounts()
		return err
	})
	if err != nil {
		return info, fmt.Errorf("describe store: %w", err)
	}
	return info, nil
}

// where is the address as people may see it, without the password.
func (s *Store) where() string {
	u := url.URL{Scheme: "postgres", Host: net.JoinHostPort(s.config.Host, strconv.Itoa(int(s.config.Port))),
		Path: "/" + s.config.Database}
	if s.config.User != "" {
		u.User = url.User(s.config.User)
	}
	return u.String()
}

// Close waits for the transactions in hand and closes the connections.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.end()
	s.inHand.Wait()
	return s.db.Close()
}
