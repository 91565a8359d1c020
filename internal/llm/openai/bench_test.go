package openai

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// long is a request of an ordinary size: eight tools and forty messages.
func long() llm.Request {
	req := question("m")
	req.System = []string{strings.Repeat("Be kind and brief. ", 150)}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		req.Tools = append(req.Tools, llm.Tool{Name: name, Description: strings.Repeat("does something ", 10), Schema: req.Tools[0].Schema})
	}
	for range 20 {
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.Text, Text: strings.Repeat("An answer with \"quotes\".\n", 20)}}},
			llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "And then?"}}})
	}
	return req
}

func BenchmarkEncode(b *testing.B) {
	c, req := New(Options{Provider: "openai"}), long()
	b.ReportAllocs()
	for b.Loop() {
		if len(c.encode(req)) == 0 {
			b.Fatal("empty")
		}
	}
}

// BenchmarkFirstToken is the time from the call to the first event, over
// loopback, less what the same exchange takes without this package.
func BenchmarkFirstToken(b *testing.B) {
	const answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, req := New(Options{BaseURL: s.URL, Transport: transport}), long()
	body := c.encode(req)

	var bare, ours time.Duration
	for b.Loop() {
		began := time.Now()
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, strings.NewReader(string(body)))
		res, err := transport.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 512))
		bare += time.Since(began)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()

		began = time.Now()
		first := time.Duration(0)
		if _, err := c.Stream(b.Context(), req, func(llm.Event) {
			if first == 0 {
				first = time.Since(began)
			}
		}); err != nil {
			b.Fatal(err)
		}
		ours += first
	}
	b.ReportMetric(float64((ours-bare).Microseconds())/float64(b.N), "µs-added/op")
}
