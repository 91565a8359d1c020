package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/mercury"
)

const header = "# yaml-language-server: $schema=./mercury.schema.json\n"

// Set writes one key of mercury.yaml and returns the configuration that
// results. The value is written as on a command line: a text, a number, true
// or false; a list as [a, b] or a, b; a section as {key: value}. Comments,
// quotes and blank lines stay. The whole is checked before anything is
// written: when the result would not load, or would change anything but the
// key, the file stays as it was. The file is replaced at once, 0600, and the
// schema for editors is renewed beside it.
//
// Flags of src take no part, so that they cannot hide what is written.
func Set(src Source, key, value string) (*Config, error) {
	return Change(src, Setting{key, value})
}

// Setting is a key of mercury.yaml with the value to give it, written as for
// Set.
type Setting struct{ Key, Value string }

// Change is Set for several keys at once: all of them are written, or none.
func Change(src Source, settings ...Setting) (*Config, error) {
	src.Flags = nil
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Key
	}
	what := "set " + strings.Join(names, ", ")
	if err := src.Home.Guard(); err != nil {
		return nil, err
	}
	old, err := readLimited(src.Home.Config(), maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &mercury.Error{Kind: mercury.Setup, Help: "Make mercury.yaml a readable file.", Err: fmt.Errorf("%s: %w", what, err)}
	}
	text := old
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(header)
	}
	for _, s := range settings {
		if text, err = change(src, text, s); err != nil {
			return nil, fmt.Errorf("set %s: %w", s.Key, err)
		}
	}
	c, err := build(src, src.Home.Config(), text, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: nothing was written: %w", what, err)
	}
	if err := src.Home.Create(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if now, _ := readLimited(src.Home.Config(), maxFile); !bytes.Equal(now, old) {
		return nil, &mercury.Error{Kind: mercury.Conflict, Help: "Look at the file and try again.", Err: fmt.Errorf("%s: somebody else changed mercury.yaml meanwhile", what)}
	}
	if err := atomicfile.Write(src.Home.Config(), text, 0o600); err != nil {
		return nil, fmt.Errorf("%s: %w", what, unwritten(err))
	}
	if err := WriteSchema(src.Home); err != nil {
		c.Warnings = append(c.Warnings, err.Error())
	}
	return c, nil
}

// change returns text with one key changed and nothing else.
func change(src Source, text []byte, s Setting) ([]byte, error) {
	path, err := splitKey(s.Key)
	if err != nil {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: err}
	}
	at, help := typeAt(reflect.TypeFor[Config](), path)
	if help != "" {
		return nil, &mercury.Error{Kind: mercury.Invalid, Help: help, Err: errors.New("no such key")}
	}
	if strings.ContainsAny(s.Value, "\n\r\x00") {
		return nil, &mercury.Error{Kind: mercury.Invalid, Help: "Edit mercury.yaml by hand for long texts.", Err: errors.New("the value has more than one line")}
	}
	want := valueFor(at, s.Value)
	if !want.isText {
		d := &decoder{text: []byte(want.text), anchors: map[string]ast.Node{}}
		if d.parse() == nil {
			return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%s is not a value", quoted(s.Value))}
		}
	}
	changed, err := edit(text, path, want)
	if err != nil {
		return nil, err
	}
	return changed, onlyChanged(src, text, changed, path, want)
}

// WriteSchema puts the schema beside mercury.yaml, for editors.
func WriteSchema(h Home) error {
	if err := h.Guard(); err != nil {
		return err
	}
	if old, err := readLimited(h.Schema(), maxFile); err == nil && bytes.Equal(old, schema) {
		return nil
	}
	if err := atomicfile.Write(h.Schema(), schema, 0o600); err != nil {
		return unwritten(err)
	}
	return nil
}

// onlyChanged compares what the file said before with what it says now: the
// key must have the wanted value and everything else must be as it was. It
// catches an edit of a file so unusual that the editor misread it.
func onlyChanged(src Source, old, changed []byte, path []string, value written) error {
	misread := func(what string) error {
		return &mercury.Error{Kind: mercury.Invalid, Help: "Edit mercury.yaml by hand.", Err: fmt.Errorf("nothing was written: %s", what)}
	}
	env, _ := readEnvironment(src.Home, src.getenv())
	before, after := Default(), Default()
	before.origins, after.origins = map[string]Origin{}, map[string]Origin{}
	decodeFile("", normalise(old), env, before)
	decodeFile("", normalise(changed), env, after)
	key := joinKey(path)
	for _, k := range Changed(before, after) {
		if k != key && !strings.HasPrefix(k, key+".") && !strings.HasPrefix(key, k+".") && !sibling(before, k, path) {
			return misread("the edit would change " + k + " too")
		}
	}
	// The wanted value is read once more by itself. A path that leads through a
	// list of the file has no place to read it into; for it the comparison
	// above must do.
	want := Default()
	want.origins = map[string]Origin{}
	if problems := want.assign(env, key, value.raw, Origin{Source: FromFlag}); len(problems) > 0 {
		return nil
	}
	got, _, err := after.find(key)
	expected, _, _ := want.find(key)
	if err != nil || !expected.IsValid() || identity(got) != identity(expected) {
		return misread("the value would not be read back as it is given")
	}
	return nil
}

// sibling reports whether k became visible only because the section that path
// leads through was absent before: its other keys then appear with defaults.
func sibling(before *Config, k string, path []string) bool {
	for i := 1; i < len(path); i++ {
		section := joinKey(path[:i])
		v, _, err := before.find(section)
		absent := err != nil || v.Kind() == reflect.Pointer && v.IsNil()
		if absent && strings.HasPrefix(k, section+".") {
			return true
		}
	}
	return false
}

// written is a value as it stands in the file: block and flow say the same in
// the two contexts of YAML.
type written struct {
	text   string // on one line, valid in both contexts
	isText bool   // a text, whose quotes may follow those that were there
	raw    string // what assign takes for it: the text without quotes
}

// valueFor writes a value of type t.
func valueFor(t reflect.Type, value string) written {
	if isText(t) {
		return written{text: quote(value, 0), isText: true, raw: value}
	}
	if t.Kind() == reflect.Slice && isText(t.Elem()) && !strings.HasPrefix(strings.TrimSpace(value), "[") {
		var parts []string
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, quote(part, 0))
			}
		}
		value = "[" + strings.Join(parts, ", ") + "]"
	}
	value = strings.TrimSpace(value)
	return written{text: value, raw: value}
}

// in returns the text for a place where a value with the given first character
// stood.
func (w written) in(first byte) string {
	if w.isText && (first == '"' || first == '\'') {
		return quote(w.raw, first)
	}
	return w.text
}

// quote writes a text as YAML: plain where that is safe, with style as the
// preferred quote when it is given.
func quote(s string, style byte) string {
	if style == 0 && isPlain(s) {
		return s
	}
	if style == '\'' && printable(s) == s && !strings.Contains(s, "\t") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isPlain reports whether s can stand without quotes anywhere and is read back
// as the same text.
func isPlain(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '~' || r == '/' || r == '_'
		inner := letter || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '+' || r == '@'
		colon := r == ':' && i+1 < len(s) && s[i+1] != ' ' && s[i+1] != ':'
		if i == 0 && !letter || !inner && !colon {
			return false
		}
	}
	if s == "" || s == "~" {
		return false
	}
	d := &decoder{text: []byte(s), anchors: map[string]ast.Node{}}
	n, ok := d.parse().(*ast.StringNode)
	return ok && n.Value == s && len(d.problems) == 0
}
