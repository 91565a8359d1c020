package tool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Limits of what a model is shown of one result, and of what is kept of the
// whole. A command that prints for ever must fill neither memory nor disk.
const (
	MaxBytes = 50 << 10
	MaxLines = 2000
	MaxKept  = 256 << 20

	// What is shown of a text that does not fit: its beginning and its end.
	// Together with the sentence between them they stay within the limits.
	headBytes, headLines = 25 << 10, 1000
	tailBytes, tailLines = 23 << 10, 980
)

// A Capture takes in a text of any length with bounded memory. It keeps the
// beginning and the end to show, and the whole in a file. What passes through
// it is made harmless as by Clean. It is not safe for concurrent use.
type Capture struct {
	path string // where the whole goes; empty: nowhere
	file *os.File
	kept int64 // bytes in file
	err  error // why the file is not whole

	mask    func(string) string // takes secrets out; nil: nothing does
	waiting []byte              // not masked yet, since a secret may end further on
	clean   cleaner
	spilled bool   // the text is larger than the limits
	buf     []byte // not spilled: all of it; spilled: its beginning
	tail    []byte
	bytes   int64
	lines   int64 // line feeds so far
	scratch []byte
}

// NewCapture returns a Capture for the result of c.
func NewCapture(c Call) *Capture {
	k := &Capture{mask: c.Mask}
	if c.Outputs != "" {
		k.path = filepath.Join(c.Outputs, fileName(c))
	}
	return k
}

// fileName is a name for a call's output, its own among all runs of the
// conversation, that no id can turn into a path.
func fileName(c Call) string {
	safe := func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}
	var parts []string
	for _, part := range []string{c.Name, c.RunID, c.ID} {
		if part != "" {
			parts = append(parts, cut(strings.Map(safe, part), 64))
		}
	}
	return strings.Join(parts, "-") + ".txt"
}

// Write takes in more text. It never fails: what cannot be kept is said in
// the result.
func (k *Capture) Write(p []byte) (int, error) {
	k.scratch = k.clean.add(k.scratch[:0], p)
	k.screen(k.scratch)
	return len(p), nil
}

// Text is masked in blocks of whole lines, so that a secret lies within one:
// blockMin is where a block may end, blockMax where it does.
const (
	blockMin = 32 << 10
	blockMax = 256 << 10
)

// screen passes text on without its secrets.
func (k *Capture) screen(p []byte) {
	if k.mask == nil {
		k.take(p)
		return
	}
	k.waiting = append(k.waiting, p...)
	for len(k.waiting) >= blockMin {
		end := bytes.LastIndexByte(k.waiting, '\n') + 1
		if end < blockMin/2 {
			if len(k.waiting) < blockMax {
				return
			}
			end = blockMax
		}
		k.take([]byte(k.mask(string(k.waiting[:end]))))
		k.waiting = append(k.waiting[:0], k.waiting[end:]...)
	}
}

func (k *Capture) take(p []byte) {
	if len(p) == 0 {
		return
	}
	k.bytes += int64(len(p))
	k.lines += int64(bytes.Count(p, []byte("\n")))
	if !k.spilled {
		k.buf = append(k.buf, p...)
		if k.bytes <= MaxBytes && k.shownLines() <= MaxLines {
			return
		}
		k.spill()
		return
	}
	k.keep(p)
	if len(p) > tailBytes {
		p = p[len(p)-tailBytes:]
	}
	k.tail = append(k.tail, p...)
	if len(k.tail) > 4*tailBytes {
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-tailBytes:]...)
	}
}

// shownLines counts a last line without its line feed too.
func (k *Capture) shownLines() int64 {
	if n := len(k.buf); n > 0 && k.buf[n-1] != '\n' {
		return k.lines + 1
	}
	return k.lines
}

// spill moves from keeping all to keeping the ends.
func (k *Capture) spill() {
	k.spilled = true
	k.keep(k.buf)
	head := headOf(k.buf)
	k.tail = append([]byte(nil), k.buf[max(len(head), len(k.buf)-tailBytes):]...)
	k.buf = append([]byte(nil), head...)
}

// keep writes p to the file of the whole, up to MaxKept.
func (k *Capture) keep(p []byte) {
	if k.path == "" || k.err != nil {
		return
	}
	if k.file == nil {
		if k.err = os.MkdirAll(filepath.Dir(k.path), 0o700); k.err != nil {
			return
		}
		k.file, k.err = os.OpenFile(k.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if k.err != nil {
			return
		}
	}
	if left := MaxKept - k.kept; int64(len(p)) > left {
		p = p[:left]
		k.err = fmt.Errorf("it is larger than %s", size(MaxKept))
	}
	n, err := k.file.Write(p)
	k.kept += int64(n)
	if err != nil {
		k.err = err
	}
}

// Finish ends the text and returns what to show of it, and the path of the
// whole if that is more.
func (k *Capture) Finish() (text, path string) {
	k.screen(k.clean.flush(nil))
	if len(k.waiting) > 0 {
		k.take([]byte(k.mask(string(k.waiting))))
		k.waiting = nil
	}
	if k.file != nil {
		if err := k.file.Close(); err != nil && k.err == nil {
			k.err = err
		}
	}
	if !k.spilled {
		return string(k.buf), ""
	}
	tail := tailOf(k.tail, k.bytes == int64(len(k.buf)+len(k.tail)))
	leftLines := k.lines - int64(bytes.Count(k.buf, []byte("\n"))) - int64(bytes.Count(tail, []byte("\n")))
	leftBytes := k.bytes - int64(len(k.buf)) - int64(len(tail))

	note := fmt.Sprintf("[… %d lines (%s) left out here", max(leftLines, 0), size(leftBytes))
	switch {
	case k.file == nil && k.err == nil:
		note += "; the rest was not kept …]"
	case k.file == nil:
		note += fmt.Sprintf("; the rest could not be kept: %v …]", k.err)
	case k.err != nil:
		path = k.path
		note += fmt.Sprintf("; the first %s are in %s, use read_file with offset and limit; the rest could not be kept: %v …]", size(k.kept), k.path, k.err)
	default:
		path = k.path
		note += fmt.Sprintf("; all of it is in %s, use read_file with offset and limit …]", k.path)
	}
	var b strings.Builder
	b.Write(k.buf)
	if n := len(k.buf); n > 0 && k.buf[n-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString(note)
	b.WriteByte('\n')
	b.Write(tail)
	return b.String(), path
}

// headOf returns the beginning of p within the limits, whole lines if it has
// any, else whole runes.
func headOf(p []byte) []byte {
	p = p[:min(len(p), headBytes)]
	for n, i := 0, 0; i < len(p); i++ {
		if p[i] == '\n' {
			if n++; n == headLines {
				return p[:i+1]
			}
		}
	}
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		return p[:i+1]
	}
	for i := len(p); i > 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i-1]) {
			if !utf8.FullRune(p[i-1:]) {
				p = p[:i-1]
			}
			break
		}
	}
	return p
}

// tailOf is headOf for the end. What is whole begins where the head ended.
func tailOf(p []byte, whole bool) []byte {
	whole = whole && len(p) <= tailBytes
	p = p[len(p)-min(len(p), tailBytes):]
	for n, i := 0, len(p)-2; i >= 0; i-- {
		if p[i] == '\n' {
			if n++; n == tailLines {
				return p[i+1:]
			}
		}
	}
	if whole {
		return p
	}
	if i := bytes.IndexByte(p, '\n'); i >= 0 && i < len(p)-1 {
		return p[i+1:]
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return p
}

// limit bounds an output's text, and its diff, which only people see.
func limit(out Output, c Call) Output {
	k := NewCapture(c)
	_, _ = k.Write([]byte(out.Text)) // never fails
	text, path := k.Finish()
	out.Text = text
	if path != "" {
		out.Truncated = path
	}
	out.Diff = Clean(out.Diff)
	if len(out.Diff) > MaxBytes {
		out.Diff = cut(out.Diff, MaxBytes) + "\n…\n"
	}
	return out
}

// size says a number of bytes for a person.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
}
