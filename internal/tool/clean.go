package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes foreign text harmless to store and print: terminal escape
// sequences are dropped, and NUL, other control characters and bytes that are
// not UTF-8 become U+FFFD. Tabs, line feeds and carriage returns stay.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	var c cleaner
	return string(c.flush(c.add(nil, []byte(s))))
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if b := s[i]; b < 0x20 && b != '\n' && b != '\t' && b != '\r' || b >= 0x7f {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, control)
		}
	}
	return true
}

func control(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0
}

// A cleaner is Clean for text that arrives in pieces, with bounded state.
type cleaner struct {
	state   escapeState
	length  int    // of the string sequence in hand
	partial []byte // start of a rune whose rest has not come
}

type escapeState int

const (
	inText   escapeState = iota
	afterEsc             // ESC was seen
	inCSI                // ESC [ … until a final byte
	inString             // ESC ] and its kin, until BEL or ESC \
	inStringEsc
)

// stringMax bounds a string sequence; one that runs on is no sequence.
const stringMax = 4096

// add appends the clean form of p to dst.
func (c *cleaner) add(dst, p []byte) []byte {
	if len(c.partial) > 0 {
		p = append(c.partial, p...)
		c.partial = nil
	}
	for len(p) > 0 {
		if c.state != inText {
			c.escape(p[0])
			p = p[1:]
			continue
		}
		if p[0] == 0x1b {
			c.state = afterEsc
			p = p[1:]
			continue
		}
		if p[0] < utf8.RuneSelf {
			n := 0
			for n < len(p) && p[n] < utf8.RuneSelf && !control(rune(p[n])) {
				n++
			}
			dst = append(dst, p[:n]...)
			if n == 0 { // a control character
				dst, n = utf8.AppendRune(dst, utf8.RuneError), 1
			}
			p = p[n:]
			continue
		}
		if !utf8.FullRune(p) {
			c.partial = append([]byte(nil), p...)
			return dst
		}
		r, n := utf8.DecodeRune(p)
		if control(r) {
			r = utf8.RuneError
		}
		dst = utf8.AppendRune(dst, r)
		p = p[n:]
	}
	return dst
}

// escape swallows one byte of a terminal sequence.
func (c *cleaner) escape(b byte) {
	switch c.state {
	case afterEsc:
		switch {
		case b == '[':
			c.state = inCSI
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state, c.length = inString, 0
		case b >= 0x20 && b <= 0x2f: // an intermediate byte; one more follows
		default:
			c.state = inText
		}
	case inCSI:
		if b < 0x20 || b >= 0x40 {
			c.state = inText
		}
	case inString:
		c.length++
		switch {
		case b == 0x1b:
			c.state = inStringEsc
		case b == 0x07 || b == '\n' || c.length > stringMax:
			c.state = inText
		}
	case inStringEsc:
		c.state = inText
	}
}

// flush ends the text: a rune that never got its rest is no rune.
func (c *cleaner) flush(dst []byte) []byte {
	for range c.partial {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	*c = cleaner{}
	return dst
}

// visible shows a person what would otherwise hide: control characters and
// characters without a width or with a direction of their own are written as
// escapes. Line feeds and tabs stay.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) || r == 0x3164 || r == 0x115f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cut returns at most n bytes of s, ending at a rune border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// oneLine returns s on one line of at most n bytes.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(visible(s)), " ")
	if len(s) > n {
		s = cut(s, n-len("…")) + "…"
	}
	return s
}
