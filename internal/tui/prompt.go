package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// A Veil says what of a typed line may be seen.
type Veil int

const (
	Open    Veil = iota // all of it
	Careful             // what is typed, unless it is pasted or grows as long as a key
	Hidden              // nothing
)

// ErrInterrupted says that Ctrl+C was pressed at a prompt.
var ErrInterrupted = errors.New("interrupted")

const (
	pasteBurst  = 4  // characters that arrive together and are no typing
	longestWord = 18 // characters of one word; keys are longer
)

// A Prompt asks for one line at a time at a terminal. It shows no more of a
// line than its veil allows, and takes a pasted text for one answer even where
// the paste ends in a newline. While it waits the terminal is in raw mode; it
// is put back before Ask returns.
type Prompt struct {
	in   *os.File
	out  io.Writer
	rest []byte // read and not used up: what was typed ahead
}

// NewPrompt returns a Prompt on the terminal in.
func NewPrompt(in *os.File, out io.Writer) *Prompt { return &Prompt{in: in, out: out} }

// Rest reads what was typed ahead of the next question, then the terminal.
func (p *Prompt) Rest() io.Reader { return io.MultiReader(bytes.NewReader(p.rest), p.in) }

// Ask shows the question and returns the line that is typed, without blanks
// around it. Ctrl+C is ErrInterrupted, Ctrl+D on an empty line io.EOF. When
// ctx ends, Ask returns its error; what is typed then is lost.
func (p *Prompt) Ask(ctx context.Context, question string, veil Veil) (string, error) {
	// Raw before the question is seen: whoever answers at once is not echoed.
	fd := int(p.in.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("ask at the terminal: %w", err)
	}
	fmt.Fprint(p.out, strings.ReplaceAll(question, "\n", "\r\n"))
	// Bracketed paste tells a pasted text from a typed one, where the terminal
	// knows it; others ignore the request.
	begin, end := "\x1b[?2004h", "\x1b[?2004l"
	if !marksPastes(p.out) {
		begin, end = "", ""
	}
	fmt.Fprint(p.out, begin)
	l := &promptLine{out: p.out, veil: veil}
	err = p.read(ctx, l)
	fmt.Fprint(p.out, end+l.end()+"\r\n")
	if e := term.Restore(fd, old); err == nil {
		err = e
	}
	return strings.TrimSpace(string(l.text)), err
}

func (p *Prompt) read(ctx context.Context, l *promptLine) error {
	type chunk struct {
		text []byte
		err  error
	}
	for {
		for len(p.rest) > 0 {
			n, done, err := l.take(p.rest)
			if n == 0 {
				break // half a character or sequence
			}
			p.rest = p.rest[n:]
			if done {
				if l.veiled {
					p.rest = nil // what follows a pasted key is not meant as an answer
				}
				return err
			}
		}
		next := make(chan chunk, 1)
		go func() {
			b := make([]byte, 4096)
			n, err := p.in.Read(b)
			next <- chunk{b[:n], err}
		}()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-next:
			p.rest = append(p.rest, c.text...)
			if c.err != nil {
				return c.err
			}
			l.burst(c.text)
		}
	}
}

// promptLine is one line while it is typed.
type promptLine struct {
	out    io.Writer
	veil   Veil
	text   []rune
	shown  int  // columns on the screen that belong to the line
	veiled bool // the rest of the line is not shown
	paste  bool // between the marks of a bracketed paste
}

// burst looks at what arrived in one read: more than a person types at once
// is a paste, also in a terminal that does not mark it.
func (l *promptLine) burst(chunk []byte) {
	n := 0
	for _, r := range string(chunk) {
		if r < ' ' {
			break
		}
		n++
	}
	if l.veil == Careful && n >= pasteBurst {
		l.veiled = true
	}
}

// take uses up the first key of b and returns how many bytes it was, and
// whether it ends the line.
func (l *promptLine) take(b []byte) (n int, done bool, err error) {
	if b[0] == 0x1b {
		return l.sequence(b), false, nil
	}
	if !utf8.FullRune(b) {
		return 0, false, nil
	}
	r, n := utf8.DecodeRune(b)
	switch {
	case l.paste && (r == '\r' || r == '\n'):
		return n, false, nil
	case r == '\r' || r == '\n':
		return n, true, nil
	case r == 3:
		return n, true, ErrInterrupted
	case r == 4 && len(l.text) == 0:
		return n, true, io.EOF
	case r == 0x7f || r == 8:
		l.back()
	case r == 0x15: // Ctrl+U
		for len(l.text) > 0 {
			l.back()
		}
	case unicode.IsPrint(r) || r == ' ':
		l.add(r)
	}
	return n, false, nil
}

// sequence uses up an escape sequence. Of them only the marks of a paste mean
// something here.
func (l *promptLine) sequence(b []byte) int {
	switch {
	case len(b) == 1:
		return 1 // the key itself
	case b[1] != '[' && b[1] != 'O':
		return 1
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			switch string(b[:i+1]) {
			case "\x1b[200~":
				l.paste = true
				l.veiled = l.veiled || l.veil == Careful
			case "\x1b[201~":
				l.paste = false
			}
			return i + 1
		}
	}
	return 0
}

func (l *promptLine) add(r rune) {
	l.text = append(l.text, r)
	word := string(l.text)
	if at := strings.LastIndexByte(word, ' '); at >= 0 {
		word = word[at+1:]
	}
	if l.veil == Careful && utf8.RuneCountInString(word) > longestWord && !strings.ContainsRune(word, '/') {
		l.hide()
	}
	if l.veil == Hidden || l.veiled {
		return
	}
	fmt.Fprint(l.out, string(r))
	l.shown += cells(r)
}

// hide takes back what was shown and shows no more.
func (l *promptLine) hide() {
	if !l.veiled {
		l.veiled = true
		l.erase(l.shown)
		l.shown = 0
	}
}

func (l *promptLine) back() {
	if len(l.text) == 0 {
		return
	}
	last := l.text[len(l.text)-1]
	l.text = l.text[:len(l.text)-1]
	if l.veil != Hidden && !l.veiled {
		l.erase(cells(last))
		l.shown -= cells(last)
	}
	if len(l.text) == 0 {
		l.veiled = false
	}
}

func (l *promptLine) erase(columns int) {
	fmt.Fprint(l.out, strings.Repeat("\b \b", columns))
}

// end is what stands where the hidden line would: that something arrived.
func (l *promptLine) end() string {
	if n := len(l.text); n > 0 && (l.veil == Hidden || l.veiled) {
		return fmt.Sprintf("(%d characters, not shown)", n)
	}
	return ""
}
