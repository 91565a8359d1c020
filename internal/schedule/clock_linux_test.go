package schedule

import (
	"context"
	"testing"
	"time"
)

func TestTheKernelWakesAWaitAtItsTimeAndOnAKick(t *testing.T) {
	c := SystemClock()
	began := c.Now()
	c.Wait(t.Context(), began.Add(50*time.Millisecond), nil)
	if took := c.Now().Sub(began); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("it waited %v", took)
	}
	c.Wait(t.Context(), began.Add(-time.Hour), nil) // a time that is over
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	c.Wait(t.Context(), began.Add(1000*time.Hour), wake)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.Wait(ended, began.Add(1000*time.Hour), nil)
	c.Wait(ended, time.Time{}, nil)
}
