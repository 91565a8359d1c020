package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// lingerEnd is how long the end of the body is waited for behind the end
// marker, without which the connection cannot be used again.
const lingerEnd = 100 * time.Millisecond

// event is one event of a stream.
type event struct {
	Type    string  `json:"type"`
	Index   int     `json:"index"`
	Message message `json:"message"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		JSON       string `json:"partial_json"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// message is the frame of a stream, or a whole answer.
type message struct {
	Type       string  `json:"type"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      usage   `json:"usage"`
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
}

type usage struct {
	Input   *int `json:"input_tokens"`
	Output  *int `json:"output_tokens"`
	Read    *int `json:"cache_read_input_tokens"`
	Created *int `json:"cache_creation_input_tokens"`
}

// decoder puts an answer together from its events.
type decoder struct {
	call   *wire.Call
	origin string
	show   func(llm.Event)

	open    []*content // by the provider's index
	stop    string
	ended   bool
	counts  struct{ input, output, read, created int }
	counted bool
}

// content is a block while it arrives.
type content struct {
	block
	text      strings.Builder // of text, thinking or partial JSON
	signature strings.Builder
	closed    bool
}

// read takes in the whole body. It returns nil when the end marker was seen.
func (d *decoder) read(body *wire.Body) error {
	first, src, err := wire.Peek(body)
	if err != nil {
		return d.after(err)
	}
	switch first {
	case '<':
		return d.call.Page(src)
	case '{': // a whole answer, asked for or not
		all, err := io.ReadAll(io.LimitReader(src, wire.MaxEvent))
		if err != nil {
			return err
		}
		return d.whole(bytes.TrimSpace(bytes.TrimPrefix(all, []byte("\xef\xbb\xbf"))))
	}
	events := wire.NewReader(src)
	for {
		ev, err := events.Next()
		if err != nil {
			return d.after(err)
		}
		data := bytes.TrimSpace(ev.Data)
		if ev.Comment || len(data) == 0 || string(data) == "[DONE]" {
			d.show(llm.Event{Kind: llm.KeepAlive})
			continue
		}
		wasEnded := d.ended
		if err := d.event(ev.Name, data, ev.Tail); err != nil {
			if d.ended {
				return nil
			}
			return err
		}
		if d.ended && !wasEnded {
			body.Linger(lingerEnd)
		}
	}
}

// after judges the end of the body. Without message_stop, a stop reason has
// to be there at least.
func (d *decoder) after(err error) error {
	switch {
	case d.ended || d.stop != "":
		return nil
	case err == io.EOF:
		return d.call.Fail(llm.StreamCut, "the answer ended in the middle", nil, io.ErrUnexpectedEOF)
	case errors.Is(err, wire.ErrTooLarge):
		return d.call.Fail(llm.Malformed, "the answer is too large", nil, err)
	}
	return err
}

func (d *decoder) unreadable(data []byte, tail bool, err error) error {
	if tail && wire.Unfinished(err, data) {
		return d.call.Fail(llm.StreamCut, "the answer ended in the middle", data, io.ErrUnexpectedEOF)
	}
	return d.call.Fail(llm.Malformed, "the answer cannot be read", data, err)
}

func (d *decoder) whole(data []byte) error {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return d.unreadable(data, true, err)
	}
	if m.Type == "error" {
		return d.call.Event(data)
	}
	d.count(m.Usage)
	for i := range m.Content {
		d.start(i, m.Content[i])
		d.close(i)
	}
	d.stop = m.StopReason
	if m.StopReason == "" {
		return d.call.Fail(llm.StreamCut, "the answer has no stop reason", data, io.ErrUnexpectedEOF)
	}
	d.ended = true
	return nil
}

func (d *decoder) event(name string, data []byte, tail bool) error {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		if name == "error" {
			return d.call.Event(data)
		}
		return d.unreadable(data, tail, err)
	}
	if ev.Type == "" {
		ev.Type = name
	}
	switch ev.Type {
	case "error":
		return d.call.Event(data)
	case "ping":
		d.show(llm.Event{Kind: llm.KeepAlive})
	case "message_start":
		d.count(ev.Message.Usage)
	case "content_block_start":
		d.start(ev.Index, ev.Block)
	case "content_block_delta":
		return d.delta(&ev, data)
	case "content_block_stop":
		d.close(ev.Index)
	case "message_delta":
		if ev.Delta.StopReason != "" {
			d.stop = ev.Delta.StopReason
		}
		d.count(ev.Usage)
	case "message_stop":
		d.ended = true
	}
	return nil
}

// maxBlocks bounds the blocks of one answer; a larger index is nonsense.
const maxBlocks = 1000

func (d *decoder) start(i int, b block) {
	if i < 0 || i >= maxBlocks {
		return
	}
	for len(d.open) <= i {
		d.open = append(d.open, nil)
	}
	c := &content{block: b}
	d.open[i] = c
	switch b.Type {
	case "text":
		c.add(b.Text)
		d.tell(llm.TextDelta, c, b.Text)
	case "thinking":
		c.add(b.Thinking)
		c.signature.WriteString(b.Signature)
		d.tell(llm.ReasoningDelta, c, b.Thinking)
	case "tool_use":
		if c.ID == "" {
			c.ID = mercury.NewID("call")
		}
		d.show(llm.Event{Kind: llm.ToolStart, ID: c.ID, Name: c.Name})
		if s := string(b.Input); s != "" && s != "{}" && s != "null" {
			c.add(s)
			d.tell(llm.ToolDelta, c, s)
		}
	}
}

func (c *content) add(s string) { c.text.WriteString(s) }

func (d *decoder) tell(kind llm.EventKind, c *content, text string) {
	if text != "" {
		d.show(llm.Event{Kind: kind, Text: text, ID: c.ID, Name: c.Name})
	}
}

func (d *decoder) at(i int) *content {
	if i < 0 || i >= len(d.open) {
		return nil
	}
	return d.open[i]
}

func (d *decoder) delta(ev *event, data []byte) error {
	c := d.at(ev.Index)
	if c == nil {
		return d.call.Fail(llm.Malformed, "a piece of a block that never began", data, nil)
	}
	switch ev.Delta.Type {
	case "text_delta":
		c.add(ev.Delta.Text)
		d.tell(llm.TextDelta, c, ev.Delta.Text)
	case "thinking_delta":
		c.add(ev.Delta.Thinking)
		d.tell(llm.ReasoningDelta, c, ev.Delta.Thinking)
	case "signature_delta":
		c.signature.WriteString(ev.Delta.Signature)
	case "input_json_delta":
		c.add(ev.Delta.JSON)
		d.tell(llm.ToolDelta, c, ev.Delta.JSON)
	}
	return nil
}

func (d *decoder) close(i int) {
	if c := d.at(i); c != nil {
		c.closed = true
	}
}

// count takes in a usage object; later ones replace what they name.
func (d *decoder) count(u usage) {
	for _, f := range []struct {
		from *int
		to   *int
	}{{u.Input, &d.counts.input}, {u.Output, &d.counts.output}, {u.Read, &d.counts.read}, {u.Created, &d.counts.created}} {
		if f.from != nil && *f.from >= *f.to {
			*f.to = *f.from
			d.counted = d.counted || *f.from > 0
		}
	}
	if d.counted {
		d.show(llm.Event{Kind: llm.UsageNews, Usage: d.usage()})
	}
}

func (d *decoder) usage() llm.Usage {
	n := d.counts
	return llm.Usage{Input: n.input + n.read + n.created, Output: n.output, Cached: n.read, CacheWrite: n.created}
}
