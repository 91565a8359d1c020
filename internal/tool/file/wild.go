package file

import "strings"

// wildSteps bounds the work of one match; a pattern that needs more is made to
// be slow and matches nothing.
const wildSteps = 100_000

// wild reports whether the pattern p, from i on, matches all of s, by git's
// rules for paths: "*" and "?" stop at a slash, "**" between slashes does not.
func wild(p string, i int, s string, steps *int) bool {
	for ; i < len(p); i++ {
		if *steps--; *steps < 0 {
			return false
		}
		if p[i] == '*' {
			return star(p, i, s, steps)
		}
		if s == "" {
			return false
		}
		switch p[i] {
		case '?':
			if s[0] == '/' {
				return false
			}
		case '[':
			end, ok := bracket(p, i, s[0])
			if !ok || s[0] == '/' {
				return false
			}
			i = end
		case '\\':
			if i++; i == len(p) || p[i] != s[0] {
				return false
			}
		default:
			if p[i] != s[0] {
				return false
			}
		}
		s = s[1:]
	}
	return s == ""
}

// star matches from the star at p[i] on.
func star(p string, i int, s string, steps *int) bool {
	after := i
	for after < len(p) && p[after] == '*' {
		after++
	}
	rest := p[after:]
	deep := after-i > 1 && (i == 0 || p[i-1] == '/') && (rest == "" || rest[0] == '/')
	if deep && rest != "" && wild(p, after+1, s, steps) {
		return true // no folder in between
	}
	if rest == "" {
		return deep || !strings.Contains(s, "/")
	}
	for ; s != ""; s = s[1:] {
		if wild(p, after, s, steps) {
			return true
		}
		if *steps < 0 || !deep && s[0] == '/' {
			return false
		}
	}
	return false
}

// bracket matches c against the set that opens at p[i]; end is the index of
// its closing bracket. A set that does not close matches nothing.
func bracket(p string, i int, c byte) (end int, ok bool) {
	i++
	not := i < len(p) && (p[i] == '!' || p[i] == '^')
	if not {
		i++
	}
	hit := false
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		if p[i] == ']' && !first {
			return i, hit != not
		}
		if strings.HasPrefix(p[i:], "[:") {
			name, _, closed := strings.Cut(p[i+2:], ":]")
			in, known := classes[name]
			if closed {
				if !known {
					return 0, false
				}
				hit = hit || in(c)
				i += len(name) + len("[::]")
				continue
			}
		}
		if p[i] == '\\' {
			i++
			if i >= len(p) {
				return 0, false
			}
		}
		low := p[i]
		i++
		if i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			i++
			if p[i] == '\\' {
				i++
				if i >= len(p) {
					return 0, false
				}
			}
			hit = hit || low <= c && c <= p[i]
			i++
			continue
		}
		hit = hit || low == c
	}
}

// classes are the named sets of a bracket.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return letter(c) || digit(c) },
	"alpha":  letter,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < 0x20 || c == 0x7f },
	"digit":  digit,
	"graph":  func(c byte) bool { return c > 0x20 && c < 0x7f },
	"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c byte) bool { return c >= 0x20 && c < 0x7f },
	"punct":  func(c byte) bool { return c > 0x20 && c < 0x7f && !letter(c) && !digit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' },
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }
