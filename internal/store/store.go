// Package store is the contract of what is kept: one database that holds
// everything that must be consistent, behind transactions.
//
// Two drivers keep it, store/sqlite and store/postgres; one suite,
// store/storetest, holds both to it. A transaction that Update returned nil
// for is on disk, synced, and survives a kill and a power cut. Nobody learns
// an outcome before that.
//
// The package knows tables and their invariants, no policy: when a run may be
// claimed or a delivery held is decided above, in engine.
package store

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Store is one open database.
type Store interface {
	// Update runs fn in one transaction and returns after its commit is
	// durable. fn is pure: it touches nothing but the Tx, and may be run
	// again after a deadlock or a serialization failure. An error from fn
	// rolls back and is returned as it is.
	//
	// The commit does not carry ctx's cancellation: once fn has returned,
	// the outcome is awaited. ErrUnknownOutcome means the commit may or may
	// not have happened; look up an id made before to find out.
	Update(ctx context.Context, fn func(Tx) error) error

	// View runs fn on a consistent snapshot. Writes through its Tx fail.
	View(ctx context.Context, fn func(Tx) error) error

	// Listen hands over what other processes announced with Tx.Notify, until
	// ctx ends. A store that is this process's alone announces nothing and
	// just waits. After the connection was lost, fn gets a zero Notice: look
	// everywhere.
	Listen(ctx context.Context, fn func(Notice)) error

	// SafetyPoll is how often to look for work unasked; zero where nothing
	// can be missed.
	SafetyPoll() time.Duration

	// Blobs keeps what is too large for a row.
	Blobs() Blobs

	// Info describes the open store for status and doctor.
	Info(ctx context.Context) (Info, error)

	// Close waits for transactions in hand and closes. Later calls return
	// ErrClosed.
	Close() error
}

// Tx is one transaction. Its methods are grouped by table family; each takes
// and returns values of package mercury and leaves policy to its caller.
//
// Locks are taken in one order: conversation, runs (parent before child),
// delivery. The Lock methods re-read the row under its lock; on SQLite, where
// one writer runs at a time, they only read.
//
// A read of one thing that does not exist returns ErrNotFound.
type Tx interface {
	// Now is the database's clock, to the microsecond. Leases use nothing
	// else.
	Now() time.Time
	// Notify announces n to other processes when this transaction commits.
	Notify(n Notice) error

	Conversations
	Inputs
	Runs
	Steps
	Questions
	Deliveries
	Holds
	Processes
	Channels
	Ledger
	Rights
	Undo
	FileTaints
	Jobs
	Schedules
	Memories
	Meta
}

// Notice says that something changed, and where to look. It carries ids only.
type Notice struct {
	Kind string // "run", "delivery", "cancel", "question", "event"
	ID   string
}

// Blobs are immutable contents, named by their SHA-256. They are durable when
// Put returns, so a row may name them at once.
type Blobs interface {
	Put(ctx context.Context, content []byte) (ref string, err error)
	Open(ctx context.Context, ref string) (io.ReadCloser, error)
	// Sweep removes what is older than before and in keep for none.
	Sweep(ctx context.Context, before time.Time, keep func(ref string) bool) (removed int, err error)
}

// Info describes an open store.
type Info struct {
	Engine  string // "sqlite" or "postgres"
	Where   string // path, or URL without its password
	Version string // of the database engine
	Schema  int
	Bytes   int64
	Rows    map[string]int64
}

// What a store returns when it cannot do what was asked. Drivers wrap them in
// a mercury.Error that says what to do.
var (
	ErrNotFound       = errors.New("not found")
	ErrExists         = errors.New("exists already")
	ErrClosed         = errors.New("store is closed")
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	ErrDamaged        = errors.New("database is damaged")
	ErrNewer          = errors.New("database was written by a newer Mercury")
	ErrUnavailable    = errors.New("database is unreachable")
	ErrDiskFull       = errors.New("disk is full")
	ErrReadOnly       = errors.New("database cannot be written")
	ErrStale          = errors.New("written by an owner that is no longer the owner")
)
