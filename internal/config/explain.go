package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Explanation is all there is to know about one value.
type Explanation struct {
	Key         string `json:"key"`
	Value       string `json:"value"` // secrets masked; lists and sections as JSON
	Origin      Origin `json:"origin"`
	Written     string `json:"written,omitempty"` // the reference a secret was written as, such as ${OPENAI_API_KEY}
	Missing     string `json:"missing,omitempty"` // the variable that a secret wants and does not find
	Description string `json:"description,omitempty"`
}

// Get returns the value of a key as a text: secrets masked, lists and sections
// as JSON on one line. An unknown key is a NotFound error with a suggestion.
func (c *Config) Get(key string) (string, error) {
	v, _, err := c.find(key)
	if err != nil {
		return "", err
	}
	return show(v), nil
}

// Explain returns the value of a key with its origin and meaning.
func (c *Config) Explain(key string) (Explanation, error) {
	v, path, err := c.find(key)
	if err != nil {
		return Explanation{}, err
	}
	key = joinKey(path)
	e := Explanation{Key: key, Value: show(v), Origin: c.origins[key], Description: describeKey(path)}
	if e.Origin.Source == "" {
		e.Origin.Source = FromDefault
	}
	if s, ok := v.Interface().(Secret); ok {
		e.Missing = s.missing
		if pureReference(s.raw) {
			e.Written = s.raw
		}
	}
	return e, nil
}

// pureReference reports whether s is one ${NAME} and nothing else, which may
// be shown.
func pureReference(s string) bool {
	name, ok := strings.CutPrefix(s, "${")
	name, closed := strings.CutSuffix(name, "}")
	return ok && closed && isName(name)
}

// Keys lists the keys of all single values in the order of the file format;
// names of maps are sorted.
func (c *Config) Keys() []string {
	var keys []string
	c.leaves(func(key string, _ reflect.Value) { keys = append(keys, key) })
	return keys
}

// Changed lists the keys whose values differ between two configurations, for
// deciding what a reload must touch.
func Changed(before, after *Config) []string {
	values := map[string]string{}
	before.leaves(func(key string, v reflect.Value) { values[key] = identity(v) })
	var keys []string
	after.leaves(func(key string, v reflect.Value) {
		if old, ok := values[key]; !ok || old != identity(v) {
			keys = append(keys, key)
		}
		delete(values, key)
	})
	return append(keys, slices.Sorted(maps.Keys(values))...)
}

// identity is a text that differs when the value does, secrets included; it is
// compared and never shown.
func identity(v reflect.Value) string {
	if s, ok := v.Interface().(Secret); ok {
		return s.raw + "\x00" + s.value
	}
	return show(v)
}

func (c *Config) leaves(yield func(key string, v reflect.Value)) {
	var walk func(v reflect.Value, path []string)
	walk = func(v reflect.Value, path []string) {
		switch {
		case v.Kind() == reflect.Pointer && !isText(v.Type()):
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case v.Kind() == reflect.Struct && !isText(v.Type()):
			for _, f := range fieldsOf(v) {
				walk(f.value, append(slices.Clone(path), f.name))
			}
		case v.Kind() == reflect.Map:
			for _, name := range slices.Sorted(maps.Keys(stringKeys(v))) {
				walk(v.MapIndex(reflect.ValueOf(name)), append(slices.Clone(path), name))
			}
		default:
			yield(joinKey(path), v)
		}
	}
	walk(reflect.ValueOf(c).Elem(), nil)
}

func stringKeys(m reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range m.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

// find follows a dotted key to its value.
func (c *Config) find(key string) (reflect.Value, []string, error) {
	path, err := splitKey(key)
	if err != nil {
		return reflect.Value{}, nil, &mercury.Error{Kind: mercury.Invalid, Help: `Write it like web.listen or prices."openai/gpt-4.1".input.`, Err: err}
	}
	if _, help := typeAt(reflect.TypeFor[Config](), path); help != "" {
		return reflect.Value{}, nil, &mercury.Error{Kind: mercury.NotFound, Help: help, Err: fmt.Errorf("find %s: no such key", quoted(key))}
	}
	v := reflect.ValueOf(c).Elem()
	for i, name := range path {
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Struct:
			f, _ := fieldNamed(v, name)
			v = f.value
		case reflect.Map:
			v = v.MapIndex(reflect.ValueOf(name))
		case reflect.Slice:
			at, ok := index(name, v.Len())
			if !ok {
				v = reflect.Value{}
				break
			}
			v = v.Index(at)
		default:
			v = reflect.Value{}
		}
		if !v.IsValid() {
			return v, nil, &mercury.Error{Kind: mercury.NotFound, Help: "It is a valid key; `mercury config set` gives it a value.", Err: fmt.Errorf("find %s: %s is not set", key, joinKey(path[:i+1]))}
		}
	}
	return v, path, nil
}

// show writes a value: texts and numbers as they are, the rest as JSON.
func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		return x
	case Secret:
		return x.String()
	case Duration:
		return x.String()
	case *Duration:
		if x == nil {
			return ""
		}
		return x.String()
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v.Interface()); err != nil {
			return err.Error()
		}
		return strings.TrimSpace(b.String())
	}
	return fmt.Sprint(v.Interface())
}
