package llm

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Model is one link of a Chain.
type Model struct {
	Provider string // as configured
	Name     string // as the provider names it
	Client   Client
}

// ChainOptions tune a Chain. A zero field means its default.
type ChainOptions struct {
	Tries   int            // calls of one model for a passing failure; default 3
	Delay   time.Duration  // before the second try, doubled after; default 500 ms
	MaxWait time.Duration  // longest Retry-After waited for inside a step; a longer one goes to the next model; default 20 s
	Limit   time.Duration  // of one call, whole; default 10 min, negative none
	Breaker *Breaker       // shared by the process's chains; default one of its own
	Jitter  func() float64 // in [0,1); default math/rand
}

// Chain asks the first of its models that can answer. It is the only place
// that retries: a few quick tries for what passes by itself, then the next
// model; at once the next one for a refused key, a used-up quota or a model
// that does not exist. A request that is wrong as it stands goes nowhere
// else. Each step begins with the first model again, and the Response names
// who answered and why those before did not.
type Chain struct {
	models []Model
	opts   ChainOptions
}

var _ Client = (*Chain)(nil)

// NewChain returns a chain of models, the leading one first.
func NewChain(models []Model, opts ChainOptions) *Chain {
	if opts.Tries <= 0 {
		opts.Tries = 3
	}
	if opts.Delay <= 0 {
		opts.Delay = 500 * time.Millisecond
	}
	if opts.MaxWait <= 0 {
		opts.MaxWait = 20 * time.Second
	}
	if opts.Limit == 0 {
		opts.Limit = 10 * time.Minute
	}
	if opts.Breaker == nil {
		opts.Breaker = NewBreaker()
	}
	if opts.Jitter == nil {
		opts.Jitter = rand.Float64
	}
	return &Chain{models: models, opts: opts}
}

// Models returns the links, the leading one first.
func (c *Chain) Models() []Model { return append([]Model(nil), c.models...) }

// ask is the state of one step.
type ask struct {
	chain   *Chain
	req     Request
	show    func(Event)
	shown   bool      // something of an attempt is on the screen
	partial Response  // the fullest of what failed attempts brought
	failed  []Attempt // every call that failed, in order
	skipped []Skip
	tries   int
}

// Stream asks the models in turn. When all fail, the error is the leading
// model's, since its trouble is what a person expects to hear about, unless a
// later one asks for a shorter request, which can be cured; Skipped tells the
// rest.
func (c *Chain) Stream(ctx context.Context, req Request, show func(Event)) (Response, error) {
	if show == nil {
		show = func(Event) {}
	}
	a := &ask{chain: c, req: req, show: show}
	if len(c.models) == 0 {
		return Response{}, &Error{Class: Auth, Message: "no model is configured"}
	}
	var lead error
	for i, m := range c.models {
		res, err := a.model(ctx, m)
		if err == nil {
			res.Fallback, res.Skipped = i > 0, a.skipped
			res.Attempts, res.Failed = a.tries, a.failed
			return res, nil
		}
		if lead == nil {
			lead = err
		}
		class := ClassOf(err)
		a.skipped = append(a.skipped, Skip{Provider: m.Provider, Model: m.Name, Class: class, Reason: reason(err)})
		if final(class, i == 0) || ctx.Err() != nil {
			return a.give(), err
		}
	}
	return a.give(), lead
}

// final says that no other model should be asked. A fallback that finds the
// request wrong says little about the others.
func final(class Class, leading bool) bool {
	switch class {
	case ContextLength, ContentFiltered:
		return true
	case BadRequest, ForeignReasoning:
		return leading
	}
	return false
}

func reason(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Message != "" {
		return e.Message
	}
	return err.Error()
}

// give is the Response beside an error: what arrived, and what it cost.
func (a *ask) give() Response {
	res := a.partial
	res.Finish = ""
	res.Usage = Usage{} // each call's is in Failed
	res.Skipped, res.Failed, res.Attempts = a.skipped, a.failed, a.tries
	return res
}

// model asks m, several times if need be.
func (a *ask) model(ctx context.Context, m Model) (Response, error) {
	c := a.chain
	if err := c.opts.Breaker.blocked(m); err != nil && !a.req.Insist {
		return Response{}, err
	}
	req := a.req
	req.Model = m.Name
	for try := 1; ; try++ {
		res, err := a.once(ctx, m, req)
		if err == nil {
			c.opts.Breaker.answered(m)
			return res, nil
		}
		e := asError(err, m)
		c.opts.Breaker.note(m, e, c.opts.MaxWait)
		if ctx.Err() != nil {
			return res, e
		}
		if e.Class == ForeignReasoning && hasReasoning(req) {
			req = withoutReasoning(req)
			continue
		}
		wait, again := c.pause(e, try)
		if !again || !sleep(ctx, wait) {
			if ctx.Err() != nil {
				return res, canceled(ctx, m)
			}
			return res, e
		}
	}
}

// once makes one call under its own time limit.
func (a *ask) once(ctx context.Context, m Model, req Request) (Response, error) {
	if limit := a.chain.opts.Limit; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if a.shown {
		a.show(Event{Kind: Restart, Model: m.Name, Text: a.lastReason()})
		a.shown = false
	}
	a.tries++
	res, err := m.Client.Stream(ctx, req, func(ev Event) {
		if ev.Kind != KeepAlive && ev.Kind != UsageNews {
			a.shown = true
		}
		a.show(ev)
	})
	res.Provider, res.Model = m.Provider, m.Name
	if err != nil {
		a.failed = append(a.failed, Attempt{Provider: m.Provider, Model: m.Name, Class: asError(err, m).Class, Usage: res.Usage})
		fuller := len(res.Parts) > 0 && len(res.Text()) >= len(a.partial.Text())
		if fuller || a.partial.Model == "" {
			a.partial = res
		}
	}
	return res, err
}

func (a *ask) lastReason() string {
	if n := len(a.failed); n > 0 {
		return string(a.failed[n-1].Class)
	}
	return ""
}

// pause says how long to wait before another try of the same model, and
// whether there is one.
func (c *Chain) pause(e *Error, try int) (time.Duration, bool) {
	tries := c.opts.Tries
	switch e.Class {
	case Empty:
		tries = min(tries, 2) // paid for in full each time
	case RateLimit, Unavailable, StreamCut, Malformed, TimeoutIdle:
	default:
		return 0, false
	}
	if try >= tries || e.RetryAfter > c.opts.MaxWait {
		return 0, false
	}
	wait := c.opts.Delay << (try - 1)
	wait += time.Duration(c.opts.Jitter() * float64(wait) / 2)
	return max(wait, e.RetryAfter), true
}

// sleep waits for d and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func canceled(ctx context.Context, m Model) *Error {
	e := &Error{Class: Canceled, Provider: m.Provider, Model: m.Name, Message: "stopped", Err: context.Cause(ctx)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Class, e.Message = TimeoutTotal, "not finished in time"
	}
	return e
}

// asError returns err's Error; a driver that returns another is broken, and
// its error is taken for a passing one of the provider.
func asError(err error, m Model) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: Unavailable, Provider: m.Provider, Model: m.Name, Message: err.Error(), Err: err}
}

func hasReasoning(req Request) bool {
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Kind == Reasoning || p.Raw != "" || p.Signature != "" {
				return true
			}
		}
	}
	return false
}

// withoutReasoning returns req without any provider's own bytes.
func withoutReasoning(req Request) Request {
	list := make([]Message, 0, len(req.Messages))
	for _, m := range req.Messages {
		kept := Message{Role: m.Role}
		for _, p := range m.Parts {
			if p.Kind == Reasoning {
				continue
			}
			p.Raw, p.Signature, p.Origin = "", "", ""
			kept.Parts = append(kept.Parts, p)
		}
		if len(kept.Parts) > 0 {
			list = append(list, kept)
		}
	}
	req.Messages = list
	return req
}
