package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxDepth = 100    // nested values; the schema needs six
	maxNodes = 20_000 // values decoded, with those reached through aliases counted each time
)

// decoder fills a Config from the syntax tree of a file. It walks on after a
// mistake, so that one look shows all of them, and notes where each value
// stands.
type decoder struct {
	file     string
	text     []byte
	env      *environment
	anchors  map[string]ast.Node
	origins  map[string]Origin
	problems Problems
	hidden   []string // values that no excerpt may show
	nodes    int
}

// decodeFile reads YAML text into c and returns what is wrong with it.
func decodeFile(file string, text []byte, env *environment, c *Config) Problems {
	d := &decoder{file: file, text: text, env: env, anchors: map[string]ast.Node{}, origins: c.origins}
	root := d.parse()
	if root != nil {
		d.value(root, nil, reflect.ValueOf(c).Elem())
	}
	c.hidden = d.hidden
	return d.problems
}

// parse returns the root of the one document, nil when it is empty or broken.
func (d *decoder) parse() (root ast.Node) {
	if line := notText(d.text); line > 0 {
		d.problem(&token.Position{Line: line, Column: 1}, "", "the line is not UTF-8 text", "Save the file as UTF-8.")
		return nil
	}
	if line, deep := tooDeep(d.text); deep {
		d.problem(&token.Position{Line: line, Column: 1}, "", fmt.Sprintf("values are nested deeper than %d", maxDepth), "Close the brackets that were opened by mistake.")
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			root = nil
			d.problem(nil, "", "this is not YAML that can be understood", "Compare it with the example in docs/configuration.md.")
		}
	}()
	file, err := parser.ParseBytes(d.text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		bodies = append(bodies, doc.Body)
	}
	if len(bodies) > 1 {
		d.problem(bodies[1].GetToken().Position, "", "the file holds a second document", "Remove the line --- and what follows it, or join the two.")
	}
	if len(bodies) == 0 {
		return nil
	}
	ast.Walk(anchorFinder(d.anchors), bodies[0])
	return bodies[0]
}

// syntax reports the one error that the parser stopped at.
func (d *decoder) syntax(err error) {
	message, pos := err.Error(), (*token.Position)(nil)
	if e, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		message = e.Message
		if e.Token != nil {
			pos = e.Token.Position
		}
	}
	help := "Check the indentation and the quotes there and in the line before."
	if strings.Contains(message, `\t`) || pos != nil && strings.Contains(lineOf(d.text, pos.Line), "\t") {
		help = "YAML is indented by blanks: replace the tab."
	}
	d.problem(pos, "", "this is not YAML: "+printable(maskLine(message)), help)
}

// anchorFinder collects the anchors of a tree by name.
type anchorFinder map[string]ast.Node

func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		f[a.Name.GetToken().Value] = a.Value
	}
	return f
}

// notText returns the first line that holds bytes or control characters that
// YAML does not allow, 0 when there is none.
func notText(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && size == 1, unicode.IsControl(r) && r != '\t' && r != '\u0085':
			return line
		}
		text = text[size:]
	}
	return 0
}

// tooDeep looks for nesting that would cost the parser quadratic time or its
// stack: brackets, and dashes or question marks in a row. Quoted brackets count
// too; the limit is far from what a written file has.
func tooDeep(text []byte) (line int, deep bool) {
	depth, run := 0, 0
	line = 1
	for _, c := range text {
		switch c {
		case '\n':
			line, run = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '-', '?', ':', '!', '&', '*':
			run++
		case ' ':
		default:
			run = 0
		}
		if depth > maxDepth || run > 4*maxDepth {
			return line, true
		}
	}
	return 0, false
}

// value decodes node, which stands at path, into target.
func (d *decoder) value(node ast.Node, path []string, target reflect.Value) {
	node = d.resolve(node, path)
	d.nodes++
	switch {
	case node == nil:
		return
	case d.nodes > maxNodes:
		if d.nodes == maxNodes+1 {
			d.problem(position(node), "", fmt.Sprintf("the file holds more than %d values, those of aliases counted", maxNodes), "Write fewer aliases.")
		}
		return
	case len(path) > maxDepth:
		d.wrong(node, path, "is nested too deep", "Move it to where it belongs.")
		return
	}
	if node.Type() == ast.NullType {
		return // as if it were not written
	}
	switch target.Type() {
	case reflect.TypeFor[Secret]():
		d.secret(node, path, target)
		return
	case reflect.TypeFor[Duration]():
		d.duration(node, path, target)
		return
	}
	switch target.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		if v, ok := fresh.Interface().(defaulter); ok {
			v.setDefaults()
		}
		d.value(node, path, fresh.Elem())
		target.Set(fresh)
	case reflect.Struct:
		d.object(node, path, target)
	case reflect.Map:
		d.dictionary(node, path, target)
	case reflect.Slice:
		d.list(node, path, target)
	default:
		d.scalar(node, path, target)
	}
}

// resolve follows aliases and steps into anchors.
func (d *decoder) resolve(node ast.Node, path []string) ast.Node {
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			to, ok := d.anchors[name]
			if !ok {
				d.wrong(n, path, fmt.Sprintf("refers to *%s, which no &%s defines", printable(name), printable(name)), "Define it above, or quote the text.")
				return nil
			}
			node = to
		case *ast.TagNode:
			d.wrong(n, path, fmt.Sprintf("has the tag %s, and tags mean nothing here", printable(n.Start.Value)), "Remove the tag; quote a value that should be a text.")
			return nil
		default:
			return node
		}
	}
	d.wrong(node, path, "refers to itself", "Remove the alias.")
	return nil
}

// pairs returns the entries of a mapping, nil with a problem for other nodes.
// Merge keys are spliced in where they stand.
func (d *decoder) pairs(node ast.Node, path []string, depth int) ([]*ast.MappingValueNode, bool) {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		if len(path) == 0 {
			d.problem(position(node), "", "the file does not hold keys and values", `Begin with a line such as "model: openai/gpt-5-mini".`)
		} else {
			d.wrong(node, path, "should hold keys and values, not "+describe(node), "Write its keys in the lines below, indented by two more blanks.")
		}
		return nil, false
	}
	if !slices.ContainsFunc(values, func(v *ast.MappingValueNode) bool { return v.Key.IsMergeKey() }) {
		return values, true
	}
	var own, merged []*ast.MappingValueNode
	written := map[string]bool{}
	for _, v := range values {
		if !v.Key.IsMergeKey() {
			own = append(own, v)
			written[keyText(v.Key)] = true
		}
	}
	for _, v := range values {
		if !v.Key.IsMergeKey() || depth > 10 || len(own)+len(merged) > maxNodes {
			continue
		}
		from := d.resolve(v.Value, path)
		if from == nil {
			continue
		}
		inner, _ := d.pairs(from, path, depth+1)
		for _, in := range inner {
			if k := keyText(in.Key); !written[k] {
				written[k] = true
				merged = append(merged, in)
			}
		}
	}
	return append(merged, own...), true
}

func (d *decoder) object(node ast.Node, path []string, target reflect.Value) {
	pairs, ok := d.pairs(node, path, 0)
	if !ok {
		return
	}
	d.note(path, position(node))
	seen := map[string]*token.Position{}
	for _, pair := range pairs {
		name, pos := keyText(pair.Key), position(pair.Key)
		at := append(slices.Clone(path), name)
		if first, twice := seen[name]; twice {
			d.problem(pos, joinKey(at), fmt.Sprintf("%s is written twice, first in line %d", joinKey(at), first.Line), "Keep one of the two.")
			continue
		}
		seen[name] = pos
		field, ok := fieldNamed(target, name)
		if !ok {
			d.hide(pair.Value)
			d.unknown(pos, at, fieldNames(target.Type()))
			continue
		}
		d.note(at, pos)
		d.value(pair.Value, at, field.value)
		d.rules(field, at)
	}
	for _, f := range fieldsOf(target) {
		if f.tag.Get("required") == "true" && f.value.IsZero() && seen[f.name] == nil {
			at := append(slices.Clone(path), f.name)
			d.problem(position(node), joinKey(at), joinKey(at)+" is missing", "Add the key.")
		}
	}
}

func (d *decoder) dictionary(node ast.Node, path []string, target reflect.Value) {
	pairs, ok := d.pairs(node, path, 0)
	if !ok {
		return
	}
	d.note(path, position(node))
	fresh := reflect.MakeMap(target.Type())
	seen := map[string]*token.Position{}
	for _, pair := range pairs {
		name, pos := keyText(pair.Key), position(pair.Key)
		at := append(slices.Clone(path), name)
		if first, twice := seen[name]; twice {
			d.problem(pos, joinKey(at), fmt.Sprintf("%s is written twice, first in line %d", joinKey(at), first.Line), "Keep one of the two.")
			continue
		}
		seen[name] = pos
		if name == "" {
			d.problem(pos, joinKey(path), joinKey(path)+" holds an entry without a name", "Give it a name.")
			continue
		}
		d.note(at, pos)
		entry := reflect.New(target.Type().Elem()).Elem()
		d.value(pair.Value, at, entry)
		fresh.SetMapIndex(reflect.ValueOf(name), entry)
	}
	target.Set(fresh)
}

func (d *decoder) list(node ast.Node, path []string, target reflect.Value) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrong(node, path, "should be a list, not "+describe(node), "Write it as [a, b], or one entry a line after a dash.")
		return
	}
	fresh := reflect.MakeSlice(target.Type(), 0, len(seq.Values))
	for i, v := range seq.Values {
		at := append(slices.Clone(path), fmt.Sprint(i))
		d.note(at, position(v))
		entry := reflect.New(target.Type().Elem()).Elem()
		d.value(v, at, entry)
		fresh = reflect.Append(fresh, entry)
	}
	target.Set(fresh)
}

func keyText(key ast.MapKeyNode) string {
	var node ast.Node = key
	if k, ok := key.(*ast.MappingKeyNode); ok {
		node = k.Value
	}
	if node == nil {
		return ""
	}
	if text, ok := stringOf(node); ok {
		return text
	}
	return node.GetToken().Value
}

// position of a node's first character.
func position(node ast.Node) *token.Position {
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return position(m.Values[0].Key)
	}
	if m, ok := node.(*ast.MappingValueNode); ok {
		return position(m.Key)
	}
	if t := node.GetToken(); t != nil {
		return t.Position
	}
	return nil
}

func (d *decoder) note(path []string, pos *token.Position) {
	if len(path) == 0 || pos == nil {
		return
	}
	d.origins[joinKey(path)] = Origin{Source: FromFile, File: d.file, Line: pos.Line, Column: pos.Column}
}

func (d *decoder) wrong(node ast.Node, path []string, what, help string) {
	d.problem(position(node), joinKey(path), joinKey(path)+" "+what, help)
}

func (d *decoder) unknown(pos *token.Position, path, candidates []string) {
	help := "Keys here: " + strings.Join(candidates, ", ") + "."
	message := fmt.Sprintf("unknown key %s", quoted(joinKey(path)))
	if name := nearest(path[len(path)-1], candidates); name != "" {
		message += fmt.Sprintf("; did you mean %s?", quoted(name))
		help = fmt.Sprintf("Write %s, or remove the line.", name)
	}
	d.problem(pos, joinKey(path), message, help)
	d.problems[len(d.problems)-1].unknown = true
}

func (d *decoder) problem(pos *token.Position, key, message, help string) {
	p := Problem{File: d.file, Key: key, Message: message, Help: help}
	if pos != nil {
		p.Line, p.Column = pos.Line, pos.Column
	}
	d.problems = append(d.problems, p)
}

// hide keeps the values of a tree out of all excerpts: those of secrets, and
// those of unknown keys, which may be misspelt secrets.
func (d *decoder) hide(node ast.Node) {
	if node != nil {
		ast.Walk(hider{d}, node)
	}
}

type hider struct{ d *decoder }

func (h hider) Visit(n ast.Node) ast.Visitor {
	if pair, ok := n.(*ast.MappingValueNode); ok {
		h.d.hide(pair.Value)
		return nil
	}
	text, ok := stringOf(n)
	if !ok || pureReference(text) {
		return h
	}
	// As it is read, and as it is written, since escapes may differ.
	for part := range strings.Lines(text + "\n" + n.GetToken().Origin) {
		if part = strings.TrimSpace(part); len(part) > 1 {
			h.d.hidden = append(h.d.hidden, part)
		}
	}
	return h
}

func lineOf(text []byte, n int) string {
	lines := strings.Split(string(text), "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}
