package move

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// openClawSessions reads the talks of one agent: sessions.json names the live
// ones, the transcripts are one JSON object a line. The first line is a header
// of type "session"; lines of type "message" hold {role, content, timestamp},
// the content a text or a list of blocks.
func openClawSessions(h *home, p *Parcel, dir string) {
	titles := map[string]string{}
	var store map[string]struct {
		SessionID   string `json:"sessionId"`
		DisplayName string `json:"displayName"`
		Subject     string `json:"subject"`
	}
	h.json(path.Join(dir, "sessions.json"), false, &store)
	for key, s := range store {
		titles[s.SessionID] = cmp.Or(s.DisplayName, s.Subject, key)
	}
	for _, name := range h.glob(path.Join(dir, "*.jsonl")) {
		id := strings.TrimSuffix(path.Base(name), ".jsonl")
		c := Conversation{ID: conversationID(p.Source, id), Title: "OpenClaw: " + cmp.Or(titles[id], id)}
		h.lines(name, func(line []byte) {
			var l struct {
				Type      string          `json:"type"`
				Timestamp json.RawMessage `json:"timestamp"`
				Summary   string          `json:"summary"`
				Message   struct {
					Role      string          `json:"role"`
					Content   json.RawMessage `json:"content"`
					Timestamp json.RawMessage `json:"timestamp"`
					ToolName  string          `json:"toolName"`
				} `json:"message"`
			}
			if json.Unmarshal(line, &l) != nil {
				return
			}
			at := when(l.Message.Timestamp)
			if at.IsZero() {
				at = when(l.Timestamp)
			}
			switch l.Type {
			case "message":
				c.add(l.Message.Role, l.Message.ToolName, l.Message.Content, at)
			case "compaction", "branch_summary":
				c.note("What came before, in short:\n"+l.Summary, at)
			}
		})
		p.converse(c)
	}
}

// converse adds a talk in which something was said.
func (p *Parcel) converse(c Conversation) {
	if len(c.Entries) > 0 {
		p.Conversations = append(p.Conversations, c)
	}
}

// add takes one message: what people and the agent said as it was, tools as
// notes.
func (c *Conversation) add(role, tool string, content json.RawMessage, at time.Time) {
	var text string
	if json.Unmarshal(content, &text) != nil {
		text = ""
		var blocks []struct {
			Type      string          `json:"type"`
			Text      string          `json:"text"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Input     json.RawMessage `json:"input"`
			Content   json.RawMessage `json:"content"`
		}
		if json.Unmarshal(content, &blocks) != nil {
			return
		}
		for _, b := range blocks {
			switch b.Type {
			case "text", "input_text", "output_text":
				text += b.Text
			case "toolCall", "tool_use":
				c.note("used "+b.Name+" "+cut(string(cmpRaw(b.Arguments, b.Input)), maxToolOut), at)
			case "tool_result":
				c.note("got "+cut(string(b.Content), maxToolOut), at)
			}
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	switch role {
	case "user", "human":
		c.Entries = append(c.Entries, Entry{mercury.UserEntry, text, at})
	case "assistant":
		c.Entries = append(c.Entries, Entry{mercury.AssistantEntry, text, at})
	case "toolResult", "tool", "function":
		c.note(strings.TrimSpace("got from "+tool)+": "+cut(text, maxToolOut), at)
	}
}

func (c *Conversation) note(text string, at time.Time) {
	if strings.TrimSpace(text) != "" {
		c.Entries = append(c.Entries, Entry{mercury.NoteEntry, text, at})
	}
}

// when reads a time that is a text as RFC 3339, or a number of seconds or
// milliseconds since 1970.
func when(raw json.RawMessage) time.Time {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at.UTC()
		}
		if at, err := time.Parse("2006-01-02T15:04:05.999999", text); err == nil {
			return at
		}
		return time.Time{}
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil {
		return time.Time{}
	}
	if n < 1e11 { // seconds until the year 5138
		return millis(n * 1000)
	}
	return millis(n)
}
