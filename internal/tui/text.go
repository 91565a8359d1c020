package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Safe makes text from outside harmless on a terminal: control characters
// other than line feed and tab are shown, not obeyed.
func Safe(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		case r == '\u202a' || r == '\u202b' || r == '\u202d' || r == '\u202e' || r == '\u2066' || r == '\u2067' || r == '\u2068':
			return '\uFFFD' // direction overrides make text read as what it is not
		}
		return r
	}, s)
}

func brief(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// leading are the arguments that say by themselves what a call is about.
var leading = []string{"path", "command", "query", "pattern", "url", "question", "text"}

// Args is the arguments of a tool call as a person reads them: what it is
// about first, then the others by name. What is no object stays as it is.
func Args(raw json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(raw, &args) != nil {
		return string(raw)
	}
	var parts []string
	for _, name := range leading {
		if v, ok := args[name].(string); ok && v != "" {
			parts = append(parts, v)
			delete(args, name)
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		v, ok := args[name].(string)
		if !ok {
			var b strings.Builder
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if e.Encode(args[name]) != nil {
				continue
			}
			v = strings.TrimSpace(b.String())
		}
		parts = append(parts, fmt.Sprintf("%s=%s", name, v))
	}
	return strings.Join(parts, ", ")
}

// hunks is a diff without its head: the line before names the file.
func hunks(diff string) string {
	for _, mark := range []string{"--- ", "+++ "} {
		if strings.HasPrefix(diff, mark) {
			_, diff, _ = strings.Cut(diff, "\n")
		}
	}
	return strings.TrimRight(diff, "\n")
}
