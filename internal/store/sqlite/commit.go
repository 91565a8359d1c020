package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// maxBatch bounds how many transactions share a commit, so that the first of
// them does not wait for a crowd.
const maxBatch = 64

// A request is one Update. Its callback runs in its caller's goroutine, where
// a panic belongs, and only while the committer has given it the turn.
type request struct {
	ctx     context.Context
	turn    chan *conn // the committer lends the connection
	ran     chan error // what the callback returned
	outcome chan error // of the commit
	err     error      // the callback's last
	gone    bool       // it panicked: nobody waits to run it again
}

// errGone is what a request's callback "returns" when it panicked.
var errGone = errors.New("callback did not return")

// Update waits for its turn, during which ctx may end it, and from then on for
// the outcome. It must not be called inside another Update.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{ctx: ctx, turn: make(chan *conn), ran: make(chan error), outcome: make(chan error, 1)}
	select {
	case s.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return store.ErrClosed
	}
	for {
		select {
		case c := <-r.turn:
			r.ran <- r.call(c, fn, s.words)
		case err := <-r.outcome:
			return err
		}
	}
}

// call runs the callback. When it panics, or ends its goroutine, the committer
// is told first and rolls back; then the panic goes on to the caller.
func (r *request) call(c *conn, fn func(store.Tx) error, index sqlstore.Index) error {
	returned := false
	defer func() {
		if !returned {
			r.ran <- errGone
			<-r.outcome
		}
	}()
	tx := sqlstore.NewTx(r.ctx, c, sqlstore.SQLite, false, classify).WithIndex(index)
	err := fn(tx)
	if err == nil {
		err = tx.Err()
	}
	returned = true
	return err
}

// run gives r its turn and remembers what came of it.
func (r *request) run(c *conn) error {
	r.turn <- c
	r.err = <-r.ran
	r.gone = errors.Is(r.err, errGone)
	return r.err
}

// commitLoop is the committer: the only user of the writing connection.
func (s *Store) commitLoop() {
	defer close(s.done)
	s.warm()
	for batches := 0; ; batches++ {
		select {
		case r := <-s.requests:
			s.serve(r)
		case <-s.quit:
			return
		}
		if batches%64 == 0 {
			s.trim()
		}
	}
}

// warm prepares what the first message needs, while the rest of the program
// is still being built.
func (s *Store) warm() {
	if s.enter() != nil {
		return
	}
	defer s.gate.RUnlock()
	writing, reading := sqlstore.SQLite.Everyday()
	for _, query := range writing {
		_, _ = s.writer.stmt(query) // whoever needs it tries again and tells
	}
	c, err := s.reader()
	if err != nil {
		return
	}
	for _, query := range reading {
		_, _ = c.stmt(query)
	}
	s.putBack(c)
}

// serve commits r and whoever waits by then.
func (s *Store) serve(r *request) {
	if err := s.enter(); err != nil {
		r.outcome <- err
		return
	}
	err := s.batch(r, maxBatch)
	s.gate.RUnlock()
	if err != nil {
		s.fail(err)
	}
}

// batch runs first and up to most-1 waiting requests in one transaction. The
// error is one of COMMIT, after which the connection is not to be trusted;
// everybody has been told by then.
func (s *Store) batch(first *request, most int) error {
	c := s.writer
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		first.outcome <- fmt.Errorf("begin: %w", err)
		return nil
	}
	var members []*request
	for r := first; r != nil; r = s.waiting(len(members) < most) {
		members = append(members, r)
		if s.fold(c, r) {
			continue
		}
		// The database itself rolled everything back: r has its error, the
		// others had no part in it and run again, each alone.
		r.outcome <- r.err
		for _, other := range members[:len(members)-1] {
			if other.gone {
				other.outcome <- nil
				continue
			}
			if err := s.batch(other, 1); err != nil {
				return s.abandon(members, err)
			}
		}
		return nil
	}
	for _, r := range members {
		crash.At(r.ctx, "commit.before")
	}
	if err := s.commit(c); err != nil {
		// The outcome is awaited no matter what ctx says, and the disk did
		// not tell it. What callbacks found may rest on what others wrote, so
		// even those that failed learn only this.
		c.run("ROLLBACK")
		err = fmt.Errorf("commit: %w: %w", store.ErrUnknownOutcome, err)
		for _, r := range members {
			r.outcome <- err
		}
		return err
	}
	for _, r := range members {
		crash.At(r.ctx, "commit.after")
	}
	for _, r := range members {
		r.outcome <- r.err
	}
	return nil
}

// abandon tells those members that have heard nothing yet why they will not
// run again. An outcome already told fills the channel or was received.
func (s *Store) abandon(members []*request, err error) error {
	told := fmt.Errorf("%w after an error of the disk: %w", store.ErrUnavailable, err)
	for _, r := range members {
		select {
		case r.outcome <- told:
		default:
		}
	}
	return err
}

// fold runs r inside a savepoint. It reports false when the transaction around
// it is gone.
func (s *Store) fold(c *conn, r *request) bool {
	if err := c.run("SAVEPOINT one"); err != nil {
		r.err = fmt.Errorf("begin: %w", err)
		c.run("ROLLBACK")
		return false
	}
	if r.run(c) == nil {
		err := c.run("RELEASE one")
		if err == nil {
			return true
		}
		r.err = fmt.Errorf("commit: %w", err)
	}
	if c.run("ROLLBACK TO one") == nil && c.run("RELEASE one") == nil {
		return true
	}
	c.run("ROLLBACK") // fails when it is gone already, which is the usual case
	return false
}

// waiting returns a request that waits, if more are wanted. Those just told
// their outcome get a chance to come back first.
func (s *Store) waiting(more bool) *request {
	if !more {
		return nil
	}
	select {
	case r := <-s.requests:
		return r
	default:
	}
	runtime.Gosched()
	select {
	case r := <-s.requests:
		return r
	default:
		return nil
	}
}

func (s *Store) commit(c *conn) error {
	if s.opts.commit != nil {
		return s.opts.commit(func() error { return c.run("COMMIT") })
	}
	return c.run("COMMIT")
}

// walTooLarge is when a log that readers kept from being reused is cut.
const walTooLarge = 16 << 20

// trim cuts the write-ahead log when long views let it grow.
func (s *Store) trim() {
	st, err := os.Stat(s.path + "-wal")
	if err != nil || st.Size() < walTooLarge || s.enter() != nil {
		return
	}
	defer s.gate.RUnlock()
	// A view may still need the log; then this does what it can and the next
	// time does more.
	_ = s.writer.once("PRAGMA wal_checkpoint(TRUNCATE)")
}
