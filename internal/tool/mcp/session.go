package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// messageMax bounds one message of a server, in bytes.
const messageMax = 8 << 20

// farewell is how long a server may take to hear that a call is over.
const farewell = time.Second

// server is one configured server and its session, if it runs.
type server struct {
	Server
	opts Options
	turn chan struct{} // held while the session is being started

	mu       sync.Mutex
	session  *session
	failures int       // in a row
	until    time.Time // it is left alone until then
	why      string    // how it failed last
}

// session is one started server.
type session struct {
	client *mcp.ClientSession
	stop   func()  // ends its process and waits
	offers []offer // what it said when it started
	mask   func(string) string
	calls  int // in hand
	idle   *time.Timer
	dead   bool
}

// open returns a running session, held until release is called. Callers wait
// for one start together; a server that has just failed is not started again.
func (s *server) open(ctx context.Context) (*session, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if x := s.hold(); x != nil {
		return x, nil
	}
	s.mu.Lock()
	wait, why := time.Until(s.until), s.why
	s.mu.Unlock()
	if wait > 0 {
		return nil, &mercury.Error{Kind: mercury.Transient, After: wait,
			Err: fmt.Errorf("the MCP server %s failed (%s) and is left alone for %s", s.Name, why, max(wait.Round(time.Second), time.Second))}
	}
	x, err := s.start(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.failed(err.Error())
		}
		return nil, fmt.Errorf("start the MCP server %s: %w", s.Name, err)
	}
	s.mu.Lock()
	s.session, x.calls = x, 1
	s.mu.Unlock()
	go func() { // ends with the session, which close ends
		_ = x.client.Wait()
		s.drop(x)
	}()
	return x, nil
}

// hold takes the running session for a call, if there is one.
func (s *server) hold() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.session
	if x == nil || x.dead {
		return nil
	}
	x.calls++
	if x.idle != nil {
		x.idle.Stop()
		x.idle = nil
	}
	return x
}

// release gives the session back; the last one back starts its idle time.
func (s *server) release(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.calls--
	if x.calls == 0 && !x.dead {
		x.idle = time.AfterFunc(s.opts.Idle, func() {
			s.mu.Lock()
			busy := x.calls > 0
			s.mu.Unlock()
			if !busy {
				s.drop(x)
			}
		})
	}
}

// drop ends a session.
func (s *server) drop(x *session) {
	s.mu.Lock()
	again := x.dead
	x.dead = true
	if x.idle != nil {
		x.idle.Stop()
	}
	if s.session == x {
		s.session = nil
	}
	s.mu.Unlock()
	if !again {
		x.stop()
	}
}

func (s *server) close() {
	s.mu.Lock()
	x := s.session
	s.mu.Unlock()
	if x != nil {
		s.drop(x)
		x.stop() // waits also when somebody else began it
	}
}

func (s *server) failed(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := min(s.opts.Retry<<min(s.failures, 20), retryMax)
	s.failures++
	s.until, s.why = time.Now().Add(wait), short(why)
	s.opts.Log.Warn("an MCP server failed", "server", s.Name, "err", s.why, "again_in", wait)
}

func (s *server) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.until, s.why = 0, time.Time{}, ""
}

// start starts the server and asks what it has.
func (s *server) start(ctx context.Context) (*session, error) {
	secrets := map[string]string{}
	if s.Secrets != nil {
		given, err := s.Secrets()
		if err != nil {
			return nil, err
		}
		secrets = given
	}
	var transport mcp.Transport
	var p *process
	if s.URL != "" {
		transport = &mcp.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: messageMax,
			HTTPClient: &http.Client{Timeout: max(s.opts.Start, s.opts.Call) + farewell, Transport: &header{base: s.opts.HTTP, url: s.URL, secrets: secrets},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	} else {
		var err error
		if p, err = launch(ctx, s.Command, s.opts, secrets); err != nil {
			return nil, err
		}
		transport = &mcp.IOTransport{Reader: p.out, Writer: p.in, MaxLineLength: messageMax}
	}
	started, cancel := context.WithTimeout(ctx, s.opts.Start)
	defer cancel()
	x := &session{mask: func(text string) string { return mask(text, secrets) }}
	var once sync.Once
	x.stop = func() {
		once.Do(func() {
			if x.client != nil {
				closed := make(chan struct{})
				go func() { defer close(closed); _ = x.client.Close() }()
				select {
				case <-closed:
				case <-time.After(stopWait):
				}
			}
			if p != nil {
				p.stop()
			}
		})
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mercury", Version: s.opts.Version}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	err := within(started, func() (err error) {
		if x.client, err = client.Connect(started, transport, nil); err == nil {
			x.offers, err = offersOf(started, x.client)
		}
		return err
	}, func() {
		if p != nil {
			p.stop()
		}
	})
	if err == nil {
		return x, nil
	}
	x.stop()
	if started.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it said nothing for %s", s.opts.Start)
	}
	return nil, errors.New(mask(p.explain(err.Error()), secrets))
}

// within runs fn; when ctx ends first it calls abort, which must make fn
// return, and waits.
func within(ctx context.Context, fn func() error, abort func()) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		abort()
		return errors.Join(ctx.Err(), <-done)
	}
}

// list is what the server has now. A server that runs is started anew: what it
// said at its start may be old.
func (s *server) list(ctx context.Context) ([]offer, error) {
	s.close()
	s.mu.Lock()
	s.until = time.Time{} // a person asks, so it is tried at once
	s.mu.Unlock()
	x, err := s.open(ctx)
	if err != nil {
		return nil, &mercury.Error{Kind: mercury.Transient, Err: err}
	}
	defer s.release(x)
	s.worked()
	return x.offers, nil
}

// offersOf asks a server what it has.
func offersOf(ctx context.Context, c *mcp.ClientSession) ([]offer, error) {
	var out []offer
	for t, err := range c.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		if len(out) == toolsMax {
			return nil, fmt.Errorf("it has more than %d tools", toolsMax)
		}
		o := offer{Name: t.Name, Description: t.Description, ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint}
		schema, err := json.Marshal(t.InputSchema) // of a map: keys are sorted
		if err != nil {
			return nil, fmt.Errorf("read the schema of %q: %w", short(t.Name), err)
		}
		o.Schema = schema
		object, isObject := t.InputSchema.(map[string]any)
		switch {
		case t.Name == "" || len(t.Name) > 128:
			o.refused = "its name is empty or too long"
		case len(t.Description) > descriptionMax:
			o.refused = fmt.Sprintf("its description is longer than %d bytes", descriptionMax)
		case len(schema) > schemaMax:
			o.refused = fmt.Sprintf("its schema is longer than %d bytes", schemaMax)
		case !isObject || object["type"] != "object":
			o.refused = "its schema is not that of an object"
		}
		out = append(out, o)
	}
	return out, nil
}

// call runs one tool. An errEnded means that nobody knows whether it was done.
func (s *server) call(ctx context.Context, x *session, name string, args json.RawMessage) (*mcp.CallToolResult, error) {
	limited, cancel := context.WithTimeout(ctx, s.opts.Call)
	defer cancel()
	res, err := ask(limited, func() (*mcp.CallToolResult, error) {
		return x.client.CallTool(limited, &mcp.CallToolParams{Name: name, Arguments: args})
	})
	switch {
	case err == nil:
		s.worked()
		return res, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w to answer within %s, so whether it was done is not known", errSlow, s.opts.Call)
	}
	// An error of the protocol is an answer; anything else means that the
	// connection can no longer be trusted.
	var answer *jsonrpc.Error
	if errors.As(err, &answer) {
		return nil, err
	}
	s.drop(x)
	s.failed("it ended during a call: " + x.mask(err.Error()))
	return nil, errEnded
}

// ask waits for fn, and not much longer than ctx lives: to tell a server that a
// call is over, the client writes to it once more, and one that has gone silent
// does not read. What is left then ends with the time limit of its connection.
func ask(ctx context.Context, fn func() (*mcp.CallToolResult, error)) (res *mcp.CallToolResult, err error) {
	done := make(chan struct{})
	var answer *mcp.CallToolResult
	var failure error
	go func() {
		defer close(done)
		answer, failure = fn()
	}()
	select {
	case <-done:
		return answer, failure
	case <-ctx.Done():
	}
	select {
	case <-done:
		return answer, failure
	case <-time.After(farewell):
		return nil, ctx.Err()
	}
}

var errSlow = errors.New("the server did not manage")

// mask takes the server's secrets out of a text.
func mask(text string, secrets map[string]string) string {
	for _, v := range secrets {
		if len(v) >= 4 {
			text = strings.ReplaceAll(text, v, "[secret]")
		}
	}
	return text
}

// short is a text on one line, for a log or a sentence.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}
