package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Only what must be escaped is, so
// text in any script costs its own bytes and no more; bytes that are not
// UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// AppendArgs appends a call's arguments in one fixed form: compact, and
// without the escapes of <, > and & that encoding/json adds when it stores
// them. The same call is then the same bytes before and after it was stored,
// and a provider's prompt cache still knows it.
func AppendArgs(b []byte, args []byte) []byte {
	var compact bytes.Buffer
	if json.Compact(&compact, bytes.ToValidUTF8(args, []byte("\ufffd"))) != nil || compact.Len() == 0 {
		return append(b, '{', '}')
	}
	src := compact.Bytes()
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' || i+1 >= len(src) {
			b = append(b, src[i])
			continue
		}
		if plain := plainEscape(src[i:]); plain != "" {
			b = append(b, plain...)
			i += 5
			continue
		}
		b = append(b, src[i], src[i+1])
		i++
	}
	return b
}

// plainEscape returns what a needless escape at the start of src stands for.
func plainEscape(src []byte) string {
	if len(src) < 6 {
		return ""
	}
	switch string(src[:6]) {
	case `\u003c`:
		return "<"
	case `\u003e`:
		return ">"
	case `\u0026`:
		return "&"
	case `\u2028`:
		return "\u2028"
	case `\u2029`:
		return "\u2029"
	}
	return ""
}

// Args turns what a model wrote as arguments into a JSON object. Nothing at
// all means no arguments. The second result is what was written when it was
// no object; the first is {} then.
func Args(written string) (json.RawMessage, string) {
	t := bytes.TrimSpace([]byte(written))
	if len(t) == 0 || string(t) == "null" {
		return json.RawMessage("{}"), ""
	}
	if t[0] == '{' && json.Valid(t) {
		return AppendArgs(nil, t), ""
	}
	// A few servers encode the object twice.
	var inner string
	if t[0] == '"' && json.Unmarshal(t, &inner) == nil {
		if in := bytes.TrimSpace([]byte(inner)); len(in) > 0 && in[0] == '{' && json.Valid(in) {
			return AppendArgs(nil, in), ""
		}
	}
	return json.RawMessage("{}"), written
}
