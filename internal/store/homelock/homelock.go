// Package homelock makes one process the owner of a home. The lock is the
// operating system's, so it ends with its process, however that ends; the
// file's content only says who has it.
package homelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// FileName is the lock's file in a home.
const FileName = "mercury.lock"

// A Lock is held until Release or the process's end.
type Lock struct{ file *os.File }

// Holder is who has a lock.
type Holder struct {
	PID     int    `json:"pid"`
	Address string `json:"address,omitempty"` // where its API listens, if it said so
}

// HeldError says that another process has the lock.
type HeldError struct {
	Path   string
	Holder Holder
}

func (e *HeldError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("lock %s: another process has it", e.Path)
	}
	if e.Holder.Address == "" {
		return fmt.Sprintf("lock %s: process %d has it", e.Path, e.Holder.PID)
	}
	return fmt.Sprintf("lock %s: process %d has it and listens on %s", e.Path, e.Holder.PID, e.Holder.Address)
}

// errHeld is what the platform's tryLock returns when someone has the lock.
var errHeld = errors.New("held")

// heirPatience is how long the lock of a process that is gone may still be held:
// a program that it was just starting when it was killed has a copy of the open
// file until it has begun.
const heirPatience = 2 * time.Second

// Take locks the home dir for this process and writes down its id and address.
// The error is a *HeldError when another process has it; it is not waited for.
func Take(dir, address string) (*Lock, error) {
	path := filepath.Join(dir, FileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock home: %w", err)
	}
	err = tryLock(f)
	for begun := time.Now(); errors.Is(err, errHeld) && time.Since(begun) < heirPatience && gone(read(f).PID); err = tryLock(f) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		held := &HeldError{Path: path, Holder: read(f)}
		return nil, &mercury.Error{Kind: mercury.Conflict, Err: held,
			Help: "Another Mercury runs in this home: use it, or stop it with `mercury stop`."}
	}
	l := &Lock{f}
	if err := l.Announce(address); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// Held reports whether a process has the lock of the home dir now, and who
// wrote down last that it has. It writes nothing. For the moment it takes
// nobody else gets the lock.
func Held(dir string) (bool, Holder) {
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR, 0)
	if err != nil {
		return false, Holder{}
	}
	defer f.Close()
	held := errors.Is(tryLock(f), errHeld)
	if !held {
		_ = unlock(f) // closing would do it too
	}
	return held, read(f)
}

// Announce writes down where this process can be reached, for those who find
// the lock held.
func (l *Lock) Announce(address string) error {
	b, err := json.Marshal(Holder{PID: os.Getpid(), Address: address})
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(b, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	return nil
}

// Release gives the lock up. The file stays: removing it would let two
// processes lock two files of one name. The lock itself is given up before the
// file is closed: a program that this process is just starting holds a copy of
// the open file for a moment, and would keep the home taken that long.
func (l *Lock) Release() error { return errors.Join(unlock(l.file), l.file.Close()) }

// Read returns who wrote down last that it has the lock of the home dir; zero
// if nobody did. That process may be gone: only Take can tell.
func Read(dir string) Holder {
	f, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	return read(f)
}

// read returns what the holder wrote; zero if it has not yet.
func read(f *os.File) Holder {
	var h Holder
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Holder{}
	}
	return h
}
