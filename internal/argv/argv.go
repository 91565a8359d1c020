// Package argv reads command lines. Parse turns a string into the exact
// argument vector a POSIX shell would build, or refuses; it accepts only
// strings without any shell syntax, so that running the vector by execve and
// running the string by a shell could not differ. Read looks into strings that
// do have syntax and lists every command a parser can see in them: good for
// showing a person what would run and for finding what must never run, not a
// proof of safety.
//
// The package decides nothing and touches nothing.
package argv

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// MaxLength is the longest string Parse and Read look at, in bytes.
const MaxLength = 128 << 10

// ErrSyntax is wrapped by every refusal of Parse; the text around it says what
// stood in the way.
var ErrSyntax = errors.New("not a plain command")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSyntax, fmt.Sprintf(format, args...))
}

// Parse splits s into words as sh would and removes quotes. It refuses
// anything a shell would expand, redirect, combine or interpret, and bytes
// that a reader cannot see or that parsers disagree about.
func Parse(s string) ([]string, error) {
	if err := Printable(s); err != nil {
		return nil, err
	}
	file, err := parse(s)
	if err != nil {
		return nil, refuse("it does not parse as one command")
	}
	if len(file.Stmts) == 0 {
		return nil, refuse("there is no command")
	}
	if len(file.Stmts) > 1 {
		return nil, refuse("there are several commands")
	}
	if len(file.Last) > 0 {
		return nil, refuse("there is a comment")
	}
	call, err := plainCall(file.Stmts[0])
	if err != nil {
		return nil, err
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		if words[i], err = plainWord(w); err != nil {
			return nil, err
		}
	}
	return words, nil
}

func parse(s string) (*syntax.File, error) {
	p := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	return p.Parse(strings.NewReader(s), "")
}

// Printable refuses strings with bytes that are invisible or that shells and
// parsers read differently: control bytes other than tab and newline, NUL,
// carriage return, invalid UTF-8, Unicode blanks, and format characters such
// as direction overrides. Joiners between non-ASCII letters are part of
// ordinary writing in several scripts and pass.
func Printable(s string) error {
	if len(s) > MaxLength {
		return refuse("it is longer than %d bytes", MaxLength)
	}
	before := rune(0)
	for i, r := range s {
		switch {
		case r == '\t' || r == '\n':
		case r == '\r':
			return refuse("it holds a carriage return")
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return refuse("it is not valid UTF-8")
		case r < 0x20 || r == 0x7f:
			return refuse("it holds the control character %U", r)
		case r < 0x7f:
		case r == '\u200c' || r == '\u200d':
			after, _ := utf8.DecodeRuneInString(s[i+3:])
			if before < 0x80 || after < 0x80 || after == utf8.RuneError {
				return refuse("it holds the invisible character %U", r)
			}
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co):
			return refuse("it holds the invisible character %U", r)
		}
		before = r
	}
	return nil
}

func plainCall(st *syntax.Stmt) (*syntax.CallExpr, error) {
	switch {
	case len(st.Comments) > 0:
		return nil, refuse("there is a comment")
	case len(st.Redirs) > 0:
		return nil, refuse("there is a redirection")
	case st.Background || st.Coprocess || st.Disown:
		return nil, refuse("it would run in the background")
	case st.Negated:
		return nil, refuse("there is a negation")
	case st.Semicolon.IsValid():
		return nil, refuse("there is a separator")
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil, refuse("it is a compound command")
	}
	if len(call.Assigns) > 0 {
		return nil, refuse("it sets a variable")
	}
	if len(call.Args) == 0 {
		return nil, refuse("there is no command")
	}
	return call, nil
}

func plainWord(w *syntax.Word) (string, error) {
	var b strings.Builder
	for i, part := range w.Parts {
		var err error
		switch p := part.(type) {
		case *syntax.Lit:
			err = plainLiteral(&b, p.Value, i == 0)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", refuse("there is an ANSI-C quote")
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			err = plainQuoted(&b, p)
		default:
			err = refuse("there is an expansion")
		}
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// plainLiteral writes the unquoted text lit to b, without its backslashes.
func plainLiteral(b *strings.Builder, lit string, first bool) error {
	for i := 0; i < len(lit); i++ {
		c := lit[i]
		switch c {
		case '\\':
			i++
			if i == len(lit) {
				return refuse("it ends in a backslash")
			}
			if lit[i] == '\n' {
				continue
			}
			b.WriteByte(lit[i])
			continue
		case '*', '?', '[', ']', '{', '}':
			return refuse("there is an unquoted pattern (%c)", c)
		case '!':
			return refuse("there is an unquoted !")
		case '$', '`':
			return refuse("there is an expansion")
		case '#':
			if first && i == 0 {
				return refuse("there is a comment")
			}
		case '~':
			// A tilde is a home folder at the start of a word and, in some
			// shells, after = and :. Elsewhere it is an ordinary character.
			s := b.String()
			if s == "" || s[len(s)-1] == '=' || s[len(s)-1] == ':' {
				return refuse("there is an unquoted ~")
			}
		}
		b.WriteByte(c)
	}
	return nil
}

func plainQuoted(b *strings.Builder, q *syntax.DblQuoted) error {
	if q.Dollar {
		return refuse("there is a translated quote")
	}
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return refuse("there is an expansion inside quotes")
		}
		if err := quotedLiteral(b, lit.Value); err != nil {
			return err
		}
	}
	return nil
}

// quotedLiteral writes the inside of double quotes: a backslash is removed
// only before the four characters it protects there, and before a newline.
func quotedLiteral(b *strings.Builder, lit string) error {
	for i := 0; i < len(lit); i++ {
		c := lit[i]
		if c == '$' || c == '`' {
			return refuse("there is an expansion inside quotes")
		}
		if c == '\\' && i+1 < len(lit) {
			switch next := lit[i+1]; next {
			case '$', '`', '"', '\\':
				b.WriteByte(next)
				i++
				continue
			case '\n':
				i++
				continue
			}
		}
		b.WriteByte(c)
	}
	return nil
}

// Quote writes an argument vector so that a person reads exactly its words and
// a shell would read them back. Bytes that cannot be quoted portably are
// escaped for reading.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			q = fmt.Sprintf("%q", w)
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " ")
}
