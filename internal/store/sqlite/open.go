package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// applicationID marks the file as Mercury's ("Merc"), for file(1) and us.
const applicationID = 0x4d657263

// pageSize is small because most of what a commit writes is whole pages in
// which a few bytes changed: half the page, half the wear of a memory card.
const pageSize = 2048

// logPages is after how many pages the log is reused, so each page that many
// commits change is written to the database once per 4 MB and not once per
// commit. logBytes is how long its file is by then: the last commit may be
// over the edge, each page has a header, and the file has one.
const (
	logPages = 2000
	logBytes = (logPages+200)*(pageSize+24) + 32
)

// The cache is small, here and in readers: a turn touches some forty pages,
// and what leaves the cache the system still has.
var writerPragmas = []string{
	"journal_mode(WAL)", "synchronous(" + synchronous + ")",
	fmt.Sprintf("wal_autocheckpoint(%d)", logPages), "journal_size_limit(8388608)", "cache_size(-400)",
}

// prepare makes or checks the file, connects, and migrates.
func (s *Store) prepare(ctx context.Context) error {
	found, err := inspect(s.path)
	if err != nil {
		return err
	}
	if !found {
		if err := s.create(ctx); err != nil {
			return err
		}
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		s.disconnect()
		return err
	}
	return nil
}

// connect opens the writing connection and takes a quick look: the header, the
// schema, and the pages on the way there.
func (s *Store) connect() error {
	c, err := dial(s.path, writerPragmas...)
	if err != nil {
		return err
	}
	if err := quickLook(c); err != nil {
		c.close()
		return err
	}
	// A commit that makes its file longer costs about two syncs: the file
	// system notes the length as well. So the log gets its length now, and the
	// commits that follow overwrite. Where that cannot be done they are
	// slower, and nothing else is different.
	_ = reserve(s.path+"-wal", logBytes)
	s.writer = c
	return nil
}

func quickLook(c *conn) error {
	var id, tables int
	if err := c.value("PRAGMA application_id", &id); err != nil {
		return err
	}
	if err := c.value("SELECT count(*) FROM sqlite_master", &tables); err != nil {
		return err
	}
	if id != applicationID || tables == 0 {
		return damaged(errors.New("the file is not a database of Mercury"))
	}
	return nil
}

// inspect reports whether there is a database and refuses what SQLite would
// take for an empty one. It reads the file before any connection is open:
// closing a descriptor of an open database drops its locks on POSIX.
func inspect(path string) (found bool, err error) {
	wal, err := os.Stat(path + "-wal")
	logged := err == nil && wal.Size() > 0
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if logged {
			return false, damaged(errors.New("mercury.db is missing but its log is there"))
		}
		return false, nil
	}
	if err != nil {
		return false, osError(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, osError(err)
	}
	if st.IsDir() {
		return false, damaged(errors.New("mercury.db is a folder"))
	}
	var header [100]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return false, damaged(fmt.Errorf("mercury.db has %d bytes, less than a header", st.Size()))
	}
	if !bytes.HasPrefix(header[:], []byte("SQLite format 3\x00")) {
		return false, damaged(errors.New("mercury.db does not begin as a database does"))
	}
	// A checkpoint cut short leaves the file shorter than its header says, and
	// the log completes it. Without a log the rest is lost.
	size := int64(binary.BigEndian.Uint16(header[16:]))
	if size == 1 {
		size = 65536
	}
	pages := int64(binary.BigEndian.Uint32(header[28:]))
	current := bytes.Equal(header[24:28], header[92:96])
	if current && !logged && st.Size() < pages*size {
		return false, damaged(fmt.Errorf("mercury.db has %d of %d bytes", st.Size(), pages*size))
	}
	return true, nil
}

// create makes the first database beside its place and moves it there whole,
// so that a file called mercury.db always has a schema: one that has none is
// damaged, never new.
func (s *Store) create(ctx context.Context) error {
	path := s.path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return osError(err)
		}
	}
	// Nobody opens it before it has its name, and it is synced whole before
	// that: the steps on the way need no syncs of their own.
	c, err := dial(path, fmt.Sprintf("page_size(%d)", pageSize), "synchronous(OFF)", "journal_mode(MEMORY)")
	if err != nil {
		return err
	}
	err = func() error {
		if err := c.once("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		tx := sqlstore.NewTx(ctx, c, sqlstore.SQLite, false, classify)
		if err := sqlstore.Migrated(ctx, tx, s.opts.migrations); err != nil {
			return err
		}
		if err := c.once(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
		if err := c.once("COMMIT"); err != nil {
			return err
		}
		return c.once("PRAGMA journal_mode = WAL")
	}()
	if err := errors.Join(err, c.close()); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return osError(err)
	}
	if err := syncFile(path); err != nil {
		return err
	}
	if err := os.Rename(path, s.path); err != nil {
		return osError(err)
	}
	return syncDir(s.dir)
}

// migrate applies what is missing, each migration in a commit of its own, after
// one snapshot of the database as it was.
func (s *Store) migrate(ctx context.Context) error {
	c := s.writer
	tx := sqlstore.NewTx(ctx, c, sqlstore.SQLite, false, classify)
	version, err := tx.Schema()
	if err != nil {
		return err
	}
	pending, err := sqlstore.Pending(s.opts.migrations, version)
	if err != nil || len(pending) == 0 {
		return err
	}
	name := filepath.Join(s.dir, "backups", fmt.Sprintf("pre-migration-%d.db", version))
	if err := s.Snapshot(ctx, name); err != nil {
		return fmt.Errorf("before migrating to schema %d: %w", len(s.opts.migrations), err)
	}
	for _, m := range pending {
		if err := c.once("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		err := tx.Apply(m)
		if err == nil {
			err = c.once("COMMIT")
		}
		if err != nil {
			c.once("ROLLBACK")
			return err
		}
	}
	return nil
}

// Snapshot writes a whole, compact and consistent copy of the database to
// path, while others go on writing. It replaces what is there only when the
// copy is complete and synced.
func (s *Store) Snapshot(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("snapshot: %w", osError(err))
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("snapshot: %w", osError(err))
	}
	c, err := dial(s.path)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	err = c.once("VACUUM INTO ?", part)
	if err = errors.Join(err, c.close()); err == nil {
		err = markCopy(ctx, part)
	}
	if err != nil {
		os.Remove(part)
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := os.Chmod(part, 0o600); err != nil {
		return fmt.Errorf("snapshot: %w", osError(err))
	}
	if err := syncFile(part); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("snapshot: %w", osError(err))
	}
	return syncDir(dir)
}

// markCopy writes into a copy that it is one, so that whoever opens it in the
// place of the original knows, and does not go on where the original went on
// already.
func markCopy(ctx context.Context, path string) error {
	c, err := dial(path, "journal_mode(MEMORY)", "synchronous(OFF)") // it is synced whole, and has no name yet
	if err != nil {
		return err
	}
	tx := sqlstore.NewTx(ctx, c, sqlstore.SQLite, false, classify)
	return errors.Join(tx.SetMeta(store.CopyMark, time.Now().UTC().Format(time.RFC3339)), c.close())
}

// osError gives the store's meaning to what the file system says.
func osError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("%w: %w", store.ErrDiskFull, err), Help: helpFull}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err), Help: helpReadOnly}
	}
	return err
}
