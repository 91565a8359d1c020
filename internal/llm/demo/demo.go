// Package demo is a small scripted model behind the real OpenAI wire on
// loopback. It lets a person try Mercury without a key: it understands a few
// kinds of requests by plain rules, uses the real tools for them, and says
// that it is no artificial intelligence.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Model is the name under which the demonstration model answers.
const Model = "demo"

// Line is one step of the tour: what a person types and what it shows.
type Line struct {
	Type  string
	Shows string
}

// Tour is what the first screen proposes, in order. It takes under a minute.
func Tour() []Line {
	return []Line{
		{"what is in this folder?", "it looks and tells you"},
		{"fix the typo in notes.txt", "it proposes an edit and asks you"},
		{"run date", "it runs a harmless command at once"},
		{"remember that the bread is in the oven", "it keeps a note in notes.md"},
		{"count slowly to 12", "a long answer; meanwhile type: kill"},
	}
}

// NotesFile is what the tour mends, and Notes what stands in it, with one
// word misspelt.
const (
	NotesFile = "notes.txt"
	Notes     = "Shopping: bread, tomatos, olive oil.\nMercury goes on where it was, also after it was killed.\n"
)

// Options tune the model. A zero field means its default.
type Options struct {
	Pause time.Duration // between the words of an answer; default 15 ms
	Slow  time.Duration // between the numbers when it counts slowly; default 700 ms
}

// Serve answers on l until ctx ends. The base URL of the wire is
// http://ADDRESS/v1, any key is accepted, and the model's name is Model.
func Serve(ctx context.Context, l net.Listener) error { return Options{}.Serve(ctx, l) }

// Serve is Serve with options.
func (o Options) Serve(ctx context.Context, l net.Listener) error {
	if o.Pause == 0 {
		o.Pause = 15 * time.Millisecond
	}
	if o.Slow == 0 {
		o.Slow = 700 * time.Millisecond
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, Model)
	})
	mux.HandleFunc("POST /v1/chat/completions", o.complete)
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve demonstration model: %w", err)
	}
	return nil
}

// maxBody bounds a request; a demonstration's conversation is far smaller.
const maxBody = 16 << 20

func (o Options) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "the request is too large for the demonstration model")
		return
	}
	var req request
	if err := json.Unmarshal(body, &req); err != nil || len(req.Messages) == 0 {
		refuse(w, http.StatusBadRequest, "the request cannot be read")
		return
	}
	a := reply(req.scene())
	if !req.Stream {
		whole(w, a, len(body))
		return
	}
	s := &stream{w: w, ctx: r.Context(), id: fmt.Sprintf("demo-%d", len(req.Messages)), pause: o.Pause}
	if a.slow {
		s.pause = o.Slow
	}
	s.answer(a, len(body))
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(obj{"error": obj{"message": message, "type": "invalid_request_error", "code": nil}})
}
