// Package relay is a channel to any platform for which someone runs a small
// HTTP bridge. The bridge keeps a list of updates and shows messages; this
// driver polls the one and posts the other. docs/relay.md is the protocol for
// those who write a bridge.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Options tune a Channel. A zero field means its default.
type Options struct {
	Name    string            // half of its addresses; default "relay"
	Token   string            // bearer token sent with each request
	Text    int               // longest message in UTF-16 units; default 4,096
	Poll    time.Duration     // how long the bridge may hold a poll; default 25s
	Timeout time.Duration     // for one send; default 30s
	HTTP    http.RoundTripper // default http.DefaultTransport
	Log     *slog.Logger      // default discards
}

// Channel is a bridge behind one URL.
type Channel struct {
	base  *url.URL
	place channel.Place
	opts  Options
	http  http.Client
}

// New returns the channel of the bridge at base, which remembers in place how
// far it has read.
func New(base string, place channel.Place, o Options) (*Channel, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &mercury.Error{Kind: mercury.Setup, Err: errors.New("relay: the url must be http:// or https://"),
			Help: "Set channels.relay.url to the address of your bridge."}
	}
	if o.Name == "" {
		o.Name = "relay"
	}
	if o.Text == 0 {
		o.Text = 4096
	}
	if o.Poll == 0 {
		o.Poll = 25 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Channel{base: u, place: place, opts: o, http: http.Client{Transport: o.HTTP}}, nil
}

func (c *Channel) Name() string { return c.opts.Name }

// Limits allows texts of Options.Text; a bridge has no files.
func (c *Channel) Limits() channel.Limits { return channel.Limits{Text: c.opts.Text} }

// update is one message on the wire.
type update struct {
	ID           string `json:"id"`
	Conversation string `json:"conversation"`
	Sender       struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"sender"`
	Text   string `json:"text"`
	Direct *bool  `json:"direct"` // absent: a private talk
	At     string `json:"at"`
}

// Listen polls for updates. The cursor is saved after each accepted update
// and sent with the next poll, which is how the bridge learns what it may
// forget.
func (c *Channel) Listen(ctx context.Context, accept func(context.Context, mercury.Message) error) error {
	cursor, err := c.place.Load(ctx)
	if err != nil {
		return fmt.Errorf("load cursor of %s: %w", c.opts.Name, err)
	}
	wait := time.Second
	for ctx.Err() == nil {
		updates, err := c.poll(ctx, cursor)
		if err == nil {
			wait = time.Second
			cursor, err = c.take(ctx, cursor, updates, accept)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if kind := mercury.KindOf(err); kind == mercury.Setup || kind == mercury.Denied {
			return err
		}
		if errors.Is(err, store.ErrStale) { // another process has the channel now
			return err
		}
		c.opts.Log.Warn("poll of the relay failed", "channel", c.opts.Name, "err", err, "again_in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(wait*2, time.Minute)
	}
	return nil
}

// take accepts what came, in order. An update that cannot be read is logged and
// passed over: it would come again with every poll, and nothing behind it would
// be heard.
func (c *Channel) take(ctx context.Context, cursor string, updates []json.RawMessage, accept func(context.Context, mercury.Message) error) (string, error) {
	before := cursor
	for _, raw := range updates {
		// What fits is read in spite of a field that does not.
		var u update
		err := json.Unmarshal(raw, &u)
		switch {
		case err == nil && u.ID != "" && u.Conversation != "":
			if err := accept(ctx, c.message(u)); err != nil {
				return cursor, fmt.Errorf("accept update %s: %w", u.ID, err)
			}
			crash.Reach("relay.accepted")
		case err != nil:
			c.opts.Log.Warn("relay sent an update that cannot be read; passed over", "channel", c.opts.Name, "update", u.ID, "err", err)
		default:
			c.opts.Log.Warn("relay sent an update without id or conversation; passed over", "channel", c.opts.Name, "update", u.ID)
		}
		if u.ID == "" {
			continue
		}
		if err := c.place.Save(ctx, u.ID); err != nil {
			return cursor, fmt.Errorf("save cursor: %w", err)
		}
		cursor = u.ID
	}
	if len(updates) > 0 && cursor == before {
		// Asked again at once, the bridge would send the same at once.
		return cursor, errors.New("read updates: none of them leads on")
	}
	return cursor, nil
}

func (c *Channel) message(u update) mercury.Message {
	at, err := time.Parse(time.RFC3339, u.At)
	if err != nil || at.IsZero() { // absent or wrong: a message counts for more than its time
		at = time.Now()
	}
	return mercury.Message{
		Channel: c.opts.Name, ID: u.ID, Conversation: c.opts.Name + "/" + u.Conversation,
		Sender: mercury.Actor{ID: u.Sender.ID, Name: u.Sender.Name, Channel: c.opts.Name},
		Text:   u.Text, Direct: u.Direct == nil || *u.Direct, At: at,
	}
}

func (c *Channel) poll(ctx context.Context, cursor string) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Poll+15*time.Second)
	defer cancel()
	crash.Reach("relay.poll")
	q := url.Values{"after": {cursor}, "wait": {strconv.Itoa(int(c.opts.Poll.Seconds()))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("updates").String()+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, c.refusal(res)
	}
	updates, err := readUpdates(io.LimitReader(res.Body, pollMax))
	if err != nil && len(updates) == 0 {
		return nil, fmt.Errorf("read updates: %w", err)
	}
	// The beginning of an answer that is too long, or was cut, leads on: the
	// bridge offers the rest again.
	return updates, nil
}

// pollMax is how much of one answer is read, in bytes.
const pollMax = 16 << 20

// readUpdates returns the updates of one answer, each as it stands. With an
// error, those before it.
func readUpdates(r io.Reader) ([]json.RawMessage, error) {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errors.New("the answer is no object")
	}
	var updates []json.RawMessage
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return updates, err
		}
		if key != "updates" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return updates, err
			}
			continue
		}
		switch t, err := d.Token(); {
		case err != nil:
			return updates, err
		case t == nil: // null is an empty list
			continue
		case t != json.Delim('['):
			return updates, errors.New("updates is no list")
		}
		for d.More() {
			var one json.RawMessage
			if err := d.Decode(&one); err != nil {
				return updates, err
			}
			updates = append(updates, one)
		}
		if _, err := d.Token(); err != nil {
			return updates, err
		}
	}
	_, err := d.Token()
	return updates, err
}

// Send posts one message. A bridge that cannot be reached, or that answers
// 429 or 503 with Retry-After, has shown nothing and is tried again; any other
// 4xx is a refusal; everything else is unknown.
func (c *Channel) Send(ctx context.Context, d mercury.Delivery, p mercury.Part) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	_, place, _ := strings.Cut(d.Address, "/")
	body, err := json.Marshal(map[string]any{
		"request":      fmt.Sprintf("%s/%d", d.ID, p.N),
		"conversation": place, "text": p.Text, "kind": string(d.Kind),
	})
	if err != nil {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("messages").String(), bytes.NewReader(body))
	if err != nil {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return "", c.refusal(res)
	}
	var sent struct {
		Receipt string `json:"receipt"`
	}
	// The message is shown; a receipt that cannot be read changes nothing.
	_ = json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&sent)
	if sent.Receipt == "" {
		sent.Receipt = "accepted"
	}
	return sent.Receipt, nil
}

func (c *Channel) do(req *http.Request) (*http.Response, error) {
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	res, err := c.http.Do(req)
	if err == nil {
		return res, nil
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return nil, &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("reach the relay: %w", dial)}
	}
	return nil, fmt.Errorf("ask the relay: %w", err)
}

func (c *Channel) refusal(res *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	err := fmt.Errorf("the relay answered %s: %s", res.Status, strings.TrimSpace(string(said)))
	after, retry := retryAfter(res.Header.Get("Retry-After"))
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden && res.Request.Method == http.MethodGet:
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: "Check channels.relay.token: the bridge refuses it."}
	case code == http.StatusForbidden:
		return &mercury.Error{Kind: mercury.Denied, Err: err}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && retry:
		return &mercury.Error{Kind: mercury.Transient, After: after, Err: err}
	case code >= 400 && code < 500:
		return &mercury.Error{Kind: mercury.Invalid, Err: err}
	}
	return err
}

// retryAfter reads the header in its form of seconds (RFC 9110 §10.2.3),
// bounded to an hour.
func retryAfter(h string) (time.Duration, bool) {
	s, err := strconv.Atoi(strings.TrimSpace(h))
	if err != nil || s < 0 {
		return 0, false
	}
	return min(time.Duration(s)*time.Second, time.Hour), true
}
