package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Event is one event on the wire, the data of a server-sent event whose type
// is Type. Entry, run, question and delivery events carry the thing itself;
// delta and phase events what their type says.
type Event struct {
	Type           string    `json:"type"`
	ConversationID string    `json:"conversation_id,omitempty"`
	RunID          string    `json:"run_id,omitempty"`
	At             time.Time `json:"at"`
	Data           any       `json:"data,omitempty"`
}

// keepAlive is how often a comment is sent on a quiet stream, so that proxies
// and readers can tell quiet from dead.
const keepAlive = 15 * time.Second

// readPatience is how long a reader may take nothing of what is written to it.
// Then its stream ends: what it missed is held for nobody, and it comes back
// with a Last-Event-ID like any other.
const readPatience = 30 * time.Second

// events streams what happens as server-sent events (WHATWG HTML §9.2). It is
// a lossy window: whoever comes back with a Last-Event-ID that is gone gets a
// reset event and reads the state anew. ?conversation= narrows it.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query().Get("conversation")
	if only != "" {
		only = mercury.LocalConversation(only)
	}
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	to := &reader{ResponseWriter: w, out: http.NewResponseController(w), patience: s.opts.ReadPatience}

	// Who reads has left when this returns, whatever it still waits for.
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	stream := make(chan engine.Event, 64)
	happens := s.engine.Bus().Subscribe(ctx, after) // from here on, not from when the goroutine runs
	go func() {
		defer close(stream)
		for ev := range happens {
			select {
			case stream <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	// The first bytes tell the reader that it is listening.
	fmt.Fprint(to, ": listening\n\n")
	if to.flush() != nil {
		return
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	written := false // something was, and is not flushed
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprint(to, ": quiet\n\n")
		case ev, ok := <-stream:
			if !ok {
				return
			}
			if only == "" || ev.Type == "reset" || concerns(ev, only) {
				if err := writeEvent(to, ev); err != nil {
					return
				}
				written = true
			}
			if len(stream) > 0 || !written { // one flush for all that is at hand
				continue
			}
		}
		written = false
		if to.flush() != nil {
			return
		}
	}
}

// A reader is who an event stream is written to. A write that it does not take
// in time fails, and every later one.
type reader struct {
	http.ResponseWriter
	out      *http.ResponseController
	patience time.Duration
}

func (r *reader) Write(b []byte) (int, error) {
	_ = r.out.SetWriteDeadline(time.Now().Add(r.patience)) // a test's recorder has none
	return r.ResponseWriter.Write(b)
}

func (r *reader) flush() error {
	_ = r.out.SetWriteDeadline(time.Now().Add(r.patience))
	return r.out.Flush()
}

// concerns reports whether an event is of a conversation. Of what works for it
// in a fork, the runs, their questions and how they get on are; what is said
// there is said in the conversation too.
func concerns(ev engine.Event, conversation string) bool {
	if ev.ConversationID == conversation {
		return true
	}
	switch ev.Type {
	case "run", "question", "phase", "tool":
		return mercury.ChatOf(ev.ConversationID) == conversation
	}
	return false
}

func writeEvent(w io.Writer, ev engine.Event) error {
	body := Event{Type: ev.Type, ConversationID: ev.ConversationID, RunID: ev.RunID, At: ev.At, Data: ev.Data}
	switch d := ev.Data.(type) {
	case mercury.Entry:
		body.Data = entry(d)
	case mercury.Run:
		body.Data = run(d)
	case mercury.Question:
		body.Data = question(d)
	case mercury.Delivery:
		body.Data = delivery(d)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: ", ev.ID, ev.Type)
	if err := json.NewEncoder(&b).Encode(body); err != nil { // Encode ends with a newline and writes no other
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}
