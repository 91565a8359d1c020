// Package skill is what Mercury can learn to do: folders with a SKILL.md as the
// Agent Skills specification (agentskills.io/specification) describes them. A
// model is told their names and what they are for, reads one when it uses it,
// and the files beside it when it needs them.
//
// A skill is words and files, never rights: what it says passes the same gate as
// everything else, and its allowed-tools only take tools away. One that was
// installed is pinned by a hash over all its files; a changed one is not used
// until its owner has looked at it.
package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// FileName is the file that makes a folder a skill.
const FileName = "SKILL.md"

// Limits of the specification, in characters, and of what is taken in.
const (
	nameMax          = 64
	descriptionMax   = 1024
	compatibilityMax = 500
	bodyMax          = 100 << 10 // bytes of SKILL.md
	TotalMax         = 4 << 20   // bytes of all files
	FilesMax         = 200
)

// Skill is one skill as its SKILL.md describes it.
type Skill struct {
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	License       string            `json:"license,omitempty"`
	Compatibility string            `json:"compatibility,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	AllowedTools  []string          `json:"allowed_tools,omitempty" doc:"tools it narrows a run to; empty: no narrowing"`
	Hidden        bool              `json:"hidden,omitempty" doc:"a person calls it by name; models are not told of it"`
	Body          string            `json:"body,omitempty"`
	Warnings      []string          `json:"warnings,omitempty"`
}

// front is the YAML before the body.
type front struct {
	Name          string         `yaml:"name"`
	Description   string         `yaml:"description"`
	License       string         `yaml:"license"`
	Compatibility string         `yaml:"compatibility"`
	Metadata      map[string]any `yaml:"metadata"`
	AllowedTools  any            `yaml:"allowed-tools"` // a string by the specification; older files have a list
	Version       any            `yaml:"version"`       // older files; metadata.version since
	Disable       bool           `yaml:"disable-model-invocation"`
}

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// ValidName reports whether a name may be a skill's: 1 to 64 lower-case letters,
// digits and single hyphens between them.
func ValidName(name string) bool { return len(name) <= nameMax && validName.MatchString(name) }

// Parse reads a SKILL.md. It is strict about what a skill cannot do without, a
// name and a description, and about limits; what else is odd is a warning. The
// error is mercury.Invalid and names the line where there is one.
func Parse(text []byte) (Skill, error) {
	var s Skill
	if len(text) > bodyMax {
		return s, invalid("%s has %d KB, the limit is %d; put long parts into files under references/", FileName, len(text)>>10, bodyMax>>10)
	}
	if !utf8.Valid(text) {
		return s, invalid("%s is not UTF-8 text", FileName)
	}
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return s, invalid("%s line 1: it begins with --- and the name and description, as YAML", FileName)
	}
	head, body, ok := bytes.Cut(rest, []byte("\n---"))
	if ok && len(body) > 0 && body[0] != '\n' {
		ok = false
	}
	if !ok {
		return s, invalid("%s: the --- that ends its first part is missing", FileName)
	}
	var f front
	if err := yaml.Unmarshal(head, &f); err != nil {
		return s, invalid("%s: %s", FileName, oneLine(yaml.FormatError(err, false, false)))
	}
	s = Skill{Name: strings.TrimSpace(f.Name), Description: strings.TrimSpace(f.Description), License: f.License, Compatibility: f.Compatibility,
		Hidden: f.Disable, Body: strings.TrimSpace(string(body))}
	if !ValidName(s.Name) {
		return s, invalid("%s: the name %q is not made of lower-case letters, digits and single hyphens, at most %d", FileName, cut(s.Name, 80), nameMax)
	}
	if s.Description == "" {
		return s, invalid("%s: the description is missing", FileName)
	}
	if n := utf8.RuneCountInString(s.Description); n > descriptionMax {
		return s, invalid("%s: the description has %d characters, the limit is %d", FileName, n, descriptionMax)
	}
	if utf8.RuneCountInString(s.Compatibility) > compatibilityMax {
		s.Compatibility = cut(s.Compatibility, compatibilityMax)
		s.Warnings = append(s.Warnings, fmt.Sprintf("compatibility is longer than %d characters and was cut", compatibilityMax))
	}
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata[key] = fmt.Sprint(f.Metadata[key])
	}
	if f.Version != nil && s.Metadata["version"] == "" {
		if s.Metadata == nil {
			s.Metadata = map[string]string{}
		}
		s.Metadata["version"] = fmt.Sprint(f.Version)
		s.Warnings = append(s.Warnings, "version belongs into metadata")
	}
	tools, err := allowedTools(f.AllowedTools)
	if err != nil {
		return s, err
	}
	s.AllowedTools = tools
	if s.Body == "" {
		s.Warnings = append(s.Warnings, "it says nothing beyond its description")
	}
	return s, nil
}

// allowedTools reads the specification's space-separated string, and the list
// of older files. What stands in brackets behind a name narrows a command of
// other agents; here the gate judges commands one by one, so it is dropped.
func allowedTools(v any) ([]string, error) {
	var words []string
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		depth := 0
		words = strings.FieldsFunc(v, func(r rune) bool {
			switch r {
			case '(':
				depth++
			case ')':
				depth--
			}
			return depth == 0 && (r == ' ' || r == ',' || r == '\n' || r == '\t')
		})
	case []any:
		for _, w := range v {
			words = append(words, fmt.Sprint(w))
		}
	default:
		return nil, invalid("%s: allowed-tools is a string of tool names with spaces between", FileName)
	}
	var names []string
	for _, w := range words {
		name, _, _ := strings.Cut(strings.TrimSpace(w), "(")
		if ours, ok := theirNames[strings.ToLower(name)]; ok {
			names = append(names, ours...)
		} else if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// theirNames are what other agents call our tools.
var theirNames = map[string][]string{
	"bash": {"run_command"}, "read": {"read_file", "list_dir"}, "write": {"write_file"}, "edit": {"edit_file"}, "multiedit": {"edit_file"},
	"grep": {"search_text"}, "glob": {"find_files"}, "ls": {"list_dir"}, "webfetch": {"fetch_url"}, "websearch": {"web_search"},
	"task": {"delegate_task"}, "todowrite": {"update_plan"},
}

// Bundle is a skill with all its files in memory, by slash path.
type Bundle struct {
	Skill
	Files map[string]File
}

// File is one file of a skill.
type File struct {
	Text []byte
	Exec bool
}

// NewBundle checks files that make one skill.
func NewBundle(files map[string]File) (Bundle, error) {
	if len(files) > FilesMax {
		return Bundle{}, invalid("it has %d files, the limit is %d", len(files), FilesMax)
	}
	total, folded := 0, map[string]string{}
	for name, f := range files {
		if err := validPath(name); err != nil {
			return Bundle{}, err
		}
		if other, ok := folded[strings.ToLower(name)]; ok {
			return Bundle{}, invalid("%s and %s are one file where case does not count", other, name)
		}
		folded[strings.ToLower(name)] = name
		total += len(f.Text)
	}
	if total > TotalMax {
		return Bundle{}, invalid("it has %d MB, the limit is %d", total>>20, TotalMax>>20)
	}
	main, ok := files[FileName]
	if !ok {
		return Bundle{}, invalid("there is no %s in it", FileName)
	}
	s, err := Parse(main.Text)
	return Bundle{s, files}, err
}

// validPath refuses names that lead out of a folder or mean something else on
// another system.
func validPath(name string) error {
	bad := name == "" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\:\x00") || len(name) > 200
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part == "." || part == ".." || strings.HasSuffix(part, " ") || strings.HasSuffix(part, ".")
	}
	for _, r := range name {
		bad = bad || r < ' ' || r == 0x7f
	}
	if bad || !utf8.ValidString(name) {
		return invalid("%q is no path for a file of a skill", cut(name, 80))
	}
	return nil
}

// Hash names the bundle: equal hashes are equal files.
func (b Bundle) Hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		f := b.Files[name]
		fmt.Fprintf(h, "%q %v %d\n", name, f.Exec, len(f.Text))
		h.Write(f.Text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func invalid(format string, args ...any) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf(format, args...)}
}

func wrapped(kind mercury.Kind, help string, format string, args ...any) error {
	return &mercury.Error{Kind: kind, Err: fmt.Errorf(format, args...), Help: help}
}

var errNone = errors.New("there is no such skill")

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
