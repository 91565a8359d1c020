package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/mercury-agent/mercury/internal/llm"
)

type anthropicBody struct {
	Model     string           `json:"model"`
	MaxTokens int              `json:"max_tokens"`
	System    []anthropicBlock `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Stream      bool     `json:"stream"`
	Temperature *float64 `json:"temperature"`
	Thinking    *struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	UseID     string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Source    struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  []byte `json:"data"`
	} `json:"source"`
}

func (p *parsed) anthropic(body []byte) {
	var b anthropicBody
	if err := json.Unmarshal(body, &b); err != nil {
		p.broken("the body cannot be read: %v", err)
		return
	}
	p.stream, p.usage = b.Stream, true
	p.req = llm.Request{Model: b.Model, MaxTokens: b.MaxTokens, Whole: !b.Stream}
	if b.MaxTokens <= 0 {
		p.broken("max_tokens: Field required")
	}
	if n := bytes.Count(body, []byte(`"cache_control":{`)); n > 4 {
		p.broken("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	if b.Thinking != nil {
		if b.Thinking.Type == "enabled" && (b.Thinking.Budget < 1024 || b.Thinking.Budget >= b.MaxTokens) {
			p.broken("thinking.budget_tokens: %d with max_tokens %d", b.Thinking.Budget, b.MaxTokens)
		}
		if b.Temperature != nil {
			p.broken("`temperature` may only be set to 1 when thinking is enabled")
		}
	}
	for _, s := range b.System {
		if s.Text == "" {
			p.broken("system: text content blocks must be non-empty")
		}
		p.req.System = append(p.req.System, s.Text)
	}
	for _, t := range b.Tools {
		p.req.Tools = append(p.req.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	before, thinks := "", true
	for i, m := range b.Messages {
		if m.Role == before {
			p.broken("messages.%d: roles must alternate", i)
		}
		before = m.Role
		blocks := p.blocks(i, m.Content)
		switch m.Role {
		case "user":
			if p.userTurn(i, blocks) {
				thinks = true
			}
		case "assistant":
			thinks = p.assistantTurn(i, blocks, thinks)
		default:
			p.broken("messages.%d: unknown role %q", i, m.Role)
		}
	}
	if b.Thinking != nil && b.Thinking.Type == "enabled" && !thinks {
		p.broken("messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block")
	}
}

func (p *parsed) blocks(i int, raw json.RawMessage) []anthropicBlock {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}
	}
	var list []anthropicBlock
	if err := json.Unmarshal(raw, &list); err != nil {
		p.broken("messages.%d: content cannot be read: %v", i, err)
	}
	return list
}

// userTurn reads results of tools and what a person says, and reports whether
// it is a person's turn only.
func (p *parsed) userTurn(i int, blocks []anthropicBlock) bool {
	var results, said []llm.Part
	for k, b := range blocks {
		switch b.Type {
		case "tool_result":
			if len(said) > 0 {
				p.broken("messages.%d.content.%d: tool_result blocks must come first", i, k)
			}
			part := llm.Part{Kind: llm.ToolResult, ID: b.UseID, IsError: b.IsError}
			for _, c := range p.blocksOrNone(i, b.Content) {
				part.Text += c.Text
			}
			results = append(results, part)
		case "text":
			if b.Text == "" {
				p.broken("messages.%d.content.%d: text content blocks must be non-empty", i, k)
			}
			if text := untail(b.Text); text != "" {
				said = append(said, llm.Part{Kind: llm.Text, Text: text})
			}
		case "image":
			said = append(said, llm.Part{Kind: llm.Image, Media: b.Source.Media, Data: b.Source.Data})
		default:
			p.broken("messages.%d.content.%d: %q does not belong to a user", i, k, b.Type)
		}
	}
	if len(results) > 0 {
		p.req.Messages = append(p.req.Messages, llm.Message{Role: llm.ToolRole, Parts: results})
	}
	if len(said) > 0 {
		p.req.Messages = append(p.req.Messages, llm.Message{Role: llm.User, Parts: said})
	}
	return len(results) == 0
}

func (p *parsed) blocksOrNone(i int, raw json.RawMessage) []anthropicBlock {
	if len(raw) == 0 {
		return nil
	}
	return p.blocks(i, raw)
}

// assistantTurn reads an assistant's turn and checks the seals of its
// thinking. It reports whether this turn, and those before, began with it.
func (p *parsed) assistantTurn(i int, blocks []anthropicBlock, thinks bool) bool {
	var parts []llm.Part
	for k, b := range blocks {
		if k == 0 && b.Type != "thinking" && b.Type != "redacted_thinking" {
			thinks = false
		}
		switch b.Type {
		case "text":
			parts = append(parts, llm.Part{Kind: llm.Text, Text: b.Text})
		case "thinking":
			if b.Signature != sign(p.req.Model, b.Thinking) {
				p.broken("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, k)
			}
			parts = append(parts, llm.Part{Kind: llm.Reasoning, Text: b.Thinking, Signature: b.Signature})
		case "redacted_thinking":
			text, ok := unseal(p.req.Model, b.Data)
			if !ok {
				p.broken("messages.%d.content.%d: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified", i, k)
			}
			parts = append(parts, llm.Part{Kind: llm.Reasoning, Text: text, Raw: b.Data})
		case "tool_use":
			if !callID.MatchString(b.ID) {
				p.broken("messages.%d.content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", i, k)
			}
			parts = append(parts, llm.Part{Kind: llm.ToolCall, ID: b.ID, Name: b.Name, Args: b.Input})
		default:
			p.broken("messages.%d.content.%d: %q does not belong to an assistant", i, k, b.Type)
		}
	}
	p.req.Messages = append(p.req.Messages, llm.Message{Role: llm.Assistant, Parts: parts})
	return thinks
}

// seal and unseal stand for encrypted thinking.
func seal(model, text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text)) + "." + sign(model, text)
}

func unseal(model, data string) (string, bool) {
	head, signature, _ := bytes.Cut([]byte(data), []byte("."))
	text, err := base64.StdEncoding.DecodeString(string(head))
	return string(text), err == nil && string(signature) == sign(model, string(text))
}
