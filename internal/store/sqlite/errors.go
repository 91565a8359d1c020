package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// classify turns SQLite's errors into the store's.
func classify(err error) error {
	var e *sqlite.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case code.SQLITE_CONSTRAINT:
		switch e.Code() {
		case code.SQLITE_CONSTRAINT_UNIQUE, code.SQLITE_CONSTRAINT_PRIMARYKEY:
			return fmt.Errorf("%w: %w", store.ErrExists, err)
		}
	case code.SQLITE_CORRUPT, code.SQLITE_NOTADB:
		return damaged(err)
	case code.SQLITE_FULL:
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("%w: %w", store.ErrDiskFull, err),
			Help: helpFull}
	case code.SQLITE_READONLY, code.SQLITE_CANTOPEN, code.SQLITE_PERM:
		return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err),
			Help: helpReadOnly}
	}
	return err
}

func damaged(err error) error {
	return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("%w: %w", store.ErrDamaged, err),
		Help: "Nothing was changed. Put a copy of mercury.db back, or move mercury.db and its -wal file away to begin anew."}
}

const (
	helpFull     = "Free some space on the disk that holds Mercury's home; nothing that was accepted is lost."
	helpReadOnly = "Make Mercury's home and mercury.db writable for the user Mercury runs as."
)
