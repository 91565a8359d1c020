package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// args checks the arguments of one tool.
type args struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

func newArgs(s *jsonschema.Schema) args {
	resolved, err := s.Resolve(nil)
	if err != nil {
		panic("tool: " + err.Error())
	}
	return args{s, resolved}
}

// check returns raw in the form the schema wants, or an error that tells a
// model what to change. It forgives what models often get wrong and nobody can
// misread: no arguments at all, null for a field that may be left out, and a
// number or a boolean written as a string.
func (a args) check(raw json.RawMessage) (json.RawMessage, error) {
	fields, err := object(raw)
	if err != nil {
		return nil, err
	}
	for name, v := range fields {
		if v == nil && !slices.Contains(a.schema.Required, name) {
			delete(fields, name)
			continue
		}
		if p := a.schema.Properties[name]; p != nil {
			fields[name] = unquote(v, p.Type)
		}
	}
	if err := a.explain(fields); err != nil {
		return nil, err
	}
	if err := a.resolved.Validate(plainNumbers(fields)); err != nil {
		return nil, fmt.Errorf("arguments do not fit: %s", innermost(err))
	}
	return json.Marshal(fields)
}

// object decodes exactly one JSON object; nothing counts as an empty one.
func object(raw json.RawMessage) (map[string]any, error) {
	fields := map[string]any{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return fields, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("arguments are not valid JSON: more than one value")
	}
	if v == nil {
		return fields, nil
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("arguments must be a JSON object, not %s", kind(v))
	}
	return fields, nil
}

// unquote reads a number or boolean out of a string where one is wanted, and
// writes a whole number such as 10.0 as one.
func unquote(v any, want string) any {
	s, quoted := v.(string)
	if n, ok := v.(json.Number); ok {
		s = n.String()
	} else if !quoted {
		return v
	}
	switch want {
	case "integer":
		if f, err := strconv.ParseFloat(s, 64); err == nil && f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case "number":
		if _, err := strconv.ParseFloat(s, 64); err == nil && json.Valid([]byte(s)) {
			return json.Number(s)
		}
	case "boolean":
		if quoted && (s == "true" || s == "false") {
			return s == "true"
		}
	}
	return v
}

// explain finds the mistakes that a sentence can say better than a validator.
func (a args) explain(fields map[string]any) error {
	var wrong []string
	names := slices.Sorted(maps.Keys(a.schema.Properties))
	for _, name := range a.schema.Required {
		if _, ok := fields[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("%q is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p := a.schema.Properties[name]
		switch {
		case p == nil && a.schema.AdditionalProperties != nil:
			text := fmt.Sprintf("there is no %q", cut(name, 80))
			if near := nearest(name, names); near != "" {
				text += fmt.Sprintf(", did you mean %q?", near)
			} else {
				text += ", only " + strings.Join(names, ", ")
			}
			wrong = append(wrong, text)
		case p != nil && p.Type != "" && !fits(fields[name], p.Type):
			wrong = append(wrong, fmt.Sprintf("%q must be %s, not %s", name, article(p.Type), kind(fields[name])))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("arguments do not fit: %s", strings.Join(wrong, "; "))
}

func fits(v any, want string) bool {
	switch v := v.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case json.Number:
		_, err := v.Int64()
		return want == "number" || want == "integer" && err == nil
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return want == "null"
}

func kind(v any) string {
	switch v := v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "the number " + cut(v.String(), 40)
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "null"
}

func article(kind string) string {
	if strings.ContainsRune("aeio", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

// plainNumbers gives the validator the number types it knows.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // out of range: an infinity, which no limit allows
		return f
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainNumbers(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainNumbers(e)
		}
		return out
	}
	return v
}

// innermost is the part of a validator's error that names the value at fault.
func innermost(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "validating /"); i >= 0 {
		text = text[i+len("validating "):]
	}
	return cut(text, 500)
}

// nearest returns the name that differs from s in at most a third of its
// letters, or "".
func nearest(s string, names []string) string {
	best, least := "", max(len(s), 3)/3+1
	if len(s) > 80 {
		return ""
	}
	for _, name := range names {
		if d := distance(strings.ToLower(s), name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
