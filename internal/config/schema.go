package config

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
)

//go:generate go test -run "^TestTheSchemaAndTheDocumentationAreCurrent$" . -update

//go:embed mercury.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of mercury.yaml. It is made
// from the types of this package and their comments by go generate.
func Schema() []byte { return slices.Clone(schema) }

// schemaNode is the part of a schema that explaining a key needs.
type schemaNode struct {
	Description string                `json:"description"`
	Properties  map[string]schemaNode `json:"properties"`
	Items       *schemaNode           `json:"items"`
	Additional  json.RawMessage       `json:"additionalProperties"`
}

// describeKey returns what the schema says about a key, or else about what it
// is part of: an entry of a list or a map has no words of its own.
func describeKey(path []string) string {
	var n schemaNode
	if json.Unmarshal(schema, &n) != nil {
		return ""
	}
	text := ""
	for _, name := range path {
		next, ok := n.Properties[name]
		switch {
		case ok:
			n = next
		case n.Items != nil:
			n = *n.Items
		default:
			var entry schemaNode
			if json.Unmarshal(n.Additional, &entry) != nil {
				return text
			}
			n = entry
		}
		text = cmp.Or(n.Description, text)
	}
	return text
}
