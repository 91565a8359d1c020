package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
)

// A listener is a client with an open event stream, as the terminal is one.
type listener struct {
	*house
	events chan arrival
	cancel context.CancelFunc
	err    error // why events was closed
}

// arrival is an event and when it was read.
type arrival struct {
	client.Event
	at time.Time
}

// listen opens the event stream and returns when Mercury listens to us.
func (r *house) listen(ctx context.Context) (*listener, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{house: r, events: make(chan arrival, 1024), cancel: cancel}
	ready := make(chan struct{})
	go func() {
		defer close(l.events)
		for ev, err := range r.Events(ctx, "", "", func() { close(ready) }) {
			if err != nil {
				l.err = err
				return
			}
			l.events <- arrival{ev, time.Now()}
		}
	}()
	select {
	case <-ready:
		return l, nil
	case <-time.After(patience):
		cancel()
		return nil, errors.New("the event stream did not open")
	}
}

// close ends the stream and waits for its end.
func (l *listener) close() {
	l.cancel()
	for range l.events {
	}
}

// turn is what one message took, from the moment it was handed to the client.
type turn struct {
	accepted, first, done time.Duration
}

// say sends a message and waits for the end of its turn.
func (l *listener) say(ctx context.Context, conversation, text string) (turn, error) {
	began := time.Now()
	sent, err := l.Send(ctx, conversation, client.Message{Text: text})
	if err != nil {
		return turn{}, err
	}
	t := turn{accepted: time.Since(began)}
	if sent.RunID == nil {
		return t, errors.New("the conversation was busy")
	}
	late := time.After(patience)
	for {
		select {
		case ev, ok := <-l.events:
			if !ok {
				return t, fmt.Errorf("the event stream ended: %w", l.err)
			}
			if ev.RunID != *sent.RunID {
				continue
			}
			if ev.Type == "delta" && t.first == 0 {
				t.first = ev.at.Sub(began)
			}
			if ev.Type != "run" {
				continue
			}
			var run struct{ State, Error string }
			if err := json.Unmarshal(ev.Data, &run); err != nil {
				return t, err
			}
			switch run.State {
			case "queued", "running":
			case "done":
				if t.first == 0 {
					return t, errors.New("the turn ended without a word")
				}
				t.done = ev.at.Sub(began)
				return t, nil
			default:
				return t, fmt.Errorf("the turn ended as %s: %s", run.State, run.Error)
			}
		case <-late:
			return t, errors.New("the turn did not end")
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
}

// converse has n turns, twenty to a conversation, and returns the times to the
// first token, to the acknowledgement and to the end in milliseconds.
func (l *listener) converse(ctx context.Context, name string, n int) (first, accepted, done []float64, err error) {
	for i := range n {
		t, err := l.say(ctx, fmt.Sprintf("%s-%d", name, i/20), "hello")
		if err != nil {
			return nil, nil, nil, fmt.Errorf("turn %d: %w", i+1, err)
		}
		first, accepted, done = append(first, ms(t.first)), append(accepted, ms(t.accepted)), append(done, ms(t.done))
	}
	return first, accepted, done, nil
}
