package mercury

import (
	"errors"
	"time"
)

// Kind says what can be done about a failure.
type Kind int

const (
	Unknown   Kind = iota // a surprise; record it and stop
	Transient             // wait and try again
	Invalid               // the request is wrong; change it
	Denied                // not permitted; say so, never retry
	NotFound              // no such thing
	Full                  // a queue or a disk is full; what was offered was not taken
	Conflict              // the same id with other content, or settled by someone else
	Setup                 // not configured; a person must act first
)

// Error is a failure whose cure is known. Its text names the act, in lower
// case; Help is one sentence for a person that says what to do next.
type Error struct {
	Kind  Kind
	After time.Duration // for Transient: how long the other side asked us to wait
	Help  string
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first Error in err's chain, else Unknown.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Unknown
}

// HelpOf returns the advice of the first Error in err's chain that has some.
func HelpOf(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Help != "" {
			return e.Help
		}
		err = e.Err
	}
	return ""
}
