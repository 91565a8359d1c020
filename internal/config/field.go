package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one key of a struct.
type field struct {
	name  string
	tag   reflect.StructTag
	value reflect.Value
}

// fieldsOf lists the keys of a struct in the order they are written.
func fieldsOf(v reflect.Value) []field {
	var fields []field
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if name := t.Tag.Get("json"); name != "" && name != "-" {
			fields = append(fields, field{name, t.Tag, v.Field(i)})
		}
	}
	return fields
}

func fieldNamed(v reflect.Value, name string) (field, bool) {
	for _, f := range fieldsOf(v) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("json"); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// rules checks the tags enum, min and max of a field that was written.
func (d *decoder) rules(f field, path []string) {
	message, help := checkTags(f)
	if message == "" {
		return
	}
	o := d.origins[joinKey(path)]
	d.problems = append(d.problems, Problem{
		File: o.File, Line: o.Line, Column: o.Column, Key: joinKey(path),
		Message: joinKey(path) + " " + message, Help: help,
	})
}

func checkTags(f field) (message, help string) {
	if allowed := f.tag.Get("enum"); allowed != "" && f.value.String() != "" {
		words := strings.Split(allowed, ",")
		if got := f.value.String(); !slices.Contains(words, got) {
			message = fmt.Sprintf("should be one of %s, not %s", strings.Join(words, ", "), quoted(got))
			if name := nearest(got, words); name != "" {
				return message, fmt.Sprintf("Did you mean %s?", name)
			}
			return message, "Write one of them, or remove the line."
		}
	}
	var n float64
	switch f.value.Kind() {
	case reflect.Int, reflect.Int64:
		n = float64(f.value.Int())
	case reflect.Float64:
		n = f.value.Float()
	default:
		return "", ""
	}
	if least, err := strconv.ParseFloat(f.tag.Get("min"), 64); err == nil && n < least {
		return "is too small", "The least is " + f.tag.Get("min") + "."
	}
	if most, err := strconv.ParseFloat(f.tag.Get("max"), 64); err == nil && n > most {
		return "is too large", "The most is " + f.tag.Get("max") + "."
	}
	return "", ""
}

// joinKey writes a path as people do: web.listen, fallbacks.0,
// prices."openai/gpt-4.1".input. A part with a dot, a quote or a blank is
// quoted.
func joinKey(path []string) string {
	parts := make([]string, len(path))
	for i, p := range path {
		if p == "" || strings.ContainsAny(p, ".\"' \t\n\r") || printable(p) != p {
			p = strconv.Quote(p)
		}
		parts[i] = p
	}
	return strings.Join(parts, ".")
}

// splitKey is the inverse of joinKey.
func splitKey(key string) ([]string, error) {
	var path []string
	rest := key
	for {
		var part string
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("key %s: the closing quote is missing", key)
			}
			if part, err = strconv.Unquote(q); err != nil {
				return nil, fmt.Errorf("key %s: %w", key, err)
			}
			rest = rest[len(q):]
		} else {
			i := strings.IndexByte(rest, '.')
			if i < 0 {
				i = len(rest)
			}
			part, rest = rest[:i], rest[i:]
			if part == "" {
				return nil, fmt.Errorf("key %q: a part is empty", key)
			}
		}
		path = append(path, part)
		if rest == "" {
			return path, nil
		}
		if rest[0] != '.' {
			return nil, fmt.Errorf("key %s: a dot is missing after the quote", key)
		}
		rest = rest[1:]
	}
}
