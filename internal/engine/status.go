package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// stall is the delay of the scheduler that is worth a line in the log.
const stall = 250 * time.Millisecond

// latency is how long the scheduler takes to answer its bell.
type latency struct {
	recent time.Duration // weighted towards the newest
	worst  time.Duration
}

func (e *Engine) observe(d time.Duration) {
	e.mu.Lock()
	if e.latency.recent == 0 {
		e.latency.recent = d
	}
	e.latency.recent += (d - e.latency.recent) / 8
	e.latency.worst = max(e.latency.worst, d)
	e.mu.Unlock()
	if d >= stall {
		e.log.Warn("scheduler stalled", "for", d)
	}
}

// Status is the engine at one moment.
type Status struct {
	State      string // "idle", "working", "degraded", "draining"
	Degraded   string // why nothing is claimed, for a person
	Lanes      map[mercury.Lane]LaneStatus
	Deliveries map[mercury.DeliveryState]int // of what is not settled
	Questions  int                           // open ones
	Latency    time.Duration                 // of the scheduler, recently
	Worst      time.Duration                 // of the scheduler, since the start
	Wakes      int64                         // of scheduler and outbox, since the start; idle, they do not rise
	Processes  []store.Process
	Holds      []store.Hold
}

// LaneStatus is one lane: what stands in it anywhere, what this process has in
// hand of it and may have.
type LaneStatus struct {
	store.LaneDepth
	Here int
	Cap  int
}

// Status describes the engine now, from counts that cost little.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	s := Status{State: "idle", Lanes: map[mercury.Lane]LaneStatus{}}
	err := e.store.View(ctx, func(tx store.Tx) error {
		depths, err := tx.Depths()
		if err != nil {
			return err
		}
		for lane, d := range depths {
			s.Lanes[lane] = LaneStatus{LaneDepth: d}
			// What waits in the quiet lane waits for a quiet moment.
			if d.Running > 0 || d.Queued > 0 && lane != mercury.Quiet {
				s.State = "working"
			}
		}
		if s.Deliveries, err = tx.CountDeliveries(); err != nil {
			return err
		}
		open, err := tx.OpenQuestions("")
		if err != nil {
			return err
		}
		s.Questions = len(open)
		if s.Processes, err = tx.Processes(); err != nil {
			return err
		}
		s.Holds, err = tx.Holds()
		return err
	})
	if err != nil {
		return s, fmt.Errorf("describe engine: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for lane, n := range e.opts.Lanes {
		l := s.Lanes[lane]
		l.Here, l.Cap = e.used[lane], n
		s.Lanes[lane] = l
	}
	s.Wakes = e.wakes.Load()
	s.Latency, s.Worst, s.Degraded = e.latency.recent, e.latency.worst, e.degraded
	if s.Degraded != "" {
		s.State = "degraded"
	}
	if e.stage == draining {
		s.State = "draining"
	}
	return s, nil
}

// eventID is an event as told to other processes: ids only.
func (e *Engine) eventID(ev Event) string {
	return strings.Join([]string{e.bus.prefix, ev.Type, ev.ConversationID, ev.RunID}, "\n")
}

// relay publishes what another process told.
func (e *Engine) relay(id string) {
	f := strings.Split(id, "\n")
	if len(f) == 4 && f[0] != e.bus.prefix {
		e.bus.Publish(Event{Type: f[1], ConversationID: f[2], RunID: f[3]})
	}
}
