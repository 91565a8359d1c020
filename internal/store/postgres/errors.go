package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// An againError is one that another try of the whole transaction may not meet.
type againError struct {
	err  error
	lost bool // the connection is gone
}

func (e *againError) Error() string { return e.err.Error() }
func (e *againError) Unwrap() error { return e.err }

// errConnect marks failures to get a connection at all.
var errConnect = errors.New("connect")

// classify turns PostgreSQL's errors into the store's. Codes are those of its
// manual, appendix A.
func classify(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		if isLost(err) {
			return &againError{err: unavailable(err), lost: true}
		}
		return err
	}
	switch {
	case e.Code == "23505": // unique_violation
		return fmt.Errorf("%w: %w", store.ErrExists, err)
	case e.Code == "40001", e.Code == "40P01", // serialization_failure, deadlock_detected
		e.Code == "0A000" && strings.Contains(e.Message, "cached plan"): // someone migrated meanwhile
		return &againError{err: &mercury.Error{Kind: mercury.Transient, Err: err}}
	case isGoodbye(e.Code):
		return &againError{err: unavailable(err), lost: true}
	case e.Code == "55P03", e.Code == "57014": // lock_not_available, query_canceled
		return &mercury.Error{Kind: mercury.Transient, Err: err}
	case e.Code == "53100": // disk_full
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("%w: %w", store.ErrDiskFull, err),
			Help: "Free some space on the database server's disk; nothing that was accepted is lost."}
	case e.Code == "25006": // read_only_sql_transaction
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err),
			Help: "database.url names a standby: point it at the primary server."}
	case strings.HasPrefix(e.Code, "28"), e.Code == "3D000", e.Code == "42501": // authorization, no such database, no right
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrUnavailable, err),
			Help: "Check user, password and database name in database.url, and the user's rights in that database."}
	case strings.HasPrefix(e.Code, "XX"): // internal_error, data_corrupted, index_corrupted
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrDamaged, err),
			Help: "The database server reports damage: restore it from its own backup."}
	}
	return err
}

// isGoodbye reports codes with which a server ends a connection or refuses
// one: connection exceptions, shutdown, restart, too many connections.
func isGoodbye(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == "53300"
}

// isLost reports whether err means that the connection is gone.
func isLost(err error) bool {
	var netErr net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.As(err, &netErr) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed")
}

func unavailable(err error) error {
	return &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%w: %w", store.ErrUnavailable, err),
		Help: "Check that the database server runs and that database.url names it; Mercury tries again by itself."}
}

// beginError is classify for a transaction that did not begin.
func beginError(err error) error {
	err = fmt.Errorf("begin: %w", classify(err))
	var connect *pgconn.ConnectError
	var again *againError
	if errors.As(err, &connect) && errors.As(err, &again) {
		return &againError{err: fmt.Errorf("%w: %w", errConnect, again.err), lost: true}
	}
	return err
}

// commitError is classify for COMMIT. Only the server's own word that it
// rolled back is an outcome; a connection that ended meanwhile is none, not
// even when the server said goodbye, for it may do so after committing.
func commitError(err error) error {
	var e *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("commit: an error was passed over before: %w", err)
	case errors.As(err, &e) && !isGoodbye(e.Code):
		return fmt.Errorf("commit: %w", classify(err))
	}
	return &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("commit: %w: %w", store.ErrUnknownOutcome, err),
		Help: "The connection to the database ended during a commit; Mercury looks up what became of it."}
}
