package backup

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Held is what waits for a person's word after a copy was brought back.
type Held struct {
	Restored
	Deliveries []mercury.Delivery
	Runs       []mercury.Run
	Waiting    []string // of the other parts, a line each
}

// FindHeld lists what is held, or returns nil when nothing was restored.
func FindHeld(tx store.Tx, parts []Part) (*Held, error) {
	text, err := fact(tx, restoredKey)
	if err != nil || text == "" {
		return nil, err
	}
	h := &Held{}
	if err := json.Unmarshal([]byte(text), &h.Restored); err != nil {
		return nil, fmt.Errorf("read that it was restored: %w", err)
	}
	o, err := engine.FindOutdated(tx)
	if err != nil {
		return nil, err
	}
	h.Deliveries, h.Runs = o.Deliveries, o.Runs
	for _, p := range parts {
		lines, err := p.Waiting(tx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", p.Name, err)
		}
		for _, line := range lines {
			h.Waiting = append(h.Waiting, p.Name+": "+line)
		}
	}
	return h, nil
}

// Resume lets everything that is held go on, or with discard ends it, and
// returns what that was. From then on it is an ordinary home. A home that
// nothing is held in gives a mercury.Conflict.
func Resume(tx *engine.Tx, parts []Part, discard bool, by mercury.Actor) (*Held, error) {
	h, err := FindHeld(tx, parts)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("nothing is held"),
			Help: "Only a home that was restored from a backup is held back; this one works."}
	}
	if _, err := tx.ResumeOutdated(discard, by); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := p.Resume(tx, discard); err != nil {
			return nil, fmt.Errorf("resume %s: %w", p.Name, err)
		}
	}
	if err := tx.SetMeta(takenKey, tx.Now().Format(time.RFC3339Nano)); err != nil {
		return nil, err
	}
	return h, tx.SetMeta(restoredKey, "")
}

// TakenUp is when a restored home was resumed; zero if it never was. What
// people wrote before that was perhaps answered by the original: it is to be
// kept, and not acted on.
func TakenUp(tx store.Tx) (time.Time, error) {
	text, err := fact(tx, takenKey)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when it was taken up: %w", err)
	}
	return at, nil
}
