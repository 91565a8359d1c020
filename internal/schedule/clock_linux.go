package schedule

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SystemClock is the machine's. On Linux the kernel wakes it at the moment,
// also when that came while the machine slept, and whenever the clock is set:
// a wait of a month costs nothing.
func SystemClock() Clock { return kernelClock{} }

type kernelClock struct{ plainClock }

func (c kernelClock) Wait(ctx context.Context, until time.Time, wake <-chan struct{}) {
	if until.IsZero() {
		c.plainClock.Wait(ctx, until, wake)
		return
	}
	timer, err := armed(until)
	if err != nil {
		c.plainClock.Wait(ctx, until, wake)
		return
	}
	rang := make(chan struct{})
	go func() {
		defer close(rang)
		// Eight bytes when it rings, an error when the clock was set or the
		// timer was closed below: in each case it is time to look.
		var b [8]byte
		_, _ = timer.Read(b[:])
	}()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-rang:
	}
	timer.Close()
	<-rang
}

// armed is a timer of the kernel that rings at t by the wall clock.
func armed(t time.Time) (*os.File, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	// A zero time would disarm it.
	value := unix.NsecToTimespec(max(t.UnixNano(), 1))
	err = unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &unix.ItimerSpec{Value: value}, nil)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "timer"), nil
}
