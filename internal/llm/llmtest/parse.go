package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
)

// parsed is a request read back from the wire, and the first rule of the wire
// itself that it breaks. Rules that hold for every wire are llm.Validate's.
type parsed struct {
	wire    llm.Wire
	req     llm.Request
	stream  bool
	usage   bool
	problem string
}

func (p *parsed) broken(format string, args ...any) {
	if p.problem == "" {
		p.problem = fmt.Sprintf(format, args...)
	}
}

func parse(wire llm.Wire, body []byte) parsed {
	p := parsed{wire: wire}
	if wire == llm.AnthropicWire {
		p.anthropic(body)
	} else {
		p.openai(body)
	}
	return p
}

var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// untail cuts the status block that drivers append.
func untail(text string) string {
	open := strings.TrimSpace(llm.TailOpen)
	if i := strings.LastIndex(text, open); i >= 0 && strings.HasSuffix(text, llm.TailClose) {
		return strings.TrimRight(text[:i], "\n")
	}
	return text
}

type openaiBody struct {
	Model    string `json:"model"`
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"tool_call_id"`
		Content2  string          `json:"reasoning_content"`
		Reasoning string          `json:"reasoning"`
		Details   json.RawMessage `json:"reasoning_details"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens int `json:"max_tokens"`
}

func (p *parsed) openai(body []byte) {
	var b openaiBody
	if err := json.Unmarshal(body, &b); err != nil {
		p.broken("the body cannot be read: %v", err)
		return
	}
	if b.Model == "" {
		p.broken("you must provide a model parameter")
	}
	p.stream = b.Stream
	p.usage = b.StreamOptions != nil && b.StreamOptions.IncludeUsage
	if b.StreamOptions != nil && !b.Stream {
		p.broken("stream_options is only allowed when stream is enabled")
	}
	p.req = llm.Request{Model: b.Model, MaxTokens: b.MaxTokens, Whole: !b.Stream}
	for _, t := range b.Tools {
		p.req.Tools = append(p.req.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	for i, m := range b.Messages {
		parts := p.content(i, m.Content)
		switch m.Role {
		case "system":
			if i > 0 {
				p.broken("messages.%d: system message must be at the beginning", i)
			}
			p.req.System = append(p.req.System, llm.TextOf(parts))
			continue
		case "user":
		case "assistant":
			if string(m.Content) == "null" && len(m.ToolCalls) == 0 {
				p.broken("messages.%d: content is null and there are no tool_calls", i)
			}
			if thought := m.Content2 + m.Reasoning + detailText(m.Details); thought != "" {
				parts = append([]llm.Part{{Kind: llm.Reasoning, Text: thought, Raw: string(m.Details)}}, parts...)
			}
			for _, c := range m.ToolCalls {
				if len(c.ID) > 40 || c.Type != "function" {
					p.broken("messages.%d: call %q of type %q", i, c.ID, c.Type)
				}
				if !llm.IsObject([]byte(c.Function.Arguments)) {
					p.broken("messages.%d: arguments of %s are not a JSON object", i, c.ID)
				}
				parts = append(parts, llm.Part{Kind: llm.ToolCall, ID: c.ID, Name: c.Function.Name, Args: json.RawMessage(c.Function.Arguments)})
			}
		case "tool":
			text := llm.TextOf(parts)
			part := llm.Part{Kind: llm.ToolResult, ID: m.CallID, Text: text, IsError: strings.HasPrefix(text, "error:")}
			if n := len(p.req.Messages); n > 0 && p.req.Messages[n-1].Role == llm.ToolRole {
				p.req.Messages[n-1].Parts = append(p.req.Messages[n-1].Parts, part)
				continue
			}
			parts = []llm.Part{part}
		default:
			p.broken("messages.%d: unknown role %q", i, m.Role)
		}
		if n := len(p.req.Messages); n > 0 && m.Role == "user" && p.req.Messages[n-1].Role == llm.User {
			p.broken("messages.%d: conversation roles must alternate", i)
		}
		p.req.Messages = append(p.req.Messages, llm.Message{Role: llm.Role(m.Role), Parts: parts})
	}
}

// detailText joins the texts of reasoning_details.
func detailText(raw json.RawMessage) string {
	var list []struct {
		Text    string `json:"text"`
		Summary string `json:"summary"`
	}
	_ = json.Unmarshal(raw, &list)
	text := ""
	for _, d := range list {
		text += d.Text + d.Summary
	}
	return text
}

// content reads a message's content: a text or a list of parts.
func (p *parsed) content(i int, raw json.RawMessage) []llm.Part {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var text string
		_ = json.Unmarshal(raw, &text)
		if text = untail(text); text == "" {
			return nil
		}
		return []llm.Part{{Kind: llm.Text, Text: text}}
	}
	var list []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		p.broken("messages.%d: content is neither text nor a list of parts", i)
	}
	var parts []llm.Part
	for _, c := range list {
		switch c.Type {
		case "text":
			if text := untail(c.Text); text != "" {
				parts = append(parts, llm.Part{Kind: llm.Text, Text: text})
			}
		case "image_url":
			head, data, _ := strings.Cut(c.Image.URL, ";base64,")
			bin, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				p.broken("messages.%d: the image is not base64", i)
			}
			parts = append(parts, llm.Part{Kind: llm.Image, Media: strings.TrimPrefix(head, "data:"), Data: bin})
		default:
			p.broken("messages.%d: unknown content type %q", i, c.Type)
		}
	}
	return parts
}
