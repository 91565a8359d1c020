package permission

import (
	"sort"
	"strings"
)

// Hidden is what stands in a notice in place of a text that holds a secret.
const Hidden = "[hidden: sensitive content]"

// Masked stands in a log or a tool's output in place of a secret.
const Masked = "[masked]"

// Screen decides whether text may appear in a progress notice. A text that
// seems to hold a secret is not shown in any part: shown is Hidden then. The
// whole text is looked at, so it is screened before it is cut.
func Screen(text string) (shown string, suppressed bool) {
	if holdsSecret(text) || holdsSecret(undressed(text)) {
		return Hidden, true
	}
	return text, false
}

// undressed removes what would split a secret without changing what a shell or
// a server makes of it: quotes, backslashes and characters without width.
func undressed(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
			return ' '
		case '\'', '"', '\\', '\u00ad':
			return -1
		}
		return r
	}, text)
}

func holdsSecret(text string) bool {
	lower := strings.ToLower(text)
	for _, s := range shapes {
		if len(s.find(text, lower)) > 0 {
			return true
		}
	}
	return false
}

// Mask replaces the secrets in text whose form is certain enough to change
// what a tool printed or a log says. It leaves everything else as it is.
func Mask(text string) string {
	lower := strings.ToLower(text)
	var spans [][2]int
	for _, s := range shapes {
		if !s.loose {
			spans = append(spans, s.find(text, lower)...)
		}
	}
	if len(spans) == 0 {
		return text
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i][0] < spans[j][0] })
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s[0] >= at {
			b.WriteString(text[at:s[0]])
			b.WriteString(Masked)
		}
		at = max(at, s[1])
	}
	b.WriteString(text[at:])
	return b.String()
}

// find returns where the shape's secrets stand in text; lower is text in lower
// case.
func (s shape) find(text, lower string) [][2]int {
	if s.hint != "" && !strings.Contains(lower, s.hint) {
		return nil
	}
	var out [][2]int
	scan := s.scan
	if scan == nil {
		scan = func(text string) [][]int { return s.re().FindAllStringSubmatchIndex(text, -1) }
	}
	for _, m := range scan(text) {
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = text[m[2*i]:m[2*i+1]]
			}
		}
		if s.check != nil && !s.check(groups) {
			continue
		}
		last := len(m) - 2
		out = append(out, [2]int{m[last], m[last+1]})
	}
	return out
}

// settings finds name = value, in the notations of shells, YAML, JSON, forms
// and Go: groups are the name and the value.
func settings(text string) [][]int {
	var out [][]int
	for at := 0; at < len(text); at++ {
		if text[at] != '=' && text[at] != ':' {
			continue
		}
		end := at
		for end > 0 && (text[end-1] == ' ' || text[end-1] == '\t') {
			end--
		}
		if end > 0 && (text[end-1] == '"' || text[end-1] == '\'') {
			end--
		}
		start := end
		for start > 0 && end-start < 64 && nameByte(text[start-1]) {
			start--
		}
		if end-start < 3 {
			continue
		}
		from := at + 1
		if text[at] == ':' && from < len(text) && text[from] == '=' {
			from++
		}
		for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
			from++
		}
		if from < len(text) && (text[from] == '"' || text[from] == '\'') {
			from++
		}
		to := from
		for to < len(text) && strings.IndexByte(" \t\r\n\v\f\"'&;,<>(){}[]`", text[to]) < 0 {
			to++
		}
		// What a variable or a pattern stands for is not in the text.
		if to > from && strings.IndexByte("$*%", text[from]) < 0 {
			out = append(out, []int{start, to, start, end, from, to})
		}
	}
	return out
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
