// Package client speaks to a running Mercury over its HTTP API. The command
// line and the terminal use it; it adds nothing but types and plain errors.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Client asks one Mercury.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client of the Mercury that listens on addr ("host:port").
func New(addr, token string) *Client {
	return &Client{base: "http://" + addr, token: token, http: &http.Client{Transport: &http.Transport{
		Proxy:               nil, // loopback and tunnels only
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 4,
	}}}
}

// Error is an answer that is not 2xx.
type Error struct {
	Status int
	Detail string
}

func (e *Error) Error() string { return e.Detail }

// Sent is what became of a message.
type Sent struct {
	InputID   string  `json:"input_id"`
	RunID     *string `json:"run_id"`
	Duplicate bool    `json:"duplicate"`
	Outcome   string  `json:"outcome"`
	Reply     string  `json:"reply"`
}

// Message is something to say.
type Message struct {
	Text      string         `json:"text"`
	RequestID string         `json:"request_id,omitempty"`
	Mode      string         `json:"mode,omitempty"`
	Files     []mercury.File `json:"files,omitempty"`
}

// Send says m in a conversation. It returns after the message is stored.
func (c *Client) Send(ctx context.Context, conversation string, m Message) (Sent, error) {
	var out Sent
	err := c.do(ctx, http.MethodPost, "/api/conversations/"+url.PathEscape(conversation)+"/messages", m, &out)
	return out, err
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// Conversation returns one conversation.
func (c *Client) Conversation(ctx context.Context, id string) (api.Conversation, error) {
	var out api.Conversation
	err := c.do(ctx, http.MethodGet, "/api/conversations/"+url.PathEscape(id), nil, &out)
	return out, err
}

// Conversations lists conversations, newest activity first.
func (c *Client) Conversations(ctx context.Context, q url.Values) (Page[api.Conversation], error) {
	return get[Page[api.Conversation]](ctx, c, "/api/conversations", q)
}

// Entries returns the entries after a seq.
func (c *Client) Entries(ctx context.Context, conversation string, after int64) ([]api.Entry, error) {
	var all []api.Entry
	for {
		page, err := get[Page[api.Entry]](ctx, c, "/api/conversations/"+url.PathEscape(conversation)+"/entries",
			url.Values{"after": {strconv.FormatInt(after, 10)}})
		all = append(all, page.Items...)
		if err != nil || page.Next == "" {
			return all, err
		}
		after = all[len(all)-1].Seq
	}
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, q url.Values) (Page[api.Run], error) {
	return get[Page[api.Run]](ctx, c, "/api/runs", q)
}

// Run returns one run with its steps.
func (c *Client) Run(ctx context.Context, id string) (api.Run, error) {
	return get[api.Run](ctx, c, "/api/runs/"+url.PathEscape(id), nil)
}

// Cancel ends a run.
func (c *Client) Cancel(ctx context.Context, id string) (api.Run, error) {
	var out api.Run
	err := c.do(ctx, http.MethodPost, "/api/runs/"+url.PathEscape(id)+"/cancel", struct{}{}, &out)
	return out, err
}

// Replay runs a stopped or dead run again.
func (c *Client) Replay(ctx context.Context, id string) (api.Run, error) {
	var out api.Run
	err := c.do(ctx, http.MethodPost, "/api/runs/"+url.PathEscape(id)+"/replay", struct{}{}, &out)
	return out, err
}

// Deliveries lists deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, q url.Values) (Page[api.Delivery], error) {
	return get[Page[api.Delivery]](ctx, c, "/api/deliveries", q)
}

// Delivery returns one delivery.
func (c *Client) Delivery(ctx context.Context, id string) (api.Delivery, error) {
	return get[api.Delivery](ctx, c, "/api/deliveries/"+url.PathEscape(id), nil)
}

// Resend sends a delivery again, on a person's word.
func (c *Client) Resend(ctx context.Context, id string) (api.Delivery, error) {
	var out api.Delivery
	err := c.do(ctx, http.MethodPost, "/api/deliveries/"+url.PathEscape(id)+"/resend", struct{}{}, &out)
	return out, err
}

// Questions lists open questions; all lists settled ones too.
func (c *Client) Questions(ctx context.Context, all bool) (Page[api.Question], error) {
	return get[Page[api.Question]](ctx, c, "/api/questions", url.Values{"all": {strconv.FormatBool(all)}})
}

// Answer settles a question.
func (c *Client) Answer(ctx context.Context, id, answer string) (api.Question, error) {
	var out api.Question
	err := c.do(ctx, http.MethodPost, "/api/questions/"+url.PathEscape(id)+"/answer", map[string]string{"answer": answer}, &out)
	return out, err
}

// Grants lists the grants that hold.
func (c *Client) Grants(ctx context.Context) (Page[api.Grant], error) {
	return get[Page[api.Grant]](ctx, c, "/api/permissions", nil)
}

// Allow grants a rule to the owner, for d or, with 0, until it is revoked.
func (c *Client) Allow(ctx context.Context, rule string, d time.Duration) (api.Grant, error) {
	var out api.Grant
	err := c.do(ctx, http.MethodPost, "/api/permissions", map[string]any{"rule": rule, "seconds": int64(d / time.Second)}, &out)
	return out, err
}

// Revoke ends a grant.
func (c *Client) Revoke(ctx context.Context, id string) error {
	res, err := c.request(ctx, http.MethodDelete, "/api/permissions/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Decisions lists what was decided, newest first.
func (c *Client) Decisions(ctx context.Context, q url.Values) (Page[api.Decision], error) {
	return get[Page[api.Decision]](ctx, c, "/api/permissions/log", q)
}

// Undo takes back what a run did to files, or only looks. The run "last" is
// the last one that changed something, of a conversation if one is named.
func (c *Client) Undo(ctx context.Context, run, conversation string, apply bool) (mercury.Undone, error) {
	var out mercury.Undone
	err := c.do(ctx, http.MethodPost, "/api/runs/"+url.PathEscape(run)+"/undo", map[string]any{"apply": apply, "conversation": conversation}, &out)
	return out, err
}

// Jobs lists background commands, newest first.
func (c *Client) Jobs(ctx context.Context, q url.Values) (Page[api.Job], error) {
	return get[Page[api.Job]](ctx, c, "/api/jobs", q)
}

// Job returns a background command with the end of what it printed.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	return get[api.Job](ctx, c, "/api/jobs/"+url.PathEscape(id), nil)
}

// StopJob ends a background command.
func (c *Client) StopJob(ctx context.Context, id string) (api.Job, error) {
	var out api.Job
	err := c.do(ctx, http.MethodPost, "/api/jobs/"+url.PathEscape(id)+"/stop", struct{}{}, &out)
	return out, err
}

// Commands lists the slash commands.
func (c *Client) Commands(ctx context.Context) (Page[api.Command], error) {
	return get[Page[api.Command]](ctx, c, "/api/commands", nil)
}

// Status says what is going on.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "/api/status", nil)
}

// Stop asks the Mercury to end in order.
func (c *Client) Stop(ctx context.Context) error {
	res, err := c.request(ctx, http.MethodPost, "/api/stop", struct{}{})
	if err == nil {
		res.Body.Close()
	}
	return err
}

// Health reports whether a Mercury answers at the address.
func (c *Client) Health(ctx context.Context) error {
	var out api.Health
	return c.do(ctx, http.MethodGet, "/api/health", nil, &out)
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var out T
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	err := c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	res, err := c.request(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach Mercury at %s: %w", strings.TrimPrefix(c.base, "http://"), err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	var p struct {
		Detail string `json:"detail"`
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&p)
	e := &Error{Status: res.StatusCode, Detail: p.Detail}
	if e.Detail == "" {
		e.Detail = res.Status
	}
	return nil, e
}

// Event is one event of the stream, its data not yet decoded.
type Event struct {
	ID             string          `json:"-"`
	Type           string          `json:"type"`
	ConversationID string          `json:"conversation_id"`
	RunID          string          `json:"run_id"`
	At             time.Time       `json:"at"`
	Data           json.RawMessage `json:"data"`
}

// ErrStreamEnded means that the server closed the event stream.
var ErrStreamEnded = errors.New("the event stream ended")

// Events yields what happens in a conversation (empty: everywhere) after the
// event with the given id (empty: from now), until ctx ends or the stream
// breaks; then it yields the error once. An event of type "reset" means: read
// the state anew. ready, if not nil, is called when the server listens for us,
// before the first event.
func (c *Client) Events(ctx context.Context, conversation, after string, ready func()) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q := url.Values{}
		if conversation != "" {
			q.Set("conversation", conversation)
		}
		if after != "" {
			q.Set("after", after)
		}
		res, err := c.request(ctx, http.MethodGet, "/api/events?"+q.Encode(), nil)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer res.Body.Close()
		in := bufio.NewReaderSize(res.Body, 64<<10)
		var ev Event
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				if ctx.Err() == nil {
					yield(Event{}, fmt.Errorf("%w: %w", ErrStreamEnded, err))
				}
				return
			}
			switch field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": "); field {
			case "":
				if value == "listening" && ready != nil {
					ready()
					ready = nil
				}
				if value == "" && ev.Type != "" {
					if !yield(ev, nil) {
						return
					}
					ev = Event{}
				}
			case "id":
				ev.ID = value
			case "data":
				id := ev.ID
				if err := json.Unmarshal([]byte(value), &ev); err != nil {
					yield(Event{}, fmt.Errorf("read event %s: %w", id, err))
					return
				}
			}
		}
	}
}
