// Package relaytest is a scripted bridge: the other end of the relay wire, for
// tests. It is as strict as a real one: it wants the token, forgets updates
// only when a poll's cursor has passed them, offers the rest again, counts
// UTF-16 units, and never hides a repeated message.
package relaytest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf16"
)

// Sent is a message the bridge was asked to show.
type Sent struct {
	Request      string `json:"request"`
	Conversation string `json:"conversation"`
	Text         string `json:"text"`
	Kind         string `json:"kind"`
	Shown        bool   `json:"shown"` // false: refused
}

// Fault is what to do with the next message instead of showing it.
type Fault string

const (
	Drop        Fault = "drop"        // show it, then cut the connection
	DropBefore  Fault = "drop-before" // cut the connection without showing it
	Refuse      Fault = "400"         // Bad Request
	Flood       Fault = "429"         // Too Many Requests, Retry-After: 1
	Broken      Fault = "500"         // Internal Server Error after showing it
	Unavailable Fault = "503"         // Service Unavailable, Retry-After: 1
)

// Update is a message for Mercury.
type Update struct {
	ID           string         `json:"id"`
	Conversation string         `json:"conversation"`
	Sender       map[string]any `json:"sender"`
	Text         string         `json:"text"`
	Direct       bool           `json:"direct"`
	At           time.Time      `json:"at"`
}

// Server is the bridge. Its handler serves the relay wire, and under /script/
// the strings that a test pulls when the bridge runs as a process of its own.
type Server struct {
	Token string // wanted from each request; empty wants none
	Limit int    // longest text in UTF-16 units; 0 is 4,096

	mu      sync.Mutex
	next    int
	updates []Update
	sent    []Sent
	cursors []string
	faults  []Fault
	arrived chan struct{} // closed and replaced at each new update
}

// Push adds an update from sender "ann" and returns its id.
func (s *Server) Push(conversation, text string) string {
	return s.PushFrom("ann", conversation, text)
}

// PushFrom adds an update from the given sender.
func (s *Server) PushFrom(sender, conversation, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	u := Update{ID: strconv.Itoa(s.next), Conversation: conversation, Text: text, Direct: true, At: time.Now(),
		Sender: map[string]any{"id": sender, "name": sender}}
	s.updates = append(s.updates, u)
	s.wake()
	return u.ID
}

// Redeliver offers the update with this id again, as platforms do.
func (s *Server) Redeliver(id, conversation, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, Update{ID: id, Conversation: conversation, Text: text, Direct: true, At: time.Now(),
		Sender: map[string]any{"id": "ann", "name": "ann"}})
	s.wake()
}

// Fail lines up faults for the next messages.
func (s *Server) Fail(f ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f...)
}

// Sent returns what it was asked to show so far.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sent(nil), s.sent...)
}

// Cursors returns the distinct cursors polled with, in order.
func (s *Server) Cursors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.cursors...)
}

func (s *Server) wake() {
	if s.arrived != nil {
		close(s.arrived)
		s.arrived = nil
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /script/push":
		conversation, text, sender := r.FormValue("conversation"), r.FormValue("text"), r.FormValue("sender")
		if sender == "" {
			sender = "ann"
		}
		fmt.Fprint(w, s.PushFrom(sender, conversation, text))
		return
	case "POST /script/fail":
		s.Fail(Fault(r.FormValue("fault")))
		return
	case "GET /script/sent":
		_ = json.NewEncoder(w).Encode(s.Sent())
		return
	}
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /updates":
		s.poll(w, r)
	case "POST /messages":
		s.show(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) poll(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	seconds, err := strconv.Atoi(r.URL.Query().Get("wait"))
	if err != nil || seconds < 0 {
		http.Error(w, "wait is not a number of seconds", http.StatusBadRequest)
		return
	}
	deadline := time.After(time.Duration(seconds) * time.Second)
	for {
		s.mu.Lock()
		if n := len(s.cursors); n == 0 || s.cursors[n-1] != after {
			s.cursors = append(s.cursors, after)
		}
		s.forget(after)
		if len(s.updates) > 0 {
			batch := append([]Update(nil), s.updates[:min(len(s.updates), 100)]...)
			s.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"updates": batch})
			return
		}
		if s.arrived == nil {
			s.arrived = make(chan struct{})
		}
		arrived := s.arrived
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-deadline:
			_, _ = w.Write([]byte(`{"updates":[]}`))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// forget drops the updates up to and including the cursor.
func (s *Server) forget(after string) {
	for i, u := range s.updates {
		if u.ID == after {
			s.updates = s.updates[i+1:]
			return
		}
	}
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	var m Sent
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.Request == "" || m.Conversation == "" || m.Text == "" {
		http.Error(w, "want request, conversation and text", http.StatusBadRequest)
		return
	}
	limit := s.Limit
	if limit == 0 {
		limit = 4096
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(utf16.Encode([]rune(m.Text))) > limit {
		s.sent = append(s.sent, m)
		http.Error(w, "message is too long", http.StatusBadRequest)
		return
	}
	var fault Fault
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	m.Shown = fault == "" || fault == Drop || fault == Broken
	s.sent = append(s.sent, m)
	switch fault {
	case Drop, DropBefore:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	case Refuse:
		http.Error(w, "not in this room", http.StatusBadRequest)
	case Flood:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case Unavailable:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "back soon", http.StatusServiceUnavailable)
	case Broken:
		http.Error(w, "something broke", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"receipt": fmt.Sprintf("m-%d", len(s.sent))})
	}
}
