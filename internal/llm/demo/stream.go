package demo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

type obj = map[string]any

// stream writes an answer as Chat Completions chunks.
type stream struct {
	w     http.ResponseWriter
	ctx   context.Context
	id    string
	pause time.Duration
}

func (s *stream) answer(a answer, bytes int) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	if !s.delta(obj{"role": "assistant", "content": ""}, nil) {
		return
	}
	for i, word := range strings.SplitAfter(a.text, " ") {
		if i > 0 && !s.wait() || !s.delta(obj{"content": word}, nil) {
			return
		}
	}
	finish := "stop"
	if a.tool != "" {
		finish = "tool_calls"
		s.delta(obj{"tool_calls": []obj{a.call()}}, nil)
	}
	s.delta(obj{}, finish)
	s.event(obj{"id": s.id, "object": "chat.completion.chunk", "created": 1, "model": Model, "choices": []obj{}, "usage": usage(a, bytes)})
	_, _ = io.WriteString(s.w, "data: [DONE]\n\n") // a client that is gone needs no end
}

func (a answer) call() obj {
	args, err := json.Marshal(a.args)
	if err != nil {
		panic(err) // our own strings and numbers only
	}
	return obj{"index": 0, "id": a.id, "type": "function", "function": obj{"name": a.tool, "arguments": string(args)}}
}

func (s *stream) wait() bool {
	t := time.NewTimer(s.pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *stream) delta(d obj, finish any) bool {
	return s.event(obj{"id": s.id, "object": "chat.completion.chunk", "created": 1, "model": Model,
		"choices": []obj{{"index": 0, "delta": d, "finish_reason": finish}}})
}

func (s *stream) event(v obj) bool {
	b, err := json.Marshal(v)
	if err != nil {
		return false
	}
	if _, err := s.w.Write([]byte("data: " + string(b) + "\n\n")); err != nil {
		return false
	}
	return http.NewResponseController(s.w).Flush() == nil
}

// whole writes an answer as one body.
func whole(w http.ResponseWriter, a answer, bytes int) {
	m := obj{"role": "assistant", "content": a.text}
	finish := "stop"
	if a.tool != "" {
		finish = "tool_calls"
		m["tool_calls"] = []obj{a.call()}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj{"id": "demo", "object": "chat.completion", "created": 1, "model": Model,
		"choices": []obj{{"index": 0, "message": m, "finish_reason": finish}}, "usage": usage(a, bytes)})
}

// usage counts four bytes as a token; a demonstration costs nothing.
func usage(a answer, bytes int) obj {
	in, out := bytes/4, len(a.text)/4+1
	return obj{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
}
