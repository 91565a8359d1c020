package openai

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// details gathers reasoning_details, a list of objects that must go back as
// it came. Whole answers keep the provider's bytes. In a stream an object
// arrives in pieces that share type and index; its texts are joined and its
// other fields kept from the piece that last gave them.
type details struct {
	items []*detail
	whole json.RawMessage // of a list that came alone
	lists int
}

type detail struct {
	fields map[string]json.RawMessage
	grown  map[string]string // text, summary, data, signature as put together
}

// joinable are the fields that come in pieces.
var joinable = []string{"text", "summary", "data"}

// add takes in a list and returns what of it may be shown.
func (d *details) add(raw json.RawMessage, cumulative bool) string {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return ""
	}
	d.lists++
	d.whole = slices.Clone(raw)
	var shown strings.Builder
	for _, fields := range list {
		item := d.same(fields)
		if item == nil {
			item = &detail{fields: map[string]json.RawMessage{}, grown: map[string]string{}}
			d.items = append(d.items, item)
		}
		for name, value := range fields {
			if !slices.Contains(joinable, name) {
				if old, ok := item.fields[name]; !ok || string(old) == "null" || string(value) != "null" {
					item.fields[name] = value
				}
				continue
			}
			piece := words(value)
			if cumulative {
				piece = strings.TrimPrefix(piece, item.grown[name])
			}
			item.grown[name] += piece
			if name != "data" {
				shown.WriteString(piece)
			}
		}
	}
	return shown.String()
}

// same returns the last item when fields go on with it.
func (d *details) same(fields map[string]json.RawMessage) *detail {
	if len(d.items) == 0 || words(fields["type"]) == "reasoning.encrypted" {
		return nil
	}
	last := d.items[len(d.items)-1]
	if string(last.fields["type"]) != string(fields["type"]) || string(last.fields["index"]) != string(fields["index"]) {
		return nil
	}
	return last
}

// raw returns the list as JSON, "" when there is none.
func (d *details) raw() string {
	if d.lists == 0 {
		return ""
	}
	if d.lists == 1 {
		return string(d.whole)
	}
	b := []byte{'['}
	for i, item := range d.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.append(b)
	}
	return string(append(b, ']'))
}

func (it *detail) append(b []byte) []byte {
	names := make([]string, 0, len(it.fields)+len(it.grown))
	for name := range it.fields {
		names = append(names, name)
	}
	for name := range it.grown {
		names = append(names, name)
	}
	sort.Strings(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(wire.AppendString(b, name), ':')
		if text, ok := it.grown[name]; ok {
			b = wire.AppendString(b, text)
			continue
		}
		b = append(b, it.fields[name]...)
	}
	return append(b, '}')
}
