package config

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// Problem is one thing wrong with the configuration. It never shows a secret.
type Problem struct {
	File    string `json:"file,omitempty"`   // empty: not from a file
	Line    int    `json:"line,omitempty"`   // from 1; 0: the whole file
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Key     string `json:"key,omitempty"`    // dotted path, such as web.listen
	Message string `json:"message"`          // what is wrong
	Help    string `json:"help,omitempty"`   // what to do about it
	Excerpt string `json:"excerpt,omitempty"`

	unknown bool // a key that is not known
	dotenv  bool // a line of .env
}

// String writes the problem in a few lines: place and message, the excerpt,
// the remedy.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:", p.Line)
		}
		if p.Column > 0 {
			fmt.Fprintf(&b, "%d:", p.Column)
		}
		b.WriteByte(' ')
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	if p.Help != "" {
		b.WriteString("\n  → " + p.Help)
	}
	return b.String()
}

// Problems is an error that holds everything found wrong at once, in the order
// of the file.
type Problems []Problem

func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

const longLine = 1000 // bytes; longer ones are not shown

// excerpt shows line n of text with one line before it and a caret below the
// column. Values that may be secret are masked: those of hidden, and what
// looks like one.
func excerpt(text []byte, line, column int, hidden []string) string {
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	shown := func(s string) []rune {
		if len(s) > longLine {
			// Cutting it could cut a secret, so that no mask would know it.
			return []rune(fmt.Sprintf("(a line of %d bytes)", len(s)))
		}
		return []rune(printable(maskLine(mask(s, hidden))))
	}
	var b strings.Builder
	for n := max(1, line-1); n <= line; n++ {
		runes := shown(lines[n-1])
		if len(runes) > 120 {
			runes = append(runes[:120], '…')
		}
		fmt.Fprintf(&b, "%5d | %s\n", n, string(runes))
	}
	before := []rune(lines[line-1])
	before = before[:min(max(column-1, 0), len(before))]
	b.WriteString("      | ")
	b.WriteString(strings.Repeat(" ", min(len(shown(string(before))), 120)) + "^")
	return b.String()
}

// mask replaces each of the hidden values in s.
func mask(s string, hidden []string) string {
	for _, h := range hidden {
		s = strings.ReplaceAll(s, h, Masked)
	}
	return s
}

// printable replaces control characters, which a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' || r == unicode.ReplacementChar {
			return '·'
		}
		if r == '\t' {
			return '→'
		}
		return r
	}, s)
}

// maskLine hides what may be a secret in a line of a file that could not be
// understood: values behind telling keys, passwords in addresses, and any long
// word that looks like a key. References such as ${NAME} stay.
func maskLine(line string) string {
	for _, p := range secretShapes() {
		line = p.pattern.ReplaceAllString(line, p.with)
	}
	return longWords().ReplaceAllStringFunc(line, func(word string) string {
		if looksSecret(word) {
			return Masked
		}
		return word
	})
}

type shape struct {
	pattern *regexp.Regexp
	with    string
}

// secretShapes and longWords are compiled when the first error is shown, not at
// every start.
var secretShapes = sync.OnceValue(func() []shape {
	return []shape{
		{regexp.MustCompile(`(?i)((?:key|token|secret|password|passwd|authorization|cookie|proxy)["']?\s*[:=]\s*)(?:"\$\{[^"]*"|'\$\{[^']*'|\$\{[^\s]*|"[^"]*"?|'[^']*'?|[^\s,}#][^,}#]*)`), "${1}" + Masked},
		{regexp.MustCompile(`(://)[^/\s@]*@`), "${1}" + Masked + "@"},
	}
})

var longWords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9_\-+=.]{16,}`) })

// looksSecret reports whether a word mixes letters and digits as keys do.
func looksSecret(word string) bool {
	letters, digits := 0, 0
	for _, r := range word {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return len(word) >= 16 && digits >= 3 && letters >= 3
}

// quoted shows a value in a message: short, printable, masked where it may be
// a secret.
func quoted(value string) string {
	if r := []rune(value); len(r) > 60 {
		value = string(r[:60]) + "…"
	}
	return `"` + printable(maskLine(value)) + `"`
}

// nearest returns the candidate most like name, or nothing when none is close
// enough to be meant. Case, - and _ do not count, so apiKey finds api_key.
func nearest(name string, candidates []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	want, best, distance := plain(name), "", len(name)/3+1
	if len(name) > 64 {
		return ""
	}
	for _, c := range candidates {
		if d := edits(want, plain(c)); d < distance || d == 0 {
			best, distance = c, d
		}
	}
	return best
}

// edits is the optimal string alignment distance: insertions, deletions,
// replacements and swaps of neighbours that turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
