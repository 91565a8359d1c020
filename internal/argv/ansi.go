package argv

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ansiC decodes the inside of $'…' as bash does (Bash manual, "ANSI-C
// Quoting"). An escape it does not know is kept as written.
func ansiC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'e', 'E':
			b.WriteByte(0x1b)
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case 'x':
			i += number(&b, s[i+1:], 2, 16, false)
		case 'u':
			i += number(&b, s[i+1:], 4, 16, true)
		case 'U':
			i += number(&b, s[i+1:], 8, 16, true)
		case 'c':
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i += number(&b, s[i:], 3, 8, false) - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// number writes the character whose code stands at the start of s, in at most
// max digits, and returns how many digits it used.
func number(b *strings.Builder, s string, max, base int, asRune bool) int {
	n := 0
	for n < max && n < len(s) {
		if _, err := strconv.ParseUint(s[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	if n == 0 {
		return 0
	}
	v, _ := strconv.ParseUint(s[:n], base, 32)
	if asRune && v <= utf8.MaxRune {
		b.WriteRune(rune(v))
	} else {
		b.WriteByte(byte(v))
	}
	return n
}
