package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// streams is a server of event streams of which every end is told.
type streams struct {
	*httptest.Server
	engine *engine.Engine
	ended  chan struct{}
}

func serveStreams(t *testing.T, patience time.Duration) *streams {
	t.Helper()
	st, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(st, engine.Options{})
	s := &streams{engine: e, ended: make(chan struct{}, 1000)}
	h := api.New(e, intake.New(e, intake.Options{}), token, api.Options{ReadPatience: patience, BodyPatience: patience})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		s.ended <- struct{}{}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); _ = st.Close() })
	return s
}

// listen opens a stream over a bare connection and returns it once the server
// has begun to write.
func (s *streams) listen(t *testing.T) *bufio.Reader {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "GET /api/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.Listener.Addr(), token)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(res.Body)
	if line, err := in.ReadString('\n'); err != nil || line != ": listening\n" {
		t.Fatalf("%q %v", line, err)
	}
	return in
}

func TestAReaderThatNeverReadsIsLetGoAndDelaysNobody(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, 100*time.Millisecond)
	s.listen(t)
	text := strings.Repeat("x", 64<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for { // until the connection's buffers are full and patience is over
		select {
		case <-tick.C:
			s.engine.Bus().Publish(engine.Event{Type: "delta", ConversationID: "local/a", Data: text})
		case <-s.ended:
			return
		case <-ctx.Done():
			t.Fatal("the stream goes on though nobody reads it")
		}
	}
}

func TestASlowReaderMissesNothingWithoutBeingTold(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ready, more := make(chan struct{}), make(chan struct{})
	enough := func() { s.engine.Bus().Publish(engine.Event{Type: "status", ConversationID: "local/a"}) }
	go func() {
		<-ready
		for i := range 8000 { // 64 MB: far more than a connection and the ring hold
			s.engine.Bus().Publish(engine.Event{Type: "delta", ConversationID: "local/a", Data: strings.Repeat("x", 8<<10) + fmt.Sprint(i)})
		}
		enough()
		close(more)
	}()
	want, resets := 0, 0
	for ev, err := range client.New(s.Listener.Addr().String(), token).Events(ctx, "", "", func() { close(ready) }) {
		if err != nil {
			t.Fatal(err)
		}
		<-more
		if ev.Type == "reset" {
			resets++
			enough()  // the first one may be among what it missed
			want = -1 // whatever comes next
			continue
		}
		if ev.Type == "status" {
			break
		}
		var text string
		if err := json.Unmarshal(ev.Data, &text); err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscan(strings.TrimLeft(text, "x"), &n); err != nil || want >= 0 && n != want {
			t.Fatalf("%d came, want %d, and no reset said so (%v)", n, want, err)
		}
		want = n + 1
	}
	if resets == 0 {
		t.Error("it fell behind, and no reset said so")
	}
}

func TestTwoHundredReadersAllSeeEverything(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, 0)
	const readers, events = 200, 50
	var seen sync.WaitGroup
	failed := make(chan string, readers)
	for range readers {
		in := s.listen(t)
		seen.Go(func() {
			for n := 0; n < events; {
				line, err := in.ReadString('\n')
				if err != nil {
					failed <- err.Error()
					return
				}
				if strings.HasPrefix(line, "event: reset") {
					failed <- "a reset"
					return
				}
				if strings.HasPrefix(line, "event: delta") {
					n++
				}
			}
		})
	}
	for i := range events {
		s.engine.Bus().Publish(engine.Event{Type: "delta", ConversationID: "local/a", Data: fmt.Sprint(i)})
	}
	seen.Wait()
	close(failed)
	for why := range failed {
		t.Error(why)
	}
}

func TestABodyThatDripsIsCutOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, token, status string }{
		{"with the token", token, "408"},
		{"without it", "wrong", "401"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serveStreams(t, 100*time.Millisecond)
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST /api/conversations/c/messages HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", s.Listener.Addr(), tt.token)
			answer, err := io.ReadAll(c) // the server closes what it cuts off
			if err != nil || !strings.Contains(string(answer), tt.status) || !strings.Contains(string(answer), "application/problem+json") {
				t.Errorf("%q %v", answer, err)
			}
		})
	}
}
