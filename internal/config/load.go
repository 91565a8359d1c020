package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Source is what a configuration is made from.
type Source struct {
	Home Home

	// Getenv looks up a variable of the process; nil means os.Getenv.
	Getenv func(string) string

	// Flags are values given on the command line by dotted key, such as
	// "web.listen". They win over everything else.
	Flags map[string]string
}

func (s Source) getenv() func(string) string {
	if s.Getenv == nil {
		return os.Getenv
	}
	return s.Getenv
}

// Load reads the configuration: defaults, then mercury.yaml of the home, then
// the environment and .env of the home, then flags. A missing file is an empty
// one. It opens no connection and writes nothing.
//
// What is wrong comes back together as Problems inside a Setup error; a home
// of the TypeScript Mercury as ErrForeignHome. Load does not insist on a model:
// ask Configured before one is needed.
func Load(src Source) (*Config, error) {
	if err := src.Home.Guard(); err != nil {
		return nil, err
	}
	text, err := readLimited(src.Home.Config(), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return build(src, "", nil, nil)
	case err != nil:
		return nil, invalid(Problems{{File: src.Home.Config(), Message: err.Error(), Help: "Make it a readable file of at most 256 KB."}})
	}
	return build(src, src.Home.Config(), text, nil)
}

// build makes the configuration from text, which was read from file; file is
// empty when there is none. Problems that pass accepts are dropped; nil
// accepts none.
func build(src Source, file string, text []byte, pass func(Problem) bool) (*Config, error) {
	env, problems := readEnvironment(src.Home, src.getenv())
	c := Default()
	c.home, c.file, c.text = src.Home, file, text
	c.origins = map[string]Origin{}
	c.Warnings, c.dotenv = env.warnings, env.dotenv
	if file != "" {
		problems = append(problems, decodeFile(file, normalise(text), env, c)...)
	}
	problems = append(problems, c.fromEnvironment(env)...)
	for _, key := range slices.Sorted(maps.Keys(src.Flags)) {
		problems = append(problems, c.assign(env, key, src.Flags[key], Origin{Source: FromFlag, Name: key})...)
	}
	c.fillProviders(env)
	c.fillScopes()
	problems = append(problems, c.validate(problems)...)
	if pass != nil {
		problems = slices.DeleteFunc(problems, pass)
	}
	if len(problems) > 0 {
		return nil, invalid(c.illustrate(problems))
	}
	return c, nil
}

// illustrate puts problems in the order of the file and adds its lines.
func (c *Config) illustrate(problems Problems) Problems {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	// The longest first, so that no part of one shows where another begins it.
	slices.SortFunc(c.hidden, func(a, b string) int { return len(b) - len(a) })
	text := normalise(c.text)
	for i, p := range problems {
		if p.File == c.file && p.Line > 0 {
			problems[i].Excerpt = excerpt(text, p.Line, p.Column, c.hidden)
		}
	}
	return problems
}

// normalise removes a byte order mark and the carriage returns of Windows.
func normalise(text []byte) []byte {
	s := strings.TrimPrefix(string(text), string(bom))
	return []byte(strings.ReplaceAll(s, "\r\n", "\n"))
}

func invalid(problems Problems) error {
	help := "Mend it and try again; `mercury config check` shows what is still wrong."
	return &mercury.Error{Kind: mercury.Setup, Help: help, Err: fmt.Errorf("read the configuration: %w", problems)}
}

// fromEnvironment applies the variables that stand for one key.
func (c *Config) fromEnvironment(env *environment) Problems {
	var problems Problems
	for _, v := range []struct{ name, key string }{
		{"MERCURY_LISTEN", "web.listen"},
		{"MERCURY_LOG", "log.level"},
	} {
		if value, origin, ok := env.lookup(v.name); ok {
			problems = append(problems, c.assign(env, v.key, value, origin)...)
		}
	}
	for _, v := range []struct {
		name, key string
		set       bool
	}{
		{"GITHUB_TOKEN", "github.token", c.GitHub.Token.IsSet()},
		{"SPOTIFY_CLIENT_ID", "spotify.client_id", c.Spotify.ClientID != ""},
	} {
		if value, origin, ok := env.lookup(v.name); ok && !v.set {
			problems = append(problems, c.assign(env, v.key, escapeReferences(value), origin)...)
		}
	}
	return problems
}

// escapeReferences keeps a value from outside the file from being expanded.
func escapeReferences(value string) string { return strings.ReplaceAll(value, "${", "$${") }

// assign sets one key from a text written outside the file.
func (c *Config) assign(env *environment, key, text string, origin Origin) Problems {
	fail := func(message, help string) Problems {
		return Problems{{Key: key, Message: fmt.Sprintf("%s: %s", origin, message), Help: help}}
	}
	path, err := splitKey(key)
	if err != nil {
		return fail(err.Error(), "")
	}
	d := &decoder{text: []byte(text), env: env, origins: map[string]Origin{}}
	node, help := d.outsideValue(reflect.TypeFor[Config](), path, text)
	if help != "" {
		return fail("unknown key "+quoted(key), help)
	}
	if node != nil {
		d.into(reflect.ValueOf(c).Elem(), path, nil, node)
	}
	for i := range d.problems {
		p := d.problems[i]
		d.problems[i] = Problem{Key: key, Message: fmt.Sprintf("%s: %s", origin, p.Message), Help: p.Help}
	}
	if len(d.problems) == 0 {
		c.forget(key)
		c.origins[key] = origin
		for k := range d.origins {
			c.origins[k] = origin
		}
	}
	return d.problems
}

// forget drops the origins of key and what is below it.
func (c *Config) forget(key string) {
	for k := range c.origins {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(c.origins, k)
		}
	}
}

// outsideValue returns the node for text as the type at path wants it: texts
// are taken as they are, everything else is parsed as YAML. A path that leads
// nowhere gives help instead.
func (d *decoder) outsideValue(t reflect.Type, path []string, text string) (node ast.Node, help string) {
	at, help := typeAt(t, path)
	if help != "" {
		return nil, help
	}
	if isText(at) {
		pos := &token.Position{Line: 1, Column: 1}
		return ast.String(token.String(text, text, pos)), ""
	}
	return d.parse(), ""
}

// isText reports whether values of type t are written as a plain text.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t == reflect.TypeFor[Secret]() || t == reflect.TypeFor[Duration]() || t == reflect.TypeFor[*Duration]()
}

// typeAt follows path from t. When it leads nowhere, help lists what is there.
func typeAt(t reflect.Type, path []string) (at reflect.Type, help string) {
	for len(path) > 0 {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Struct && !isText(t):
			names := fieldNames(t)
			if !slices.Contains(names, path[0]) {
				if name := nearest(path[0], names); name != "" {
					return nil, fmt.Sprintf("Did you mean %s?", name)
				}
				return nil, "Keys here: " + strings.Join(names, ", ") + "."
			}
			for i := range t.NumField() {
				if t.Field(i).Tag.Get("json") == path[0] {
					t = t.Field(i).Type
					break
				}
			}
		case t.Kind() == reflect.Map, t.Kind() == reflect.Slice:
			t = t.Elem()
		default:
			return nil, "There is nothing below this key."
		}
		path = path[1:]
	}
	return t, ""
}

// into decodes node into the place that path leads to from v, making what is
// missing on the way. done is the part of the path already walked.
func (d *decoder) into(v reflect.Value, path, done []string, node ast.Node) {
	if len(path) == 0 {
		d.value(node, done, v)
		return
	}
	name := path[0]
	here := append(slices.Clone(done), name)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			if x, ok := v.Interface().(defaulter); ok {
				x.setDefaults()
			}
		}
		d.into(v.Elem(), path, done, node)
	case reflect.Struct:
		f, _ := fieldNamed(v, name)
		d.into(f.value, path[1:], here, node)
		if message, help := checkTags(f); message != "" && len(path) == 1 {
			d.wrong(node, here, message, help)
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			entry.Set(old)
		}
		d.into(entry, path[1:], here, node)
		v.SetMapIndex(reflect.ValueOf(name), entry)
	case reflect.Slice:
		i, ok := index(name, v.Len())
		if !ok {
			d.wrong(node, here, "is not an entry of the list", "Set the whole list.")
			return
		}
		d.into(v.Index(i), path[1:], here, node)
	}
}

// fillScopes gives the workspace to tools where no scope is written.
func (c *Config) fillScopes() {
	if len(c.Permissions.Scopes) == 0 {
		c.Permissions.Scopes = []Scope{{Path: c.Workspace, Read: true, Write: true}}
	}
}
