package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// identityFile stands in a home and in no backup of it.
const identityFile = "incarnation"

// The facts of a database by which a copy is told from the original.
const (
	incarnationKey = "incarnation" // made anew when a database is moved or restored
	bootKey        = "boot"        // counts starts and orderly ends of its only process
	restoredKey    = "restored"    // JSON of Restored, while what was pending is held
	takenKey       = "restored.taken"
)

// identity says which database a home has, and how far that has come.
type identity struct {
	Incarnation string `json:"incarnation"`
	Boot        int64  `json:"boot"`
}

// record is the file of a home. Next is written before the database is, so
// that a kill between the two is not taken for a restored copy.
type record struct {
	identity
	Next *identity `json:"next,omitempty"`
}

// Restored says that the database is a copy, brought back, and since when what
// it had pending is held.
type Restored struct {
	At   time.Time `json:"at"`
	Made string    `json:"made,omitempty" doc:"when the copy was made, where it says so"`
}

// A Part is something besides the engine that starts work or sends by itself,
// such as schedules. Its functions run in the transaction that holds or
// resumes everything.
type Part struct {
	// Name in the plural, for people, such as "schedules".
	Name string
	// Hold keeps it from starting anything.
	Hold func(store.Tx) error
	// Waiting lists, for people, what would start once it is resumed.
	Waiting func(store.Tx) ([]string, error)
	// Resume lets go; with discard nothing that was due meanwhile is made up for.
	Resume func(tx store.Tx, discard bool) error
}

// Station is one opening of a home's database.
type Station struct {
	Home   string
	Node   string
	Store  store.Store
	Shared bool // other processes, each with a home of its own, work on it too
	Parts  []Part
}

func (s Station) bootKey() string {
	if s.Shared {
		return bootKey + "/" + s.Node
	}
	return bootKey
}

// facts are what the database says of itself.
type facts struct {
	identity
	copied   string
	restored *Restored
}

// Recognise is called before anything works on the database: before a run is
// claimed, a delivery sent or a crash recovered from. It compares what the
// database says of itself with the home's record. A database that is a copy,
// or older than the home remembers, was brought back: then all that it would
// send or go on with is held, in one transaction, until a person resumes it.
// It returns whether that is so, also when it was found earlier.
//
// A process that is going to work calls the returned function when it has
// time: it counts the start, so that a copy made before it is older.
func (s Station) Recognise(ctx context.Context) (held *Restored, count func(context.Context) error, err error) {
	db, err := s.read(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("recognise database: %w", err)
	}
	rec, there, err := readRecord(s.Home)
	if err != nil {
		return nil, nil, fmt.Errorf("recognise database: %w", err)
	}
	if !s.foreign(db, rec, there) {
		return db.restored, s.count, nil
	}
	r := Restored{At: time.Now().UTC(), Made: db.copied}
	next := identity{mercury.NewID("inc"), 1}
	// Until it is held the record keeps what the home knew: a kill on the way
	// must not make the copy the one that is expected.
	if err := s.advance(ctx, rec.identity, next, func(tx store.Tx) error { return s.hold(tx, r) }); err != nil {
		return nil, nil, fmt.Errorf("recognise database: %w", err)
	}
	return &r, s.count, nil
}

// count notes in the record and the database that they were in use.
func (s Station) count(ctx context.Context) error {
	db, err := s.read(ctx)
	if err != nil {
		return fmt.Errorf("count a start: %w", err)
	}
	next := identity{db.Incarnation, db.Boot + 1}
	if db.Incarnation == "" {
		next = identity{mercury.NewID("inc"), 1}
	}
	if err := s.advance(ctx, db.identity, next, func(store.Tx) error { return nil }); err != nil {
		return fmt.Errorf("count a start: %w", err)
	}
	return nil
}

// Leave counts an orderly end, so that a copy of the files made while the
// process ran is told from what it left.
func (s Station) Leave(ctx context.Context) error { return s.count(ctx) }

// advance takes the database and the home's record from one identity to the
// next, with what fn does in the same commit. The record names both until that
// has happened.
func (s Station) advance(ctx context.Context, from, next identity, fn func(store.Tx) error) error {
	if err := writeRecord(s.Home, record{from, &next}); err != nil {
		return err
	}
	crash.Reach("recognise.recorded")
	err := s.Store.Update(crash.With(ctx, "recognise"), func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return s.write(tx, next)
	})
	if err != nil {
		return err
	}
	return writeRecord(s.Home, record{identity: next})
}

// foreign reports whether the database is not where this home left it.
func (s Station) foreign(db facts, rec record, there bool) bool {
	matches := func(i identity) bool { return db.identity == i }
	switch {
	case db.copied != "":
		return true
	case db.Incarnation == "":
		return false // new, or from before there were incarnations
	case there && (matches(rec.identity) || rec.Next != nil && matches(*rec.Next)):
		return false
	case !s.Shared:
		return true
	}
	// A shared database may be new to this home, or moved by another one; it
	// went back only when it is the one this home knows.
	return there && rec.Incarnation == db.Incarnation
}

func (s Station) read(ctx context.Context) (f facts, err error) {
	err = s.Store.View(ctx, func(tx store.Tx) error {
		f = facts{}
		text := ""
		for key, into := range map[string]*string{incarnationKey: &f.Incarnation, store.CopyMark: &f.copied, restoredKey: &text} {
			if *into, err = fact(tx, key); err != nil {
				return err
			}
		}
		if text != "" {
			f.restored = &Restored{}
			if err := json.Unmarshal([]byte(text), f.restored); err != nil {
				return fmt.Errorf("read that it was restored: %w", err)
			}
		}
		boot, err := fact(tx, s.bootKey())
		if err != nil || boot == "" {
			return err
		}
		f.Boot, err = strconv.ParseInt(boot, 10, 64)
		return err
	})
	return f, err
}

func (s Station) hold(tx store.Tx, r Restored) error {
	if !s.Shared { // on a shared one others may be at work, and leases end by themselves
		if err := store.Unoccupied(tx); err != nil {
			return err
		}
	}
	if err := engine.HoldOutdated(tx); err != nil {
		return err
	}
	for _, p := range s.Parts {
		if err := p.Hold(tx); err != nil {
			return fmt.Errorf("hold %s: %w", p.Name, err)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := tx.SetMeta(store.CopyMark, ""); err != nil {
		return err
	}
	return tx.SetMeta(restoredKey, string(b))
}

func (s Station) write(tx store.Tx, i identity) error {
	if err := tx.SetMeta(incarnationKey, i.Incarnation); err != nil {
		return err
	}
	return tx.SetMeta(s.bootKey(), strconv.FormatInt(i.Boot, 10))
}

func fact(tx store.Tx, key string) (string, error) {
	v, err := tx.MetaValue(key)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return v, err
}

func readRecord(dir string) (r record, there bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read the home's record: %w", err)
	}
	if json.Unmarshal(b, &r) != nil {
		return record{}, false, nil // worth as little as none: the database counts as brought back
	}
	return r, true, nil
}

func writeRecord(dir string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = atomicfile.Write(filepath.Join(dir, identityFile), append(b, '\n'), 0o600)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("%w: %w", store.ErrDiskFull, err), Help: "Free some space on the disk of the home."}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err), Help: "Make the home writable for the user Mercury runs as."}
	}
	return err
}
