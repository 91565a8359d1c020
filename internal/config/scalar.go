package config

import (
	"fmt"
	"math"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

func (d *decoder) scalar(node ast.Node, path []string, target reflect.Value) {
	switch target.Kind() {
	case reflect.String:
		text, ok := stringOf(node)
		if !ok {
			d.wrong(node, path, "should be a text, not "+describe(node), "Put the value in quotes.")
			return
		}
		value, missing, err := d.env.expand(text)
		switch {
		case err != nil:
			d.wrong(node, path, "holds a broken reference", referenceHelp)
		case missing != "":
			d.wrong(node, path, fmt.Sprintf("needs the variable %s, which is not set", missing), fmt.Sprintf("Set %s in the environment or in .env of the Mercury home.", missing))
		default:
			target.SetString(value)
		}
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			d.wrong(node, path, "should be true or false, not "+describe(node), "Write true or false; yes, no, on and off are texts.")
			return
		}
		target.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		n, ok := integerOf(node)
		if !ok || target.OverflowInt(n) {
			d.wrong(node, path, "should be a whole number, not "+describe(node), "Write it in digits, such as 50 or 1_000_000.")
			return
		}
		target.SetInt(n)
	case reflect.Float64:
		f, ok := floatOf(node)
		if !ok {
			d.wrong(node, path, "should be a number, not "+describe(node), "Write it in digits, such as 2.5.")
			return
		}
		target.SetFloat(f)
	default:
		panic("config: no rule for fields of type " + target.Type().String())
	}
}

func (d *decoder) secret(node ast.Node, path []string, target reflect.Value) {
	d.hide(node)
	text, ok := stringOf(node)
	if !ok {
		d.wrong(node, path, "should be a text", "Put the value in quotes.")
		return
	}
	s, err := d.env.secret(joinKey(path), text)
	if err != nil {
		d.wrong(node, path, "holds a broken reference", referenceHelp)
		return
	}
	target.Set(reflect.ValueOf(s))
}

func (e *environment) secret(key, text string) (Secret, error) {
	value, missing, err := e.expand(text)
	if err != nil {
		return Secret{}, err
	}
	return Secret{raw: text, value: value, missing: missing, key: key}, nil
}

func (d *decoder) duration(node ast.Node, path []string, target reflect.Value) {
	text, ok := stringOf(node)
	if !ok {
		d.wrong(node, path, "should be a length of time, not "+describe(node), "Write it like 90s, 5m, 1h30m or daily.")
		return
	}
	v, err := parseDuration(text)
	if err != nil {
		d.wrong(node, path, "should be a length of time, not "+describe(node), "Write it like 90s, 5m, 1h30m or daily.")
		return
	}
	target.Set(reflect.ValueOf(v))
}

// integerOf reads whole numbers; 1_000_000 is one.
func integerOf(node ast.Node) (int64, bool) {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch v := n.Value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

func floatOf(node ast.Node) (float64, bool) {
	if n, ok := node.(*ast.FloatNode); ok {
		return n.Value, !math.IsInf(n.Value, 0)
	}
	n, ok := integerOf(node)
	return float64(n), ok
}

// stringOf reads texts. A number counts as the text it was written as, since
// ids of people are often written without quotes.
func stringOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode:
		return n.Token.Value, true
	case *ast.FloatNode:
		return n.Token.Value, true
	}
	return "", false
}

// describe says what stands there, in a person's words.
func describe(node ast.Node) string {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return quoted(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	}
	return quoted(node.GetToken().Value)
}
