package schedule

import (
	"context"
	"time"
)

// A Clock tells the wall clock's time and waits by it.
type Clock interface {
	Now() time.Time
	// Wait returns when the wall clock shows until or later (zero: never),
	// when it was set, when wake has something, which is taken, or when ctx
	// ends; it may return early.
	Wait(ctx context.Context, until time.Time, wake <-chan struct{})
}

// look is how long a wait lasts at most where the system does not tell that
// its clock was set, or that it slept.
const look = 30 * time.Second

// A plainClock waits with timers, which neither know that the clock was set
// nor count the time a machine sleeps: it looks again now and then.
type plainClock struct{}

func (plainClock) Now() time.Time { return time.Now().Round(0) }

func (plainClock) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) {
	var at <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(min(max(until.Sub(time.Now().Round(0)), 0), look))
		defer t.Stop()
		at = t.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-at:
	}
}
