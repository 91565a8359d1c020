package intake

import (
	"sync"
	"time"
)

// Rate bounds how often one person may write: Messages in any window of Per.
type Rate struct {
	Messages int
	Per      time.Duration
}

// limiter is a sliding window per person. It forgets people who have been
// quiet for a whole window, so its size is bounded by who wrote lately.
type limiter struct {
	rate Rate

	mu   sync.Mutex
	seen map[string][]time.Time
}

func newLimiter(r Rate) *limiter { return &limiter{rate: r, seen: map[string][]time.Time{}} }

func (l *limiter) allow(who string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) > 1000 {
		for k, times := range l.seen {
			if now.Sub(times[len(times)-1]) > l.rate.Per {
				delete(l.seen, k)
			}
		}
	}
	times := l.seen[who]
	for len(times) > 0 && now.Sub(times[0]) >= l.rate.Per {
		times = times[1:]
	}
	if len(times) >= l.rate.Messages {
		l.seen[who] = times
		return false
	}
	l.seen[who] = append(times, now)
	return true
}
