package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// encoder writes one request. Equal words are always equal bytes, and what is
// stable comes first, so that providers' prompt caches hit.
type encoder struct {
	b      []byte
	quirks Quirks
	origin string
	model  string
	marks  bool // cache_control may be set
}

func (c *Client) encode(req llm.Request) []byte {
	e := &encoder{quirks: c.quirks, origin: c.opts.Provider + "/" + req.Model, model: req.Model}
	e.marks = c.quirks.CacheControl != "" && strings.HasPrefix(req.Model, c.quirks.CacheControl) && c.takes("cache_control")
	e.raw(`{"model":`).str(req.Model)
	e.tools(req)
	e.raw(`,"messages":[`)
	e.system(req.System)
	e.messages(req.Messages, req.Tail)
	e.raw(`]`)
	e.settings(c, req)
	e.raw(c.quirks.Extra).raw(`}`)
	return e.b
}

func (e *encoder) raw(s string) *encoder { e.b = append(e.b, s...); return e }
func (e *encoder) str(s string) *encoder { e.b = wire.AppendString(e.b, s); return e }

func (e *encoder) tools(req llm.Request) {
	if len(req.Tools) == 0 {
		return
	}
	e.raw(`,"tools":[`)
	for i, t := range req.Tools {
		if i > 0 {
			e.raw(`,`)
		}
		e.raw(`{"type":"function","function":{"name":`).str(t.Name)
		e.raw(`,"description":`).str(t.Description).raw(`,"parameters":`)
		e.b = wire.AppendArgs(e.b, t.Schema)
		e.raw(`}}`)
	}
	e.raw(`]`)
	switch req.Choice {
	case "none":
		e.raw(`,"tool_choice":"none"`)
	case "required":
		word := e.quirks.RequiredWord
		if word == "" {
			word = "required"
		}
		e.raw(`,"tool_choice":`).str(word)
	}
}

func (e *encoder) settings(c *Client, req llm.Request) {
	if req.MaxTokens > 0 {
		field := e.quirks.MaxField
		if field == "" {
			field = "max_tokens"
		}
		if !c.takes(field) { // each of the two is refused by someone
			field = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[field]
		}
		if c.takes(field) {
			e.raw(`,"`).raw(field).raw(`":`).raw(strconv.Itoa(req.MaxTokens))
		}
	}
	if req.Temperature != nil && c.takes("temperature") {
		e.raw(`,"temperature":`).raw(strconv.FormatFloat(*req.Temperature, 'g', -1, 64))
	}
	if req.Key != "" && e.quirks.CacheKey && c.takes("prompt_cache_key") {
		e.raw(`,"prompt_cache_key":`).str(req.Key)
	}
	if req.Effort != "" {
		e.effort(c, req.Effort)
	}
	if req.Whole {
		return
	}
	e.raw(`,"stream":true`)
	if !e.quirks.NoStreamOptions && c.takes("stream_options") {
		e.raw(`,"stream_options":{"include_usage":true}`)
	}
}

func (e *encoder) effort(c *Client, effort string) {
	switch e.quirks.Effort {
	case EffortField:
		if c.takes("reasoning_effort") {
			e.raw(`,"reasoning_effort":`).str(effort)
		}
	case EffortObject:
		if effort == "none" {
			e.raw(`,"reasoning":{"enabled":false}`)
		} else {
			e.raw(`,"reasoning":{"effort":`).str(effort).raw(`}`)
		}
	case EffortThinking:
		state := "enabled"
		if effort == "none" {
			state = "disabled"
		}
		e.raw(`,"thinking":{"type":"`).raw(state).raw(`"}`)
	}
}

func (e *encoder) system(blocks []string) {
	text := strings.Join(blocks, "\n\n")
	if text == "" {
		return
	}
	if e.marks {
		e.raw(`{"role":"system","content":[{"type":"text","text":`).str(text).raw(`,"cache_control":{"type":"ephemeral"}}]},`)
		return
	}
	e.raw(`{"role":"system","content":`).str(text).raw(`},`)
}

// messages writes the conversation. Neighbouring user messages become one,
// because templates of local models insist on alternation. The tail joins the
// last message, so that no extra turn appears and all before it stays cached.
func (e *encoder) messages(list []llm.Message, tail string) {
	if tail != "" {
		tail = llm.TailOpen + tail + llm.TailClose
	}
	first := true
	next := func() {
		if !first {
			e.raw(`,`)
		}
		first = false
	}
	for i := 0; i < len(list); i++ {
		m := list[i]
		switch m.Role {
		case llm.User:
			if e.quirks.Bridge && i > 0 && list[i-1].Role == llm.ToolRole {
				next()
				e.raw(`{"role":"assistant","content":"Noted."}`)
			}
			parts := m.Parts
			for i+1 < len(list) && list[i+1].Role == llm.User {
				i++
				parts = append(parts[:len(parts):len(parts)], list[i].Parts...)
			}
			next()
			e.user(parts, i == len(list)-1, tail)
		case llm.Assistant:
			next()
			e.assistant(m.Parts)
		case llm.ToolRole:
			for k, p := range m.Parts {
				next()
				text := p.Text
				if p.IsError && !strings.HasPrefix(strings.ToLower(text), "error") {
					text = "error: " + text
				}
				e.raw(`{"role":"tool","tool_call_id":`).str(e.id(p.ID)).raw(`,"content":`)
				e.content(text, i == len(list)-1 && k == len(m.Parts)-1, tail)
				e.raw(`}`)
			}
		}
	}
}

// content writes the text of a message. The last one carries the tail and,
// where marks are taken, the mark up to which the conversation can be cached.
func (e *encoder) content(text string, last bool, tail string) {
	switch {
	case !last:
		e.str(text)
	case !e.marks || strings.TrimSpace(text) == "":
		e.str(text + tail)
	default:
		e.raw(`[{"type":"text","text":`).str(text).raw(`,"cache_control":{"type":"ephemeral"}}`)
		if tail != "" {
			e.raw(`,{"type":"text","text":`).str(strings.TrimSpace(tail)).raw(`}`)
		}
		e.raw(`]`)
	}
}

func (e *encoder) user(parts []llm.Part, last bool, tail string) {
	plain := true
	for _, p := range parts {
		plain = plain && p.Kind == llm.Text
	}
	e.raw(`{"role":"user","content":`)
	if plain {
		e.content(joined(parts), last, tail)
		e.raw(`}`)
		return
	}
	e.raw(`[`)
	n := 0
	for _, p := range parts {
		if p.Kind == llm.Text && strings.TrimSpace(p.Text) == "" {
			continue
		}
		if n++; n > 1 {
			e.raw(`,`)
		}
		if p.Kind == llm.Image {
			e.raw(`{"type":"image_url","image_url":{"url":"data:`).raw(p.Media).raw(`;base64,`)
			e.b = base64.StdEncoding.AppendEncode(e.b, p.Data)
			e.raw(`"}}`)
			continue
		}
		e.raw(`{"type":"text","text":`).str(p.Text).raw(`}`)
	}
	if last && tail != "" {
		e.raw(`,{"type":"text","text":`).str(strings.TrimSpace(tail)).raw(`}`)
	}
	e.raw(`]}`)
}

// joined is the text of parts with a blank line between them.
func joined(parts []llm.Part) string {
	var texts []string
	for _, p := range parts {
		if p.Kind == llm.Text && strings.TrimSpace(p.Text) != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func (e *encoder) assistant(parts []llm.Part) {
	text, calls := "", false
	for _, p := range parts {
		switch p.Kind {
		case llm.Text:
			text += p.Text
		case llm.ToolCall:
			calls = true
		}
	}
	e.raw(`{"role":"assistant","content":`)
	if strings.TrimSpace(text) == "" && calls {
		e.raw(`null`)
	} else {
		e.str(text)
	}
	e.reasoning(parts, calls && e.quirks.NeedsReplay)
	if calls {
		e.calls(parts)
	}
	e.raw(`}`)
}

// reasoning sends back what the same model thought, in the very bytes it
// came in, to providers that want it. Where needed is set, calls that another
// model made get an empty field.
func (e *encoder) reasoning(parts []llm.Part, needed bool) {
	text, raw := "", ""
	for _, p := range parts {
		if p.Kind == llm.Reasoning && p.Origin == e.origin {
			text += p.Text
			if p.Raw != "" {
				raw = p.Raw
			}
		}
	}
	switch e.quirks.Replay {
	case ReplayNone:
	case ReplayDetails:
		if raw != "" {
			e.raw(`,"reasoning_details":`).raw(raw)
		} else if text != "" {
			e.raw(`,"reasoning":`).str(text)
		}
	default:
		if text != "" || needed {
			e.raw(`,"`).raw(string(e.quirks.Replay)).raw(`":`).str(text)
		}
	}
}

func (e *encoder) calls(parts []llm.Part) {
	e.raw(`,"tool_calls":[`)
	n := 0
	for _, p := range parts {
		if p.Kind != llm.ToolCall {
			continue
		}
		if n++; n > 1 {
			e.raw(`,`)
		}
		e.raw(`{"id":`).str(e.id(p.ID)).raw(`,"type":"function","function":{"name":`).str(llm.CleanName(p.Name))
		e.raw(`,"arguments":`).str(string(wire.AppendArgs(nil, p.Args))).raw(`}`)
		if p.Raw != "" && p.Origin == e.origin {
			e.raw(`,"extra_content":`).raw(p.Raw) // Gemini's thought signature
		}
		e.raw(`}`)
	}
	e.raw(`]`)
}

// id makes a call's id fit: Mistral takes exactly nine letters or digits,
// OpenAI at most forty bytes. The same id always becomes the same.
func (e *encoder) id(id string) string {
	if e.quirks.ShortIDs {
		if len(id) == 9 && strings.IndexFunc(id, notAlphanumeric) < 0 {
			return id
		}
		sum := sha256.Sum256([]byte(id))
		return hex.EncodeToString(sum[:5])[:9]
	}
	if len(id) > 40 {
		sum := sha256.Sum256([]byte(id))
		return "call_" + hex.EncodeToString(sum[:12])
	}
	return id
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
