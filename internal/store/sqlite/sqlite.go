// Package sqlite keeps a store in one SQLite file that one process owns.
//
// All writing goes through one connection. Its goroutine, the committer, folds
// the transactions that wait into one commit, a savepoint each, so that many
// of them share one sync of the disk. Reading goes through up to four other
// connections and never waits for a writer. Nothing runs while there is
// nothing to do: no timer, no poll.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// FileName is the database's file in a home.
const FileName = "mercury.db"

// readers is how many views run at once; more wait.
const readers = 4

// Options tune a store. The zero value is what a home normally has.
type Options struct {
	Address    string                   // where this process's API listens, told to whoever finds the home taken
	migrations []sqlstore.Migration     // tests: other than the program's own
	commit     func(func() error) error // tests: stands around COMMIT
}

// A Store is an open SQLite database.
type Store struct {
	dir, path string
	opts      Options
	lock      *homelock.Lock
	blobs     blobs
	words     *search

	requests chan *request // unbuffered: what is received is taken
	quit     chan struct{} // closed by Close
	done     chan struct{} // closed when the committer has ended
	closing  sync.Once
	closeErr error

	gate    sync.RWMutex // held for writing while connections are replaced
	writer  *conn
	broken  error // why the store is closed until it is reopened
	retryAt time.Time
	slots   chan struct{} // a free place for a view

	idle    sync.Mutex
	readers []*conn // open and not in use; the last one used is on top
}

var _ store.Store = (*Store)(nil)

// Open locks the home dir for this process, opens its database, made if there
// is none, and brings its schema up to date, after a snapshot into backups/ if
// it holds data. The error is a *homelock.HeldError if another process has the
// home, and wraps store.ErrDamaged, ErrNewer, ErrDiskFull or ErrReadOnly where
// that is what is wrong; a damaged database is left as it is.
//
// Open starts the committer's goroutine. Close ends it.
func Open(ctx context.Context, dir string, opts Options) (store.Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", osError(err))
	}
	lock, err := homelock.Take(dir, opts.Address)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", osError(err))
	}
	if opts.migrations == nil {
		opts.migrations = sqlstore.SQLite.Migrations()
	}
	// Ordinary file systems keep a file's length current in fdatasync, and its
	// timestamps are no concern of ours: the commit is as durable and cheaper.
	// Where the platform has no fdatasync, fsync stays.
	_, _ = sqlite.Fdatasync(true)
	s := &Store{
		dir: dir, path: filepath.Join(dir, FileName), opts: opts, lock: lock,
		blobs:    blobs{root: filepath.Join(dir, "files")},
		words:    &search{path: filepath.Join(dir, SearchName)},
		requests: make(chan *request),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		slots:    make(chan struct{}, readers),
	}
	if err := s.prepare(ctx); err != nil {
		lock.Release()
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	go s.commitLoop()
	return s, nil
}

// Close waits for the transactions in hand, checkpoints and lets go of the
// home. Afterwards every method returns ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.quit)
		<-s.done
		s.gate.Lock()
		defer s.gate.Unlock()
		s.closeErr = errors.Join(s.disconnect(), s.words.close(), s.lock.Release())
	})
	return s.closeErr
}

// disconnect closes every connection. The gate is held, so no view is running.
func (s *Store) disconnect() error {
	var errs []error
	s.idle.Lock()
	for _, c := range s.readers {
		errs = append(errs, c.close())
	}
	s.readers = nil
	s.idle.Unlock()
	if s.writer != nil {
		errs = append(errs, s.writer.close())
		s.writer = nil
	}
	return errors.Join(errs...)
}

// enter lets one batch or view in and returns with the gate held for reading.
// It reopens a store that an I/O error closed, at most once a second.
func (s *Store) enter() error {
	for {
		s.gate.RLock()
		if s.isClosed() {
			s.gate.RUnlock()
			return store.ErrClosed
		}
		if s.broken == nil {
			return nil
		}
		s.gate.RUnlock()
		if err := s.reopen(); err != nil {
			return err
		}
	}
}

func (s *Store) isClosed() bool {
	select {
	case <-s.quit:
		// The committer still finishes what it took before.
		return s.writer == nil
	default:
		return false
	}
}

// fail closes the store to everyone until it is reopened. The committer calls
// it after a commit whose outcome the disk did not tell: only reading the file
// anew says what is in it.
func (s *Store) fail(cause error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.broken = cause
	s.retryAt = time.Time{}
}

func (s *Store) reopen() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.broken == nil {
		return nil
	}
	now := time.Now()
	if now.Before(s.retryAt) {
		return s.unavailable()
	}
	s.retryAt = now.Add(time.Second)
	_ = s.disconnect() // its errors are the ones that brought us here
	if err := s.connect(); err != nil {
		s.broken = err
		return s.unavailable()
	}
	s.broken = nil
	return nil
}

func (s *Store) unavailable() error {
	help := mercury.HelpOf(s.broken)
	if help == "" {
		help = "The disk reported an error; Mercury tries again by itself. Look at the system's log if this stays."
	}
	return &mercury.Error{Kind: mercury.Transient, After: time.Second, Help: help,
		Err: fmt.Errorf("%w after an error of the disk: %w", store.ErrUnavailable, s.broken)}
}

// View runs fn on a snapshot. A view inside a view needs a second connection
// and may wait for ever; use the Tx at hand.
func (s *Store) View(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.quit:
		return store.ErrClosed
	default:
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.gate.RUnlock()
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.slots }()
	c, err := s.reader()
	if err != nil {
		return err
	}
	if err := c.run("BEGIN"); err != nil {
		c.close()
		return fmt.Errorf("begin view: %w", err)
	}
	defer s.release(c)
	tx := sqlstore.NewTx(ctx, c, sqlstore.SQLite, true, classify).WithIndex(s.words)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Err()
}

// reader takes the connection that was used last, whose statements are
// prepared and whose pages are warm, and opens one only where none is free: a
// home in which one thing happens at a time reads through a single one.
func (s *Store) reader() (*conn, error) {
	s.idle.Lock()
	if n := len(s.readers); n > 0 {
		c := s.readers[n-1]
		s.readers = s.readers[:n-1]
		s.idle.Unlock()
		return c, nil
	}
	s.idle.Unlock()
	return dial(s.path, "query_only(1)", "cache_size(-100)")
}

// release ends a view's snapshot and puts its connection back.
func (s *Store) release(c *conn) {
	if c.run("ROLLBACK") != nil {
		c.close()
		return
	}
	s.putBack(c)
}

func (s *Store) putBack(c *conn) {
	s.idle.Lock()
	s.readers = append(s.readers, c)
	s.idle.Unlock()
}

// Listen waits for ctx to end: nobody else writes this database.
func (s *Store) Listen(ctx context.Context, _ func(store.Notice)) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return store.ErrClosed
	}
}

// SafetyPoll is zero: what happens here happens in this process.
func (s *Store) SafetyPoll() time.Duration { return 0 }

// Blobs keeps large contents as files in the home.
func (s *Store) Blobs() store.Blobs { return s.blobs }

// Info tells sizes from the file system; the numbers of rows are of rows ever
// written, which costs nothing to know.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Engine: "sqlite", Where: s.path}
	for _, suffix := range []string{"", "-wal"} {
		if st, err := os.Stat(s.path + suffix); err == nil {
			info.Bytes += st.Size()
		}
	}
	err := s.View(ctx, func(tx store.Tx) error {
		t := tx.(*sqlstore.Tx)
		var err error
		if info.Version, err = t.EngineVersion(); err != nil {
			return err
		}
		if info.Schema, err = t.Schema(); err != nil {
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
