package move

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainJSON turns JSON5 (json5.org), as people write it in configuration
// files, into JSON: comments, trailing commas, single quotes, names without
// quotes, a plus sign, and numbers that begin or end with a point. Numbers in
// hex and the names of infinities are left as they are, and refused later.
func plainJSON(text []byte) ([]byte, error) {
	var b bytes.Buffer
	comma := false // one was read and is written when something follows
	put := func(s string) {
		if comma {
			b.WriteByte(',')
			comma = false
		}
		b.WriteString(s)
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return nil, errors.New("a comment does not end")
			}
			i += end + 4
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == ',':
			if comma {
				return nil, errors.New("two commas follow each other")
			}
			comma = true
			i++
		case c == '}' || c == ']':
			comma = false
			b.WriteByte(c)
			i++
		case c == '{' || c == '[' || c == ':':
			put(string(c))
			i++
		case c == '"' || c == '\'':
			s, n, err := json5String(text[i:])
			if err != nil {
				return nil, err
			}
			put(s)
			i += n
		default:
			n := wordLength(text[i:])
			if n == 0 {
				return nil, fmt.Errorf("%q stands in an unusual place", text[i:min(i+10, len(text))])
			}
			put(json5Word(string(text[i : i+n])))
			i += n
		}
	}
	return b.Bytes(), nil
}

func wordLength(b []byte) int {
	n := 0
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_$.+-", r) {
			break
		}
		n += size
	}
	return n
}

// json5Word writes a name, a number or one of the three words of JSON.
func json5Word(word string) string {
	if word == "true" || word == "false" || word == "null" {
		return word
	}
	number := strings.TrimPrefix(word, "+")
	sign := ""
	if rest, ok := strings.CutPrefix(number, "-"); ok {
		sign, number = "-", rest
	}
	if strings.HasPrefix(number, ".") {
		number = "0" + number
	}
	if strings.HasSuffix(number, ".") {
		number += "0"
	}
	if json.Valid([]byte(sign + number)) {
		return sign + number
	}
	quoted, err := json.Marshal(word)
	if err != nil {
		return `""`
	}
	return string(quoted)
}

// json5String reads the quoted text at the start of b and writes it as JSON.
func json5String(b []byte) (text string, n int, err error) {
	var s strings.Builder
	for i := 1; i < len(b); i++ {
		c := b[i]
		switch {
		case c == b[0]:
			quoted, err := json.Marshal(s.String())
			return string(quoted), i + 1, err
		case c == '\n':
			return "", 0, errors.New("a text in quotes does not end in its line")
		case c != '\\':
			s.WriteByte(c)
		case i+1 == len(b):
			return "", 0, errors.New("a text in quotes does not end")
		default:
			i++
			switch b[i] {
			case '\n': // the text goes on in the next line
			case 'n':
				s.WriteByte('\n')
			case 't':
				s.WriteByte('\t')
			case 'r':
				s.WriteByte('\r')
			case 'b':
				s.WriteByte('\b')
			case 'f':
				s.WriteByte('\f')
			case 'u':
				if i+4 >= len(b) {
					return "", 0, errors.New("a text in quotes does not end")
				}
				var one string
				// A pair of halves stands in two sequences.
				seq := b[i-1 : i+5]
				if i+10 < len(b) && b[i+5] == '\\' && b[i+6] == 'u' && json.Unmarshal([]byte(`"`+string(b[i-1:i+11])+`"`), &one) == nil && utf8.RuneCountInString(one) == 1 {
					i += 10
				} else if json.Unmarshal([]byte(`"`+string(seq)+`"`), &one) != nil {
					return "", 0, errors.New("a text has a broken \\u sequence")
				} else {
					i += 4
				}
				s.WriteString(one)
			default:
				s.WriteByte(b[i])
			}
		}
	}
	return "", 0, errors.New("a text in quotes does not end")
}

// lineReader reads lines of any length; one longer than maxLine is passed
// over.
type lineReader struct{ r *bufio.Reader }

func newLines(r io.Reader) lineReader { return lineReader{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line without blanks around it, empty for one that is
// too long. At the end the error is io.EOF, with the last line.
func (l lineReader) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			long = true
			line = nil
		}
		if !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSpace(line), err
	}
}
