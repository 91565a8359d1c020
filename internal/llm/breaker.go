package llm

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// How long a provider is left alone. A refused key is tried again at growing
// distances, so that background work cannot knock for ever; a new message
// after a mended configuration finds a new Breaker or a Resume, and a person who
// is waiting may Insist.
const (
	authPause    = 5 * time.Minute
	maxAuthPause = 6 * time.Hour
	quotaPause   = 5 * time.Minute
)

// A Breaker remembers, in memory, which providers need not be asked just now.
// It is shared by all chains of a process and safe for concurrent use.
type Breaker struct {
	mu     sync.Mutex
	paused map[string]pause
}

type pause struct {
	until time.Time
	last  time.Duration
	err   *Error
}

// NewBreaker returns a Breaker that blocks nothing.
func NewBreaker() *Breaker { return &Breaker{paused: map[string]pause{}} }

// Paused returns what is wrong with a provider that is left alone, and until
// when it is.
func (b *Breaker) Paused(provider string) (*Error, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.paused[provider]; ok && time.Now().Before(p.until) {
		return p.err, p.until
	}
	return nil, time.Time{}
}

// Resume lets a provider be asked again, as after its key was changed.
func (b *Breaker) Resume(provider string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.paused {
		if key == provider || strings.HasPrefix(key, provider+"/") {
			delete(b.paused, key)
		}
	}
}

// answered forgets what was held against m.
func (b *Breaker) answered(m Model) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.paused, m.Provider)
	delete(b.paused, m.Provider+"/"+m.Name)
}

// blocked returns the error that paused m, with what is left of the pause as
// RetryAfter, or nil.
func (b *Breaker) blocked(m Model) error {
	cause, until := b.Paused(m.Provider)
	if cause == nil {
		cause, until = b.Paused(m.Provider + "/" + m.Name)
	}
	if cause == nil {
		return nil
	}
	e := *cause
	e.Model, e.RetryAfter = m.Name, time.Until(until)
	return &e
}

// note takes in a failure. A refused key and a used-up quota are the whole
// provider's; a forbidden model and a rate limit only the model's. A rate
// limit of up to short is waited for instead.
func (b *Breaker) note(m Model, e *Error, short time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := m.Provider
	if e.Class == RateLimit || e.Status == http.StatusForbidden {
		key += "/" + m.Name
	}
	p := b.paused[key]
	switch {
	case e.Class == Auth:
		if p.last = min(2*p.last, maxAuthPause); p.last == 0 {
			p.last = authPause
		}
	case e.Class == Quota:
		p.last = max(quotaPause, min(e.RetryAfter, maxAuthPause))
	case e.Class == RateLimit && e.RetryAfter > short:
		p.last = min(e.RetryAfter, maxAuthPause)
	default:
		return
	}
	p.err, p.until = e, time.Now().Add(p.last)
	b.paused[key] = p
}
