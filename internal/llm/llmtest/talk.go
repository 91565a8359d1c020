package llmtest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// wait sleeps unless the client goes away first.
func (t *talk) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.r.Context().Done():
		return false
	}
}

func (t *talk) hang() time.Duration {
	if t.rule.HangS > 0 {
		return time.Duration(t.rule.HangS * float64(time.Second))
	}
	return time.Hour
}

// plain answers with status and body as they stand.
func (t *talk) plain(status int, body string) {
	kind := "application/json"
	if len(body) > 0 && body[0] == '<' {
		kind = "text/html"
	}
	t.w.Header().Set("Content-Type", kind)
	t.w.WriteHeader(status)
	io.WriteString(t.w, body)
}

// fail answers with a failing status in the wire's own shape.
func (t *talk) fail(status int, code, message string, after float64) {
	if message == "" {
		message = "scripted fault"
	}
	if after > 0 {
		t.w.Header().Set("Retry-After", strconv.FormatFloat(after, 'f', -1, 64))
	}
	if t.wire == llm.AnthropicWire {
		if code == "" {
			code = map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}[status]
		}
		if code == "" {
			code = "api_error"
		}
		t.plain(status, encode(map[string]any{"type": "error", "error": map[string]any{"type": code, "message": message}}))
		return
	}
	var c any
	if code != "" {
		c = code
	}
	t.plain(status, encode(map[string]any{"error": map[string]any{"message": message, "type": "fault", "param": nil, "code": c}}))
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own maps come here
	}
	return string(b)
}

// reset breaks the connection with a TCP reset.
func (t *talk) reset() {
	conn, _, err := http.NewResponseController(t.w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

var word = regexp.MustCompile(`\S+\s*|\s+`)

// pieces splits text as a model's tokens arrive.
func pieces(text string) []string { return word.FindAllString(text, -1) }

// counts are the tokens of this answer.
func (t *talk) counts() Usage {
	if t.rule.Usage != nil {
		return *t.rule.Usage
	}
	out := llm.EstimateText(t.rule.Reply) + llm.EstimateText(t.rule.Reasoning)
	for _, c := range t.rule.Tools {
		out += llm.EstimateText(c.text()) + 8
	}
	in := max(1, len(t.body)/4)
	return Usage{Input: in, Output: max(1, out), Cached: min(in, t.cached/4)}
}

// begin sends the headers of a stream.
func (t *talk) begin() bool {
	t.w.Header().Set("Content-Type", "text/event-stream")
	t.w.WriteHeader(http.StatusOK)
	http.NewResponseController(t.w).Flush()
	if t.rule.Fault == Silent {
		t.wait(t.hang())
		return false
	}
	return t.wait(time.Duration(t.rule.FirstMS) * time.Millisecond)
}

// send writes one event and flushes it; false when the client is gone.
func (t *talk) send(event, data string) bool {
	if event != "" {
		event = "event: " + event + "\n"
	}
	if _, err := io.WriteString(t.w, event+"data: "+data+"\n\n"); err != nil {
		return false
	}
	return http.NewResponseController(t.w).Flush() == nil
}

// each hands the pieces of text to put, with the rule's pauses and faults; it
// returns false when the answer ends there.
func (t *talk) each(text string, put func(string) bool) bool {
	words := pieces(text)
	for i, w := range words {
		if i > 0 && !t.wait(time.Duration(t.rule.TokenMS)*time.Millisecond) {
			return false
		}
		if i >= max(1, len(words)/2) {
			switch t.rule.Fault {
			case CutText, Truncate:
				return false
			case ResetMid:
				t.reset()
				return false
			case ErrorEvent:
				t.errorEvent()
				return false
			case BadJSON:
				t.send("", `{"choices":[{"delta":{"content":"x"`+"\x01"+`}`)
				return false
			}
		}
		if !put(w) {
			return false
		}
	}
	return true
}

func (t *talk) errorEvent() {
	if t.wire == llm.AnthropicWire {
		t.send("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		return
	}
	t.send("", `{"error":{"message":"Provider returned error","code":502}}`)
}

// args hands the pieces of a call's arguments to put.
func (t *talk) args(text string, put func(string) bool) bool {
	const size = 40
	for i := 0; i < len(text); i += size {
		end := min(i+size, len(text))
		if t.rule.Fault == CutArgs || t.rule.Fault == Truncate {
			put(text[i:max(i+1, min(end, len(text)*2/3))])
			return false
		}
		if !put(text[i:end]) {
			return false
		}
	}
	return true
}
