package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Event is one line of the lossy stream. Losing it loses nothing: whatever
// matters is in the store.
type Event struct {
	ID             string
	Type           string // "entry", "run", "delta", "phase", "tool", "question", "delivery", "reset", "status"
	ConversationID string
	RunID          string
	At             time.Time
	// Data is a mercury.Entry, Run, Question or Delivery by type, or what the
	// publisher of the type defines. It is nil for what another process did:
	// look it up.
	Data any
}

// The ring keeps this much, so that whoever comes back within moments misses
// nothing.
const (
	busBytes  = 256 << 10 // some forty turns
	busEvents = 4096
)

// A Bus is a bounded ring of events. Publishing never waits for a reader.
type Bus struct {
	prefix string // makes ids of other processes and former lives unknown

	mu    sync.Mutex
	ring  []Event
	sizes []int
	first int64 // sequence of ring[0]
	bytes int
	news  chan struct{} // closed at the next event; nil while nobody waits
}

func newBus(process string) *Bus {
	return &Bus{prefix: strings.TrimPrefix(process, "ps_"), first: 1}
}

// Publish adds ev, filling ID and At.
func (b *Bus) Publish(ev Event) {
	size := sizeOf(ev)
	b.mu.Lock()
	defer b.mu.Unlock()
	ev.ID = b.id(b.first + int64(len(b.ring)))
	if ev.At.IsZero() {
		ev.At = time.Now().UTC()
	}
	b.ring, b.sizes, b.bytes = append(b.ring, ev), append(b.sizes, size), b.bytes+size
	for len(b.ring) > 1 && (b.bytes > busBytes || len(b.ring) > busEvents) {
		b.bytes -= b.sizes[0]
		b.ring[0] = Event{}
		b.ring, b.sizes, b.first = b.ring[1:], b.sizes[1:], b.first+1
	}
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
}

// Subscribe yields the events after the one with id after (empty: from now)
// until ctx ends. Whoever asks for an id that is not in the ring, or falls
// behind it, gets a "reset" event first: read the state anew, then go on.
func (b *Bus) Subscribe(ctx context.Context, after string) iter.Seq[Event] {
	b.mu.Lock()
	end := b.first + int64(len(b.ring))
	next, known := end, true
	if after != "" {
		next, known = b.seq(after)
		known = known && next >= b.first && next <= end
	}
	b.mu.Unlock()
	return func(yield func(Event) bool) {
		for {
			b.mu.Lock()
			end := b.first + int64(len(b.ring))
			if !known || next < b.first {
				next, known = end, true
				ev := Event{ID: b.id(end - 1), Type: "reset", At: time.Now().UTC()}
				b.mu.Unlock()
				if !yield(ev) {
					return
				}
				continue
			}
			if next < end {
				ev := b.ring[next-b.first]
				next++
				b.mu.Unlock()
				if ctx.Err() != nil || !yield(ev) {
					return
				}
				continue
			}
			if b.news == nil {
				b.news = make(chan struct{})
			}
			news := b.news
			b.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-news:
			}
		}
	}
}

func (b *Bus) id(seq int64) string { return fmt.Sprintf("%s-%d", b.prefix, seq) }

// seq returns the sequence after the event with this id.
func (b *Bus) seq(id string) (int64, bool) {
	prefix, n, _ := strings.Cut(id, "-")
	seq, err := strconv.ParseInt(n, 10, 64)
	return seq + 1, err == nil && prefix == b.prefix
}

// sizeOf estimates the memory an event holds.
func sizeOf(ev Event) int {
	const base = 256
	switch d := ev.Data.(type) {
	case string:
		return base + len(d)
	case json.RawMessage:
		return base + len(d)
	case []byte:
		return base + len(d)
	case mercury.Entry:
		return base + len(d.Text) + len(d.Data)
	case mercury.Run:
		return 2*base + len(d.Input) + len(d.Result)
	case mercury.Question:
		return 2*base + len(d.Title) + len(d.Body)
	case mercury.Delivery:
		return 2*base + 2*len(d.Text)
	}
	return 2 * base
}
