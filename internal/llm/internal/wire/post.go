package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// Default silences. A local model may think a long time about a long prompt
// before its first byte.
const (
	DefaultFirst = 3 * time.Minute
	DefaultIdle  = 2 * time.Minute
	maxErrorBody = 64 << 10
	maxWholeBody = 64 << 20 // streamed or not
)

var (
	errSilent = errors.New("the provider went silent")
	errClosed = errors.New("response closed")
)

// A Call is one request to a provider.
type Call struct {
	Transport http.RoundTripper
	Method    string // default POST
	URL       string
	Header    http.Header
	Body      []byte
	First     time.Duration // silence allowed before the first byte; 0 is the default, negative none
	Idle      time.Duration // silence allowed between bytes; 0 is the default, negative none
	Provider  string
	Model     string
	Secret    string // blanked wherever the provider repeats it
	Table     map[string]llm.Class
}

// A Body is what a provider answers with, read under the two timers.
type Body struct {
	Header http.Header
	call   *Call
	ctx    context.Context
	cancel context.CancelCauseFunc
	unhook func() bool
	src    io.ReadCloser
	idle   time.Duration
	read   bool
	bytes  int64 // read so far

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// Do sends c. A status other than 2xx is returned as a classed error. The
// Body must be closed; nothing runs after that.
func (c *Call) Do(ctx context.Context) (*Body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	b := &Body{call: c, ctx: ctx, cancel: cancel, idle: orDefault(c.Idle, DefaultIdle)}
	if first := orDefault(c.First, DefaultFirst); first > 0 {
		b.timer = time.AfterFunc(first, func() { cancel(errSilent) })
	}
	method := c.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL, bytes.NewReader(c.Body))
	if err != nil {
		b.Close()
		return nil, &llm.Error{Class: llm.BadRequest, Provider: c.Provider, Model: c.Model, Message: "the provider's address is not a URL", Err: errors.New("parse base URL")}
	}
	req.Header = c.Header
	res, err := c.Transport.RoundTrip(req)
	if err != nil {
		defer b.Close()
		return nil, c.lost(ctx, err, llm.Unavailable)
	}
	b.Header, b.src = res.Header, res.Body
	// A transport that does not watch the context itself is woken by this.
	b.unhook = context.AfterFunc(ctx, func() { res.Body.Close() })
	if res.StatusCode/100 != 2 {
		defer b.Close()
		text, _ := io.ReadAll(io.LimitReader(b, maxErrorBody))
		if res.StatusCode/100 == 3 {
			text = []byte("the provider redirects to " + res.Header.Get("Location") + "; correct its base URL")
		}
		return nil, c.Refused(res.StatusCode, res.Header, text)
	}
	return b, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Read reads the body and starts the idle timer anew. A body that does not end
// is broken off at its limit: what is put together from it is kept in memory.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if n > 0 {
		b.alive()
	}
	if b.bytes += int64(n); b.bytes > maxWholeBody {
		return 0, b.call.Fail(llm.Malformed, "the answer is too large", nil, ErrTooLarge)
	}
	if err != nil && err != io.EOF {
		err = b.call.lost(b.ctx, err, llm.StreamCut)
	}
	if err == io.EOF && b.ctx.Err() != nil {
		err = b.call.lost(b.ctx, err, llm.StreamCut)
	}
	return n, err
}

func (b *Body) alive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	if b.timer != nil && (!b.read || b.idle > 0) {
		b.timer.Stop()
	}
	b.read = true
	if b.idle <= 0 {
		return
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(b.idle, func() { b.cancel(errSilent) })
		return
	}
	b.timer.Reset(b.idle)
}

// Linger shortens the idle time: the answer is complete, and only what some
// providers add behind it is still awaited.
func (b *Body) Linger(d time.Duration) {
	b.mu.Lock()
	if b.idle <= 0 || d < b.idle {
		b.idle = d
	}
	b.mu.Unlock()
	b.alive()
}

// All reads the whole body.
func (b *Body) All() ([]byte, error) {
	return io.ReadAll(b)
}

// Close frees the connection and stops the timers.
func (b *Body) Close() {
	b.mu.Lock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	if b.unhook != nil {
		b.unhook()
	}
	b.cancel(errClosed)
	if b.src != nil {
		b.src.Close()
	}
}

// lost classes a failure of the connection. The caller's own cancel and
// deadline come first, since they show as read errors too.
func (c *Call) lost(ctx context.Context, err error, otherwise llm.Class) error {
	cause := context.Cause(ctx)
	switch {
	case cause == errSilent:
		return c.Fail(llm.TimeoutIdle, "no answer in time", nil, errSilent)
	case errors.Is(cause, context.DeadlineExceeded):
		return c.Fail(llm.TimeoutTotal, "not finished in time", nil, cause)
	case cause != nil:
		return c.Fail(llm.Canceled, "stopped", nil, cause)
	}
	message := "the connection broke"
	if otherwise == llm.Unavailable {
		message = "out of reach: " + Clean(err.Error(), c.Secret)
	}
	return c.Fail(otherwise, message, nil, err)
}

// Fail makes an Error of c with the provider's words and its bytes.
func (c *Call) Fail(class llm.Class, message string, raw []byte, err error) *llm.Error {
	return &llm.Error{
		Class:    class,
		Provider: c.Provider,
		Model:    c.Model,
		Message:  Cap(Clean(message, c.Secret), maxMessage),
		Raw:      Cap(Clean(string(raw[:min(len(raw), 4*maxRaw)]), c.Secret), maxRaw),
		Err:      err,
	}
}
