package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Limit is how much one person may write and use. Zero fields mean no limit of
// their own.
type Limit struct {
	PerMinute   int   // messages
	DailyTokens int64 // input and output, since midnight
}

// over is why a message is not taken: its sender wrote too often, or has used
// up the day. Owners have no limit, and admins none unless they are given one.
func (i *Intake) over(ctx context.Context, m mercury.Message) (why, err error) {
	a := m.Sender
	if a.Role == mercury.Owner || m.Mode == mercury.Write {
		return nil, nil
	}
	var l Limit
	if i.opts.Limit != nil {
		l = i.opts.Limit(a)
	}
	rate := i.opts.Rate
	if l.PerMinute > 0 {
		rate = Rate{Messages: l.PerMinute, Per: time.Minute}
	}
	if (l.PerMinute > 0 || !a.Trusted()) && !i.rate.allow(m.Channel+"/"+a.ID, rate, time.Now()) {
		return &mercury.Error{Kind: mercury.Full, Err: errors.New("rate limit exceeded"), Help: "Try again shortly."}, nil
	}
	if l.DailyTokens <= 0 {
		return nil, nil
	}
	var used int64
	err = i.engine.View(ctx, func(tx store.Tx) error {
		used, err = Used(tx, a, i.opts.Zone)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count a person's tokens: %w", err)
	}
	if used >= l.DailyTokens {
		return &mercury.Error{Kind: mercury.Full, Err: fmt.Errorf("today's %d tokens are used up", l.DailyTokens), Help: "Try again tomorrow."}, nil
	}
	return nil, nil
}

// Used is what a person's runs have used since midnight in zone, in tokens.
func Used(tx store.Tx, a mercury.Actor, zone *time.Location) (int64, error) {
	now := tx.Now().In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, zone)
	var used int64
	for f := (store.RunFilter{Page: store.Page{Limit: 1000}}); ; {
		runs, next, err := tx.Runs(f)
		if err != nil {
			return 0, err
		}
		for _, r := range runs {
			if r.CreatedAt.Before(midnight) {
				return used, nil
			}
			if r.Actor.ID == a.ID && r.Actor.Channel == a.Channel && r.Actor.Role == a.Role {
				used += r.Usage.Input + r.Usage.Output
			}
		}
		if f.After = next; next == "" {
			return used, nil
		}
	}
}

// Rate bounds how often one person may write: Messages in any window of Per.
type Rate struct {
	Messages int
	Per      time.Duration
}

// limiter is a sliding window per person. It forgets people who have been
// quiet for a whole window, so its size is bounded by who wrote lately.
type limiter struct {
	mu   sync.Mutex
	seen map[string][]time.Time
}

func newLimiter() *limiter { return &limiter{seen: map[string][]time.Time{}} }

func (l *limiter) allow(who string, rate Rate, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) > 1000 {
		for k, times := range l.seen {
			if now.Sub(times[len(times)-1]) > rate.Per {
				delete(l.seen, k)
			}
		}
	}
	times := l.seen[who]
	for len(times) > 0 && now.Sub(times[0]) >= rate.Per {
		times = times[1:]
	}
	if len(times) >= rate.Messages {
		l.seen[who] = times
		return false
	}
	l.seen[who] = append(times, now)
	return true
}
