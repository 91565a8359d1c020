package demo

import (
	"encoding/json"
	"strings"
)

// request is as much of Chat Completions as the model understands.
type request struct {
	Stream   bool      `json:"stream"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var list []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &list)
	var texts []string
	for _, p := range list {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// scene is what the model knows when it must answer.
type scene struct {
	said    string          // the person's last words
	first   bool            // nothing has been answered yet
	tools   map[string]bool // that it may call
	did     []deed          // calls since those words, with their results
	partial string          // the beginning of an answer that was interrupted
	calls   int             // calls in the whole conversation, for their ids
}

type deed struct {
	tool   string
	args   map[string]any
	result string
}

func (r request) scene() scene {
	s := scene{first: true, tools: map[string]bool{}}
	for _, t := range r.Tools {
		s.tools[t.Function.Name] = true
	}
	var open []deed
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			if text := spoken(m.text()); text != "" && !isNote(text) {
				s.said, s.did, s.partial = text, nil, ""
			}
			open = nil
		case "assistant":
			s.first = false
			open = nil
			if len(m.ToolCalls) == 0 {
				s.partial += m.text()
			}
			for _, c := range m.ToolCalls {
				d := deed{tool: c.Function.Name}
				_ = json.Unmarshal([]byte(c.Function.Arguments), &d.args)
				open = append(open, d)
				s.calls++
			}
		case "tool":
			if len(open) > 0 {
				open[0].result = spoken(m.text())
				s.did = append(s.did, open[0])
				open = open[1:]
			}
		}
	}
	return s
}

// spoken cuts the status block that follows a person's words or a result.
func spoken(text string) string {
	if i := strings.LastIndex(text, "<status>"); i >= 0 && strings.HasSuffix(text, "</status>") {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}

// isNote reports whether a user message is the runtime's own, as behind an
// interruption, rather than a person's words.
func isNote(text string) bool {
	bracketed := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") || strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">")
	return bracketed || strings.Contains(text, "interrupted")
}

// last returns the newest deed with tool since the person spoke.
func (s scene) last(tool string) (deed, bool) {
	for i := len(s.did) - 1; i >= 0; i-- {
		if s.did[i].tool == tool {
			return s.did[i], true
		}
	}
	return deed{}, false
}

// refused reports whether a result says that the person or a rule said no.
func (d deed) refused() bool {
	low := strings.ToLower(firstLine(d.result))
	for _, word := range []string{"denied", "declined", "not allowed", "refused", "rejected", "said no", "not permitted"} {
		if strings.Contains(low, word) {
			return true
		}
	}
	return false
}

// failed reports whether a result is an error.
func (d deed) failed() bool {
	low := strings.ToLower(firstLine(d.result))
	return strings.HasPrefix(low, "error") || strings.Contains(low, "no such file") || strings.Contains(low, "does not exist") || d.refused()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
