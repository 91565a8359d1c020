package openai

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

// How long what some providers add behind an answer is waited for: usage
// after the finish reason, and the end of the body after [DONE], without
// which the connection cannot be used again.
const (
	lingerUsage = 3 * time.Second
	lingerEnd   = 100 * time.Millisecond
)

// chunk is one event of a stream, or a whole answer. Fields that providers
// fill with different types are raw.
type chunk struct {
	Object  string          `json:"object"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Groq    struct {
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"x_groq"`
	Base struct {
		Code    int    `json:"status_code"`
		Message string `json:"status_msg"`
	} `json:"base_resp"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        delta           `json:"delta"`
	Message      *delta          `json:"message"`
	FinishReason string          `json:"finish_reason"`
	Usage        json.RawMessage `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

type delta struct {
	Content          json.RawMessage `json:"content"` // text, or a list of blocks
	Refusal          string          `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []toolDelta     `json:"tool_calls"`
}

type toolDelta struct {
	Index    *int            `json:"index"`
	ID       json.RawMessage `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // text, or an object
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

// decoder puts an answer together from its chunks.
type decoder struct {
	call       *wire.Call
	origin     string
	show       func(llm.Event)
	cumulative bool

	think     thinkState
	held      string // text that may be the beginning of a tag
	text      strings.Builder
	reasoning strings.Builder
	details   details
	calls     []*toolCall
	end       string // finish reason as the provider wrote it
	ended     bool
	usage     llm.Usage
	counted   bool
}

type toolCall struct {
	index int
	id    string
	name  string
	args  strings.Builder
	extra string
}

// read takes in the whole body. It returns nil when the end marker was seen.
func (d *decoder) read(body *wire.Body) error {
	first, src, err := wire.Peek(body)
	if err != nil {
		return d.after(err)
	}
	if first == '{' || first == '[' { // a whole answer, asked for or not
		all, err := io.ReadAll(io.LimitReader(src, wire.MaxEvent))
		if err != nil {
			return err
		}
		return d.whole(all)
	}
	if first == '<' {
		return d.call.Page(src)
	}
	events := wire.NewReader(src)
	for {
		ev, err := events.Next()
		if err != nil {
			return d.after(err)
		}
		if ev.Comment {
			d.show(llm.Event{Kind: llm.KeepAlive})
			continue
		}
		data := bytes.TrimSpace(ev.Data)
		if len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			d.ended = true
			body.Linger(lingerEnd)
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
			body.Linger(lingerUsage)
		}
	}
}

// after judges the end of the body: after the end marker nothing can spoil
// the answer.
func (d *decoder) after(err error) error {
	if d.ended {
		return nil
	}
	if err == io.EOF {
		return d.call.Fail(llm.StreamCut, "the answer ended in the middle", nil, io.ErrUnexpectedEOF)
	}
	if errors.Is(err, wire.ErrTooLarge) {
		return d.call.Fail(llm.Malformed, "the answer is too large", nil, err)
	}
	return err
}

func (d *decoder) whole(all []byte) error {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(all, []byte("\xef\xbb\xbf")))
	if trimmed[0] == '[' {
		return d.call.Event(trimmed)
	}
	if err := d.event("", trimmed, true); err != nil {
		return err
	}
	if !d.ended {
		return d.call.Fail(llm.StreamCut, "the answer has no finish reason", all, io.ErrUnexpectedEOF)
	}
	return nil
}

func (d *decoder) event(name string, data []byte, tail bool) error {
	var c chunk
	var typed *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &c); err != nil && !errors.As(err, &typed) {
		if tail && wire.Unfinished(err, data) {
			return d.call.Fail(llm.StreamCut, "the answer ended in the middle", data, io.ErrUnexpectedEOF)
		}
		if name == "error" {
			return d.call.Event(data)
		}
		return d.call.Fail(llm.Malformed, "the answer cannot be read", data, err)
	}
	if isSet(c.Error) || isSet(c.Groq.Error) || c.Object == "error" || name == "error" {
		return d.call.Event(data)
	}
	if c.Base.Code != 0 {
		return d.call.Event(baseError(c.Base.Code, c.Base.Message))
	}
	d.count(c.Usage)
	d.count(c.Groq.Usage)
	for i := range c.Choices {
		ch := &c.Choices[i]
		if ch.Index != 0 {
			continue
		}
		if isSet(ch.Error) {
			return d.call.Event(ch.Error)
		}
		d.count(ch.Usage)
		d.delta(&ch.Delta)
		if ch.Message != nil {
			d.delta(ch.Message)
		}
		if ch.FinishReason != "" {
			d.end, d.ended = ch.FinishReason, true
		}
	}
	return nil
}

// baseError rewrites MiniMax's base_resp as an error body.
func baseError(code int, message string) []byte {
	b, _ := json.Marshal(map[string]any{"code": code, "message": message})
	return b
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// words returns a JSON string as text, and "" for null and anything else.
func words(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

func (d *decoder) delta(m *delta) {
	thought := words(m.ReasoningContent)
	if thought == "" {
		thought = words(m.Reasoning)
	}
	if isSet(m.ReasoningDetails) {
		shown := d.details.add(m.ReasoningDetails, d.cumulative)
		if thought == "" {
			thought = shown
		}
	}
	d.reason(thought)
	if len(m.Content) > 0 && m.Content[0] == '[' {
		d.blocks(m.Content)
	} else if text := words(m.Content); text != "" {
		if d.cumulative && d.text.Len() > 0 {
			text = strings.TrimPrefix(text, d.text.String())
		}
		d.say(text)
	}
	if m.Refusal != "" {
		d.write(m.Refusal)
		d.end = "content_filter"
	}
	for i := range m.ToolCalls {
		d.tool(&m.ToolCalls[i])
	}
}

func (d *decoder) reason(text string) {
	if text == "" {
		return
	}
	d.reasoning.WriteString(text)
	d.show(llm.Event{Kind: llm.ReasoningDelta, Text: text})
}

// blocks reads content given as a list, in which Mistral also puts thinking.
func (d *decoder) blocks(raw json.RawMessage) {
	var list []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	_ = json.Unmarshal(raw, &list)
	for _, b := range list {
		if b.Type != "thinking" {
			d.say(b.Text)
			continue
		}
		d.reason(words(b.Thinking))
		var inner []struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(b.Thinking, &inner)
		for _, t := range inner {
			d.reason(t.Text)
		}
	}
}

func (d *decoder) tool(t *toolDelta) {
	id := words(t.ID)
	args := t.Function.Arguments
	text := words(args)
	if len(args) > 0 && args[0] == '{' {
		text = string(args)
	}
	c := d.find(t, id)
	if c == nil {
		c = &toolCall{index: len(d.calls), id: id, name: t.Function.Name}
		if t.Index != nil {
			c.index = *t.Index
		}
		if c.id == "" || d.known(c.id) {
			c.id = mercury.NewID("call")
		}
		d.calls = append(d.calls, c)
		d.show(llm.Event{Kind: llm.ToolStart, ID: c.id, Name: c.name})
	}
	if c.name == "" && t.Function.Name != "" {
		c.name = t.Function.Name
	}
	if isSet(t.ExtraContent) {
		c.extra = string(t.ExtraContent)
	}
	if text != "" {
		c.args.WriteString(text)
		d.show(llm.Event{Kind: llm.ToolDelta, ID: c.id, Name: c.name, Text: text})
	}
}

// find returns the call that t goes on with, or nil when it begins one. Some
// servers give no index, and some give all parallel calls index 0.
func (d *decoder) find(t *toolDelta, id string) *toolCall {
	if len(d.calls) == 0 {
		return nil
	}
	last := d.calls[len(d.calls)-1]
	if t.Index == nil {
		if id != "" {
			for _, c := range d.calls {
				if c.id == id {
					return c
				}
			}
			return nil
		}
		if t.Function.Name != "" && llm.IsObject([]byte(last.args.String())) {
			return nil
		}
		return last
	}
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := d.calls[i]
		if c.index != *t.Index {
			continue
		}
		if id != "" && id != c.id && t.Function.Name != "" && llm.IsObject([]byte(c.args.String())) {
			return nil
		}
		return c
	}
	return nil
}

func (d *decoder) known(id string) bool {
	for _, c := range d.calls {
		if c.id == id {
			return true
		}
	}
	return false
}
