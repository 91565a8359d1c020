package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "renew golden files, the schema and docs/configuration.md")

// golden compares got with a file, or renews the file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")), got) {
		t.Errorf("%s is not current; run: go generate ./internal/config\ngot:\n%s", path, got)
	}
}

func TestTheSchemaAndTheDocumentationAreCurrent(t *testing.T) {
	comments := readComments(t)
	s, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Secret]():   {Type: "string"},
		reflect.TypeFor[Duration](): {Types: []string{"string", "integer"}, Pattern: `^(0|hourly|daily|weekly|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`, Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(0.0)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, s, reflect.TypeFor[Config](), reflect.ValueOf(*Default()), comments)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "mercury.yaml"
	s.Description = "Configuration of Mercury."
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	golden(t, "mercury.schema.json", text)
	golden(t, "../../docs/mercury.schema.json", text)
	golden(t, "../../docs/configuration.md", []byte(documentation(comments)))
}

// readComments returns the comments of all fields by "Type.Field".
func readComments(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range st.Fields.List {
				for _, name := range field.Names {
					text := strings.Join(strings.Fields(field.Doc.Text()), " ")
					comments[spec.Name.Name+"."+name.Name] = description(name.Name, text)
				}
			}
		}
		return true
	})
	return comments
}

// description turns "Name is what …" into "What …".
func description(name, comment string) string {
	for _, verb := range []string{" is ", " are ", ""} {
		if rest, ok := strings.CutPrefix(comment, name+verb); ok {
			rest = strings.TrimSpace(rest)
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return comment
}

// finish adds what reflection cannot see: comments, defaults, the rules in
// tags, and which keys must be there.
func finish(t *testing.T, s *jsonschema.Schema, typ reflect.Type, def reflect.Value, comments map[string]string) {
	switch {
	case typ.Kind() == reflect.Pointer:
		fresh := reflect.New(typ.Elem())
		if d, ok := fresh.Interface().(defaulter); ok {
			d.setDefaults()
		}
		finish(t, s, typ.Elem(), fresh.Elem(), comments)
	case typ.Kind() == reflect.Map && s.AdditionalProperties != nil:
		finish(t, s.AdditionalProperties, typ.Elem(), reflect.Zero(typ.Elem()), comments)
	case typ.Kind() == reflect.Slice:
		if typ.Elem().Kind() == reflect.String {
			s.Items.Type, s.Items.Types = "", []string{"string", "integer"}
		}
		finish(t, s.Items, typ.Elem(), reflect.Zero(typ.Elem()), comments)
	case typ.Kind() == reflect.Struct && !isText(typ):
		s.Required = nil
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := f.Tag.Get("json")
			if name == "" || name == "-" {
				continue
			}
			p := s.Properties[name]
			p.Description = comments[typ.Name()+"."+f.Name]
			if p.Description == "" {
				t.Errorf("%s.%s has no comment", typ.Name(), f.Name)
			}
			tags(p, f.Tag)
			if f.Tag.Get("required") == "true" {
				s.Required = append(s.Required, name)
			}
			if d := def.Field(i); !d.IsZero() && (d.Kind() != reflect.Struct && d.Kind() != reflect.Pointer) {
				p.Default, _ = json.Marshal(d.Interface())
			}
			finish(t, p, f.Type, def.Field(i), comments)
		}
	}
}

func tags(p *jsonschema.Schema, tag reflect.StructTag) {
	if enum := tag.Get("enum"); enum != "" {
		for word := range strings.SplitSeq(enum, ",") {
			p.Enum = append(p.Enum, word)
		}
	}
	if n, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil {
		p.Minimum = &n
	}
	if n, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil {
		p.Maximum = &n
	}
}

// documentation is docs/configuration.md.
func documentation(comments map[string]string) string {
	var b strings.Builder
	intro, err := os.ReadFile("testdata/configuration.head.md")
	if err != nil {
		panic(err)
	}
	b.Write(intro)
	b.WriteString("\n## Providers that need no more than a key\n\nIn the order in which one is chosen when no model is named.\n\n| Name | Service | Key | Address | Model |\n|---|---|---|---|---|\n")
	for _, k := range KnownProviders() {
		key, model := "none", "the first it lists"
		if len(k.Env) > 0 {
			key = "`" + strings.Join(k.Env, "`, `") + "`"
		}
		if k.Model != "" {
			model = "`" + k.Model + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Title, key, k.BaseURL, model)
	}
	b.WriteString("\n## Keys\n")
	document(&b, "", reflect.ValueOf(*Default()), comments)
	return b.String()
}

// document writes one table for the plain keys of a section, then its
// sections.
func document(b *strings.Builder, prefix string, v reflect.Value, comments map[string]string) {
	t := v.Type()
	var rows strings.Builder
	type section struct {
		prefix, about string
		value         reflect.Value
	}
	var sections []section
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		about := comments[t.Name()+"."+f.Name]
		key, at, field := prefix+name, v.Field(i), f.Type
		if isText(field) {
			field = reflect.TypeFor[string]()
		}
		switch {
		case field.Kind() == reflect.Pointer:
			fresh := reflect.New(field.Elem())
			if d, ok := fresh.Interface().(defaulter); ok {
				d.setDefaults()
			}
			sections = append(sections, section{key, about, fresh.Elem()})
		case field.Kind() == reflect.Struct:
			sections = append(sections, section{key, about, at})
		case field.Kind() == reflect.Map && field.Elem().Kind() == reflect.Struct && !isText(field.Elem()):
			sections = append(sections, section{key + ".NAME", about, reflect.Zero(field.Elem())})
		case field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Struct:
			sections = append(sections, section{key + ".0", about, reflect.Zero(field.Elem())})
		default:
			def := show(at)
			if at.IsZero() {
				def = map[reflect.Kind]string{reflect.Bool: "false", reflect.Int: "0", reflect.Int64: "0", reflect.Float64: "0"}[field.Kind()]
			}
			if def != "" {
				def = "`" + def + "`"
			}
			if enum := f.Tag.Get("enum"); enum != "" {
				about += " One of `" + strings.ReplaceAll(enum, ",", "`, `") + "`."
			}
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", key, def, about)
		}
	}
	if rows.Len() > 0 {
		b.WriteString("\n| Key | Default | Meaning |\n|---|---|---|\n" + rows.String())
	}
	for _, s := range sections {
		fmt.Fprintf(b, "\n### %s\n\n%s\n", s.prefix, s.about)
		document(b, s.prefix+".", s.value, comments)
	}
}

func TestTheSchemaAgreesWithTheLoaderAboutTheExample(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"the example", example, true},
		{"lengths of time", "backup: {every: 12h}\nheartbeat: {every: 0}\n", true},
		{"a wrong length of time", "backup: {every: soon}\n", false},
		{"an unknown key", "nmae: x\n", false},
		{"a wrong mode", "permissions: {mode: always}\n", false},
		{"a channel's unknown key", "channels: {telegram: {tokn: x}}\n", false},
		{"numeric ids of people", "channels: {telegram: {token: x, members: [1, '2']}}\n", true},
		{"a relay without a url", "channels: {relay: {token: x}}\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v any
			text, err := yaml.YAMLToJSON([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(v); (err == nil) != tt.ok {
				t.Errorf("the schema says %v", err)
			}
			h := homeWith(t, map[string]string{"mercury.yaml": tt.text})
			if _, err := Load(Source{Home: h, Getenv: variables(nil)}); (err == nil) != tt.ok {
				t.Errorf("the loader says %v", err)
			}
		})
	}
}
