package tui

import (
	"io"
	"strings"
	"unicode"
)

// fold writes a stream of text so that lines break between words, where the
// terminal would break them anywhere. Continued lines keep the indent of their
// paragraph or list item. Code and tables pass unchanged: there a break would
// alter what is copied. A word is held back until it is known to have ended.
type fold struct {
	out   io.Writer
	width int // columns; 0 passes everything through

	col  int    // columns written of the current line
	head string // how the line begins, up to the first few letters
	gap  string // blanks that wait for the word after them
	word strings.Builder
	code bool // between the fences of a code block
}

// write shows text, which needs not end where a word ends.
func (f *fold) write(text string) {
	if f.width <= 0 {
		_, _ = io.WriteString(f.out, text)
		return
	}
	for _, r := range text {
		f.add(r)
	}
}

func (f *fold) add(r rune) {
	if r == '\n' {
		f.end()
		if strings.HasPrefix(strings.TrimSpace(f.head), "```") {
			f.code = !f.code
		}
		_, _ = io.WriteString(f.out, "\n")
		f.restart()
		return
	}
	if len(f.head) < 24 {
		f.head += string(r)
	}
	switch {
	case f.code || f.head[0] == '|':
		f.end()
		f.emit(f.gap + string(r))
		f.gap = ""
	case r == ' ' || r == '\t':
		f.end()
		f.gap += string(r)
	default:
		f.word.WriteRune(r)
		if cells(r) == 2 { // scripts without blanks break between letters
			f.end()
		}
	}
}

// end writes the word that was held back.
func (f *fold) end() {
	word := f.word.String()
	if word == "" {
		return
	}
	f.word.Reset()
	if f.col > 0 && f.col+columns(f.gap)+columns(word) > f.width {
		f.gap = ""
		_, _ = io.WriteString(f.out, "\n")
		f.col = 0
		if in := indent(f.head); in <= f.width/2 {
			f.emit(strings.Repeat(" ", in))
		}
	}
	f.emit(f.gap + word)
	f.gap = ""
}

// settle writes the blanks that wait, so that what a person types next does
// not stick to the last word.
func (f *fold) settle() {
	if f.word.Len() == 0 && f.col+columns(f.gap) < f.width {
		f.emit(f.gap)
		f.gap = ""
	}
}

func (f *fold) emit(s string) {
	_, _ = io.WriteString(f.out, s)
	f.col += columns(s)
}

// restart says that the cursor stands at the beginning of a line.
func (f *fold) restart() { f.col, f.head, f.gap = 0, "", "" }

// indent is where the text of a line that begins with head starts: after its
// blanks and the mark of a list item.
func indent(head string) int {
	text := strings.TrimLeft(head, " ")
	blanks := len(head) - len(text)
	mark, _, found := strings.Cut(text, " ")
	number := strings.TrimRight(mark, ".)")
	if found && (mark == "-" || mark == "*" || mark == "•" || number != mark && number != "" && strings.Trim(number, "0123456789") == "") {
		return blanks + columns(mark) + 1
	}
	return blanks
}

// Wrap breaks text between words for a terminal of width columns; 0 leaves it
// as it is.
func Wrap(text string, width int) string {
	var b strings.Builder
	f := fold{out: &b, width: width}
	f.write(text)
	f.end()
	return b.String()
}

// pack joins parts with two blanks and breaks only between them.
func pack(parts []string, width int) string {
	line, col := "", 0
	for i, p := range parts {
		switch {
		case i == 0:
		case width > 0 && col+2+columns(p) > width:
			line, col = line+"\n", 0
			fallthrough
		default:
			line, col = line+"  ", col+2
		}
		line, col = line+p, col+columns(p)
	}
	return line
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

// cells is how many columns a terminal gives to r.
func cells(r rune) int {
	switch {
	case r == '\t':
		return 8
	case unicode.Is(unicode.Mn, r) || r == '\u200b' || r == '\u200d' || r == '\ufe0f':
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
