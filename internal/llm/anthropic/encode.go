package anthropic

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
// stable comes first, so that the prompt cache hits.
type encoder struct {
	b      []byte
	origin string
	marks  marks
}

func (e *encoder) raw(s string) *encoder { e.b = append(e.b, s...); return e }
func (e *encoder) str(s string) *encoder { e.b = wire.AppendString(e.b, s); return e }

// marks says where the cache may end. Anthropic takes four at most: one
// behind the tools, one behind the system text, and two that walk through the
// conversation, so that the newest finds what the one before has stored.
type marks struct {
	tools    bool
	system   bool
	messages [2]int // index of the turn, -1 for none
}

// place chooses the marks of a request with n turns of the user's side at the
// given indexes.
func place(req llm.Request, turns []turn) marks {
	m := marks{tools: len(req.Tools) > 0, system: strings.TrimSpace(strings.Join(req.System, "")) != "", messages: [2]int{-1, -1}}
	at := 1
	for i := len(turns) - 1; i >= 0 && at >= 0; i-- {
		if turns[i].role == llm.User {
			m.messages[at] = i
			at--
		}
	}
	return m
}

const mark = `,"cache_control":{"type":"ephemeral"}`

// turn is one message as this wire has them: the results of tools and what a
// person says are both the user's, and neighbours of one role are one.
type turn struct {
	role  llm.Role
	parts []llm.Part
}

func turns(list []llm.Message) []turn {
	var out []turn
	for _, m := range list {
		role := m.Role
		if role == llm.ToolRole {
			role = llm.User
		}
		if n := len(out); n > 0 && out[n-1].role == role {
			last := &out[n-1]
			last.parts = append(last.parts[:len(last.parts):len(last.parts)], m.Parts...)
			continue
		}
		out = append(out, turn{role, m.Parts})
	}
	return out
}

func (c *Client) encode(req llm.Request) []byte {
	list := turns(req.Messages)
	e := &encoder{origin: c.opts.Provider + "/" + req.Model, marks: place(req, list)}
	e.raw(`{"model":`).str(req.Model)
	e.raw(`,"max_tokens":`).raw(strconv.Itoa(maxTokens(req)))
	e.tools(req)
	e.system(req.System)
	e.raw(`,"messages":[`)
	for i, t := range list {
		if i > 0 {
			e.raw(`,`)
		}
		tail := ""
		if i == len(list)-1 && req.Tail != "" {
			tail = strings.TrimSpace(llm.TailOpen) + "\n" + req.Tail + llm.TailClose
		}
		e.turn(t, i == e.marks.messages[0] || i == e.marks.messages[1], tail)
	}
	e.raw(`]`)
	thinks := e.thinking(req, list)
	if req.Temperature != nil && !thinks {
		e.raw(`,"temperature":`).raw(strconv.FormatFloat(*req.Temperature, 'g', -1, 64))
	}
	if !req.Whole {
		e.raw(`,"stream":true`)
	}
	e.raw(`}`)
	return e.b
}

// ceilings are the output limits of models that allow less than most, by the
// beginning of their names.
var ceilings = []struct {
	prefix string
	tokens int
}{
	{"claude-3-5", 8192},
	{"claude-3-opus", 4096},
	{"claude-3-haiku", 4096},
	{"claude-3-sonnet", 4096},
	{"claude-2", 4096},
}

// defaultTokens is asked for when the caller names no limit, since this wire
// demands one.
const defaultTokens = 16384

func maxTokens(req llm.Request) int {
	n := req.MaxTokens
	if n <= 0 {
		n = defaultTokens
	}
	for _, c := range ceilings {
		if strings.HasPrefix(req.Model, c.prefix) {
			return min(n, c.tokens)
		}
	}
	return n
}

func (e *encoder) tools(req llm.Request) {
	if len(req.Tools) == 0 {
		return
	}
	e.raw(`,"tools":[`)
	for i, t := range req.Tools {
		if i > 0 {
			e.raw(`,`)
		}
		e.raw(`{"name":`).str(t.Name).raw(`,"description":`).str(t.Description).raw(`,"input_schema":`)
		e.b = wire.AppendArgs(e.b, t.Schema)
		if e.marks.tools && i == len(req.Tools)-1 {
			e.raw(mark)
		}
		e.raw(`}`)
	}
	e.raw(`]`)
	switch req.Choice {
	case "none":
		e.raw(`,"tool_choice":{"type":"none"}`)
	case "required":
		e.raw(`,"tool_choice":{"type":"any"}`)
	}
}

func (e *encoder) system(blocks []string) {
	if !e.marks.system {
		return
	}
	last := len(blocks) - 1
	for strings.TrimSpace(blocks[last]) == "" {
		last--
	}
	e.raw(`,"system":[`)
	n := 0
	for i, text := range blocks {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if n++; n > 1 {
			e.raw(`,`)
		}
		e.raw(`{"type":"text","text":`).str(text)
		if i == last {
			e.raw(mark)
		}
		e.raw(`}`)
	}
	e.raw(`]`)
}

func (e *encoder) turn(t turn, marked bool, tail string) {
	e.raw(`{"role":"`).raw(string(t.role)).raw(`","content":[`)
	var blocks []llm.Part
	for _, kind := range []bool{true, false} { // results must stand before any text
		for _, p := range t.parts {
			if (p.Kind == llm.ToolResult) == kind && e.sends(p) {
				blocks = append(blocks, p)
			}
		}
	}
	for i, p := range blocks {
		if i > 0 {
			e.raw(`,`)
		}
		e.block(p)
		if marked && i == len(blocks)-1 {
			e.raw(mark)
		}
		e.raw(`}`)
	}
	if tail != "" {
		if len(blocks) > 0 {
			e.raw(`,`)
		}
		e.raw(`{"type":"text","text":`).str(tail).raw(`}`)
	}
	e.raw(`]}`)
}

// sends says whether p goes on the wire: blank text is refused, and thinking
// is accepted only from the model that signed it.
func (e *encoder) sends(p llm.Part) bool {
	switch p.Kind {
	case llm.Text:
		return strings.TrimSpace(p.Text) != ""
	case llm.Reasoning:
		return e.signed(p)
	}
	return true
}

func (e *encoder) signed(p llm.Part) bool {
	return p.Kind == llm.Reasoning && p.Origin == e.origin && (p.Signature != "" || p.Raw != "")
}

// block writes p without the closing brace, so that a mark can follow.
func (e *encoder) block(p llm.Part) {
	switch p.Kind {
	case llm.Text:
		e.raw(`{"type":"text","text":`).str(p.Text)
	case llm.Reasoning:
		if p.Signature == "" {
			e.raw(`{"type":"redacted_thinking","data":`).str(p.Raw)
			return
		}
		e.raw(`{"type":"thinking","thinking":`).str(p.Text).raw(`,"signature":`).str(p.Signature)
	case llm.ToolCall:
		e.raw(`{"type":"tool_use","id":`).str(cleanID(p.ID)).raw(`,"name":`).str(llm.CleanName(p.Name)).raw(`,"input":`)
		e.b = wire.AppendArgs(e.b, p.Args)
	case llm.ToolResult:
		e.raw(`{"type":"tool_result","tool_use_id":`).str(cleanID(p.ID))
		if strings.TrimSpace(p.Text) != "" {
			e.raw(`,"content":`).str(p.Text)
		}
		if p.IsError {
			e.raw(`,"is_error":true`)
		}
	case llm.Image:
		e.raw(`{"type":"image","source":{"type":"base64","media_type":`).str(p.Media).raw(`,"data":"`)
		e.b = base64.StdEncoding.AppendEncode(e.b, p.Data)
		e.raw(`"}`)
	}
}

// cleanID makes another provider's call id fit ^[a-zA-Z0-9_-]+$. The same id
// always becomes the same.
func cleanID(id string) string {
	if id != "" && len(id) <= 64 && id == llm.CleanName(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// budgeted are the models that are told how much to think in tokens; all
// later ones decide themselves and take an effort.
var budgeted = []string{"claude-3-7", "claude-sonnet-4-0", "claude-sonnet-4-2", "claude-sonnet-4-5", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2", "claude-opus-4-5", "claude-haiku-4-5"}

// thoughtless do not think at all.
var thoughtless = []string{"claude-2", "claude-3-5", "claude-3-opus", "claude-3-haiku", "claude-3-sonnet"}

// thinking asks for thinking, and reports whether it did. While a turn with
// tools is under way, thinking may only be on if that turn's messages carry
// their own thinking, which they do not after a change of model.
func (e *encoder) thinking(req llm.Request, list []turn) bool {
	if req.Effort == "" || req.Effort == "none" || hasPrefix(req.Model, thoughtless) || !e.thoughtful(list) || req.Choice == "required" {
		return false
	}
	if !hasPrefix(req.Model, budgeted) {
		effort := req.Effort
		if effort == "minimal" {
			effort = "low"
		}
		e.raw(`,"thinking":{"type":"adaptive"},"output_config":{"effort":`).str(effort).raw(`}`)
		return true
	}
	budget := map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}[req.Effort]
	budget = min(budget, maxTokens(req)/2)
	if budget < 1024 { // the least that is taken
		return false
	}
	e.raw(`,"thinking":{"type":"enabled","budget_tokens":`).raw(strconv.Itoa(budget)).raw(`}`)
	return true
}

func hasPrefix(model string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	return false
}

// thoughtful reports whether each assistant turn since a person last spoke
// begins with thinking of this very model.
func (e *encoder) thoughtful(list []turn) bool {
	for i := len(list) - 1; i >= 0; i-- {
		t := list[i]
		if t.role == llm.User {
			if !answers(t) {
				return true
			}
			continue
		}
		first := true
		for _, p := range t.parts {
			if !e.sends(p) {
				continue
			}
			if first && p.Kind != llm.Reasoning {
				return false
			}
			first = false
		}
	}
	return true
}

// answers reports whether t brings results of tools.
func answers(t turn) bool {
	for _, p := range t.parts {
		if p.Kind == llm.ToolResult {
			return true
		}
	}
	return false
}
