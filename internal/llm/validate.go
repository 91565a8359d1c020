package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Wire names a protocol between us and a provider.
type Wire string

const (
	OpenAIWire    Wire = "openai"    // Chat Completions
	AnthropicWire Wire = "anthropic" // Messages
)

// Limits that a request must keep, the strictest of what providers document.
const (
	MaxImages     = 20        // in one request
	MaxImageBytes = 3_750_000 // 5 MB once it is base64
	MaxRequest    = 30 << 20  // bytes of text, arguments and images together
	MaxToolName   = 64
	MaxTools      = 128
)

// Validate checks req against the rules of wire as the strictest provider
// applies them, and says which message breaks which rule. A request that
// passes is never refused for its shape:
//
//   - it starts with a user message and ends with a user or tool message;
//   - two assistant messages never stand side by side;
//   - each call has exactly one result, in the message directly after, and no
//     result stands anywhere else; ids are unique in the request;
//   - arguments are JSON objects, cut calls and their results are left out;
//   - text is not blank, tool names match ^[a-zA-Z0-9_-]{1,64}$;
//   - images stand in user messages, few and small;
//   - an assistant message has text or a call; on the Anthropic wire its last
//     part is not thinking.
func Validate(req Request, wire Wire) error {
	if err := validateTools(req.Tools); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return fmt.Errorf("no messages")
	}
	if r := req.Messages[0].Role; r != User {
		return fmt.Errorf("message 0: the first message is %s's, it must be the user's", r)
	}
	v := validation{wire: wire, ids: map[string]bool{}}
	for i, m := range req.Messages {
		if err := v.message(m); err != nil {
			return fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
	}
	if len(v.open) > 0 {
		return fmt.Errorf("message %d: call %s has no result", len(req.Messages)-1, v.anyOpen())
	}
	if v.before == Assistant {
		return fmt.Errorf("the last message is the assistant's, it must be the user's or a tool's")
	}
	for _, s := range req.System {
		v.bytes += len(s)
	}
	if v.bytes > MaxRequest {
		return fmt.Errorf("request of %d bytes exceeds %d", v.bytes, MaxRequest)
	}
	return nil
}

func validateTools(tools []Tool) error {
	if len(tools) > MaxTools {
		return fmt.Errorf("%d tools exceed %d", len(tools), MaxTools)
	}
	seen := make(map[string]bool, len(tools))
	for _, t := range tools {
		if !ValidName(t.Name) {
			return fmt.Errorf("tool name %q does not match ^[a-zA-Z0-9_-]{1,64}$", t.Name)
		}
		if seen[t.Name] {
			return fmt.Errorf("tool %s is given twice", t.Name)
		}
		seen[t.Name] = true
		var schema struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object" {
			return fmt.Errorf("tool %s: its schema is not of type object", t.Name)
		}
	}
	return nil
}

// validation walks the messages and remembers what the next one must do.
type validation struct {
	wire   Wire
	before Role
	open   map[string]bool // calls of the message before that wait for a result
	ids    map[string]bool
	images int
	bytes  int
}

func (v *validation) anyOpen() string {
	for id := range v.open {
		return id
	}
	return ""
}

func (v *validation) message(m Message) error {
	if len(m.Parts) == 0 {
		return fmt.Errorf("it is empty")
	}
	if len(v.open) > 0 && m.Role != ToolRole {
		return fmt.Errorf("call %s of the message before has no result", v.anyOpen())
	}
	before := v.before
	v.before = m.Role
	switch m.Role {
	case User:
		return v.user(m)
	case Assistant:
		if before == Assistant {
			return fmt.Errorf("it follows another assistant message")
		}
		return v.assistant(m)
	case ToolRole:
		if before != Assistant || len(v.open) == 0 {
			return fmt.Errorf("it answers no call of the message before")
		}
		return v.results(m)
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

func (v *validation) user(m Message) error {
	for _, p := range m.Parts {
		switch p.Kind {
		case Text:
			if blank(p.Text) {
				return fmt.Errorf("blank text")
			}
			v.bytes += len(p.Text)
		case Image:
			if err := v.image(p); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s does not belong to a user", p.Kind)
		}
	}
	return nil
}

func (v *validation) image(p Part) error {
	switch p.Media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return fmt.Errorf("image of type %q", p.Media)
	}
	if len(p.Data) == 0 || len(p.Data) > MaxImageBytes {
		return fmt.Errorf("image of %d bytes, limit %d", len(p.Data), MaxImageBytes)
	}
	if v.images++; v.images > MaxImages {
		return fmt.Errorf("more than %d images", MaxImages)
	}
	v.bytes += len(p.Data) * 4 / 3
	return nil
}

func (v *validation) assistant(m Message) error {
	said := false
	for _, p := range m.Parts {
		v.bytes += len(p.Text) + len(p.Raw) + len(p.Args)
		switch p.Kind {
		case Text:
			if blank(p.Text) {
				return fmt.Errorf("blank text")
			}
			said = true
		case Reasoning:
		case ToolCall:
			if err := v.call(p); err != nil {
				return err
			}
			said = true
		default:
			return fmt.Errorf("%s does not belong to an assistant", p.Kind)
		}
	}
	if !said {
		return fmt.Errorf("it has neither text nor call")
	}
	if v.wire == AnthropicWire && m.Parts[len(m.Parts)-1].Kind == Reasoning {
		return fmt.Errorf("its last part is thinking")
	}
	return nil
}

func (v *validation) call(p Part) error {
	if p.Cut {
		return fmt.Errorf("call %s was cut and must be left out", p.ID)
	}
	if p.ID == "" || len(p.ID) > 256 {
		return fmt.Errorf("call of %s has an id of %d bytes", p.Name, len(p.ID))
	}
	if v.ids[p.ID] {
		return fmt.Errorf("call id %s is used twice", p.ID)
	}
	v.ids[p.ID] = true
	if !ValidName(p.Name) {
		return fmt.Errorf("call %s: name %q does not match ^[a-zA-Z0-9_-]{1,64}$", p.ID, p.Name)
	}
	if !IsObject(p.Args) {
		return fmt.Errorf("call %s: arguments are not a JSON object", p.ID)
	}
	if v.open == nil {
		v.open = map[string]bool{}
	}
	v.open[p.ID] = true
	return nil
}

func (v *validation) results(m Message) error {
	for _, p := range m.Parts {
		if p.Kind != ToolResult {
			return fmt.Errorf("%s does not belong to a tool", p.Kind)
		}
		if !v.open[p.ID] {
			return fmt.Errorf("result %s belongs to no call of the message before, or is its second", p.ID)
		}
		delete(v.open, p.ID)
		v.bytes += len(p.Text)
	}
	if len(v.open) > 0 {
		return fmt.Errorf("call %s has no result", v.anyOpen())
	}
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// IsObject reports whether b is one valid JSON object.
func IsObject(b []byte) bool {
	t := bytes.TrimLeft(b, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && json.Valid(t)
}

// ValidName reports whether every wire takes name as a tool's.
func ValidName(name string) bool {
	if name == "" || len(name) > MaxToolName {
		return false
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// CleanName makes a name a model invented fit for the wire: the call can then
// be answered ("no such tool") and sent back without being refused.
func CleanName(name string) string {
	if ValidName(name) {
		return name
	}
	b := []byte(name)
	if len(b) > MaxToolName {
		b = b[:MaxToolName]
	}
	for i, c := range b {
		if !nameByte(c) {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "unnamed"
	}
	return string(b)
}
