package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// edit returns text with the value at path replaced or added. It changes only
// the characters of that value and leaves every other byte alone, which
// writing the syntax tree back does not: that would move comments and blanks.
func edit(text []byte, path []string, value written) ([]byte, error) {
	mark := bytes.HasPrefix(text, bom)
	windows := bytes.Contains(text, []byte("\r\n"))
	d := &decoder{text: normalise(text), anchors: map[string]ast.Node{}}
	root := d.parse()
	if len(d.problems) > 0 {
		return nil, invalid((&Config{text: text}).illustrate(d.problems))
	}
	e := &editor{lines: strings.Split(string(d.text), "\n")}
	if err := e.apply(root, path, value); err != nil {
		return nil, err
	}
	out := strings.Join(e.lines, "\n")
	if !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	if windows {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	if mark {
		out = string(bom) + out
	}
	return []byte(out), nil
}

// editor holds the lines of a file. Positions are those of tokens: lines and
// columns count from 1, columns in characters.
type editor struct{ lines []string }

func byHand(what string) error {
	return &mercury.Error{Kind: mercury.Invalid, Help: "Edit mercury.yaml by hand.", Err: fmt.Errorf("the value %s", what)}
}

// apply walks down path as far as the file goes, then replaces or adds.
func (e *editor) apply(root ast.Node, path []string, value written) error {
	node := root
	var parent *ast.MappingValueNode // the entry whose value is node
	for i, name := range path {
		switch n := node.(type) {
		case nil, *ast.NullNode:
			return e.addBelow(parent, path[i:], value)
		case *ast.SequenceNode:
			at, ok := index(name, len(n.Values))
			if !ok {
				return &mercury.Error{Kind: mercury.Invalid, Help: "Set the whole list.", Err: fmt.Errorf("the list has no entry %s", name)}
			}
			node, parent = n.Values[at], nil
		case *ast.MappingNode, *ast.MappingValueNode:
			entry := entryOf(n, name)
			if entry == nil {
				return e.addTo(n, path[i:], value)
			}
			node, parent = entry.Value, entry
		case *ast.AliasNode, *ast.AnchorNode:
			return byHand("is shared through an anchor")
		default:
			return byHand(fmt.Sprintf("stands below %s, which holds no keys", joinKey(path[:i])))
		}
	}
	return e.replace(parent, node, value)
}

func entryOf(mapping ast.Node, name string) *ast.MappingValueNode {
	for _, v := range entries(mapping) {
		if !v.Key.IsMergeKey() && keyText(v.Key) == name {
			return v
		}
	}
	return nil
}

func entries(mapping ast.Node) []*ast.MappingValueNode {
	switch n := mapping.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// replace writes value over node, the value of entry. Without entry node is
// one of a list.
func (e *editor) replace(entry *ast.MappingValueNode, node ast.Node, value written) error {
	switch n := node.(type) {
	case *ast.NullNode:
		if n.Token != nil && n.Token.Position != nil && strings.HasPrefix(e.from(n.Token.Position), n.Token.Value) && n.Token.Value != "" {
			return e.span(n.Token.Position, n.Token.Value, value.text)
		}
		return e.after(entry, value.text)
	case *ast.StringNode:
		return e.replaceText(entry, n, value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return e.span(n.GetToken().Position, n.GetToken().Value, value.text)
	case *ast.MappingNode:
		if n.IsFlowStyle {
			return e.flow(n.Start, n.End, value.text)
		}
		return e.block(entry, value.text)
	case *ast.SequenceNode:
		if n.IsFlowStyle {
			return e.flow(n.Start, n.End, value.text)
		}
		return e.block(entry, value.text)
	case *ast.MappingValueNode, *ast.LiteralNode:
		return e.block(entry, value.text)
	}
	return byHand("is shared through an anchor")
}

func (e *editor) replaceText(entry *ast.MappingValueNode, n *ast.StringNode, value written) error {
	rest := e.from(n.Token.Position)
	if rest == "" {
		return byHand("stands in an unusual place")
	}
	switch first := rest[0]; first {
	case '"', '\'':
		end := closingQuote(rest)
		if end < 0 {
			return e.block(entry, value.in(first))
		}
		return e.span(n.Token.Position, rest[:end], value.in(first))
	default:
		if !strings.HasPrefix(rest, n.Token.Value) || n.Token.Value == "" {
			return e.block(entry, value.text)
		}
		return e.span(n.Token.Position, n.Token.Value, value.text)
	}
}

// closingQuote returns the end of the quoted text that s begins with, -1 when
// it ends in a later line.
func closingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[0] == '\'' && s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return -1
}

// offset turns a column into a place in the line's bytes.
func (e *editor) offset(pos *token.Position) int {
	at := 0
	for i := range e.lines[pos.Line-1] {
		if at++; at == pos.Column {
			return i
		}
	}
	return len(e.lines[pos.Line-1])
}

// from is the rest of the line at pos.
func (e *editor) from(pos *token.Position) string {
	if pos == nil || pos.Line < 1 || pos.Line > len(e.lines) {
		return ""
	}
	return e.lines[pos.Line-1][e.offset(pos):]
}

// span replaces old, which stands at pos, by text.
func (e *editor) span(pos *token.Position, old, text string) error {
	if !strings.HasPrefix(e.from(pos), old) {
		return byHand("stands in an unusual place")
	}
	at, line := e.offset(pos), e.lines[pos.Line-1]
	e.lines[pos.Line-1] = line[:at] + text + line[at+len(old):]
	return nil
}

// flow replaces a bracketed value that ends in the line where it begins.
func (e *editor) flow(start, end *token.Token, text string) error {
	if start == nil || end == nil || start.Position.Line != end.Position.Line {
		return byHand("spans several lines in brackets")
	}
	a, b := e.offset(start.Position), e.offset(end.Position)
	return e.span(start.Position, e.lines[start.Position.Line-1][a:b+len(end.Value)], text)
}

// after writes text behind the colon of an entry that has no value yet.
func (e *editor) after(entry *ast.MappingValueNode, text string) error {
	if entry == nil || entry.Start == nil || !strings.HasPrefix(e.from(entry.Start.Position), ":") {
		return byHand("stands in an unusual place")
	}
	return e.span(entry.Start.Position, ":", ": "+text)
}

// block replaces a value that fills the lines below its key by one on the
// key's line. Comments in those lines go with them; those behind them stay.
func (e *editor) block(entry *ast.MappingValueNode, text string) error {
	if entry == nil || entry.IsFlowStyle {
		return byHand("spans several lines")
	}
	key := entry.Key.GetToken().Position
	last := e.lastLine(key)
	colon := entry.Start
	if colon == nil || !strings.HasPrefix(e.from(colon.Position), ":") {
		return byHand("stands in an unusual place")
	}
	line := e.lines[key.Line-1][:e.offset(colon.Position)] + ": " + text
	if rest := strings.TrimSpace(e.from(colon.Position)[1:]); strings.HasPrefix(rest, "#") {
		line += " " + rest
	}
	e.lines[key.Line-1] = line
	e.lines = slices.Delete(e.lines, key.Line, last)
	return nil
}

// lastLine returns the last line that belongs to the key at pos: indented
// deeper, or a dash below it at the same indent.
func (e *editor) lastLine(pos *token.Position) int {
	last := pos.Line
	for n := pos.Line + 1; n <= len(e.lines); n++ {
		line := e.lines[n-1]
		content := strings.TrimLeft(line, " ")
		indent := len(line) - len(content)
		switch {
		case content == "":
			continue
		case indent >= pos.Column, indent == pos.Column-1 && (content == "-" || strings.HasPrefix(content, "- ")):
			last = n
		case content[0] == '#':
			continue
		default:
			return last
		}
	}
	return last
}

// addTo adds the rest of a path to a mapping that does not have it.
func (e *editor) addTo(mapping ast.Node, rest []string, value written) error {
	if m, ok := mapping.(*ast.MappingNode); ok && m.IsFlowStyle {
		return e.addToFlow(m, rest, value)
	}
	list := entries(mapping)
	first := list[0].Key.GetToken().Position
	after := 0
	for _, v := range list {
		after = max(after, e.lastLine(v.Key.GetToken().Position))
	}
	e.insert(after, nested(rest, value, first.Column-1))
	return nil
}

func (e *editor) addToFlow(m *ast.MappingNode, rest []string, value written) error {
	if m.End == nil || !strings.HasPrefix(e.from(m.End.Position), "}") {
		return byHand("spans several lines in brackets")
	}
	text := ""
	for i, name := range slices.Backward(rest) {
		inner := value.text
		if i < len(rest)-1 {
			inner = "{ " + text + " }"
		}
		text = quote(name, 0) + ": " + inner
	}
	line, at := e.lines[m.End.Position.Line-1], e.offset(m.End.Position)
	before, pad := strings.TrimRight(line[:at], " "), ""
	if strings.HasSuffix(line[:at], " ") || len(m.Values) == 0 {
		pad = " "
	}
	switch {
	case len(m.Values) == 0:
		text = " " + text
	case strings.HasSuffix(before, ","):
		text = " " + text
	case before == "":
		return byHand("spans several lines in brackets")
	default:
		text = ", " + text
	}
	e.lines[m.End.Position.Line-1] = before + text + pad + line[at:]
	return nil
}

// addBelow adds the rest of a path below an entry that has no value, or to an
// empty file.
func (e *editor) addBelow(entry *ast.MappingValueNode, rest []string, value written) error {
	if entry == nil {
		last := len(e.lines)
		for last > 0 && strings.TrimSpace(e.lines[last-1]) == "" {
			last--
		}
		e.insert(last, nested(rest, value, 0))
		return nil
	}
	key := entry.Key.GetToken().Position
	if entry.IsFlowStyle {
		return byHand("stands below an empty key in brackets")
	}
	if n, ok := entry.Value.(*ast.NullNode); ok && n.Token != nil && n.Token.Value != "" && strings.HasPrefix(e.from(n.Token.Position), n.Token.Value) {
		if err := e.span(n.Token.Position, n.Token.Value, ""); err != nil {
			return err
		}
		e.lines[key.Line-1] = strings.TrimRight(e.lines[key.Line-1], " ")
	}
	e.insert(key.Line, nested(rest, value, key.Column+1))
	return nil
}

func (e *editor) insert(after int, lines []string) {
	e.lines = slices.Insert(e.lines, after, lines...)
}

// nested writes a path and its value as block lines.
func nested(path []string, value written, indent int) []string {
	lines := make([]string, len(path))
	for i, name := range path {
		lines[i] = strings.Repeat(" ", indent+2*i) + quote(name, 0) + ":"
	}
	lines[len(lines)-1] += " " + value.text
	return lines
}
