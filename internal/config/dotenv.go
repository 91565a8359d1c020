package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/mercury"
)

const (
	maxFile = 256 << 10 // bytes of mercury.yaml or .env; a written one has a few thousand
)

var bom = []byte("\xef\xbb\xbf")

// readLimited reads a regular file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	// Looked at before it is opened: opening a pipe would wait for a writer.
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("read %s: it is a folder", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: it is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d KB", path, limit>>10)
	}
	return text, nil
}

// variable is one assignment of an .env file.
type variable struct {
	value string
	line  int
}

// environment answers for ${NAME}: the process first, then .env of the home.
// An empty value counts as missing, since an empty key helps nobody.
type environment struct {
	process  func(string) string
	file     string
	dotenv   map[string]variable
	warnings []string
}

// lookup returns a variable and where it was found.
func (e *environment) lookup(name string) (string, Origin, bool) {
	if v := e.process(name); v != "" {
		return v, Origin{Source: FromEnv, Name: name}, true
	}
	if v, ok := e.dotenv[name]; ok && v.value != "" {
		return v.value, Origin{Source: FromEnv, Name: name, File: e.file, Line: v.line}, true
	}
	return "", Origin{}, false
}

// readEnvironment reads .env of the home; none at all is fine.
func readEnvironment(home Home, getenv func(string) string) (*environment, Problems) {
	env := &environment{process: getenv, file: home.Env()}
	text, err := readLimited(env.file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return env, nil
	}
	if err != nil {
		return env, Problems{{File: env.file, dotenv: true, Message: err.Error(), Help: "Make .env a readable file, or remove it."}}
	}
	if info, err := os.Stat(env.file); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		env.warnings = append(env.warnings, fmt.Sprintf("%s can be read by others (mode %04o); run: chmod 600 %s", env.file, info.Mode().Perm(), env.file))
	}
	vars, problems := parseDotenv(text)
	for i := range problems {
		problems[i].File, problems[i].dotenv = env.file, true
	}
	env.dotenv = vars
	return env, problems
}

// parseDotenv reads lines of the form
//
//	NAME=value
//	export NAME="value with \n escapes"
//	NAME='literal value'   # a comment
//
// Nothing is expanded and nothing spans lines: a $ is a $. A # begins a
// comment at the start of a line or after a blank. The last assignment of a
// name counts. Values never appear in the problems.
func parseDotenv(text []byte) (map[string]variable, Problems) {
	vars := map[string]variable{}
	var problems Problems
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, bom)) {
		n++
		name, value, err := parseAssignment(string(bytes.TrimRight(line, "\r\n")))
		switch {
		case err != nil:
			problems = append(problems, Problem{Line: n, Message: err.Error(), Help: `Write each line as NAME=value, with quotes around a value that holds blanks or #.`})
		case name != "":
			vars[name] = variable{value, n}
		}
	}
	return vars, problems
}

func parseAssignment(line string) (name, value string, err error) {
	line = strings.Trim(line, " \t")
	if line == "" || line[0] == '#' {
		return "", "", nil
	}
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return "", "", errors.New("the line is not UTF-8 text")
	}
	if rest, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimLeft(rest, " \t")
	}
	name, rest, found := strings.Cut(line, "=")
	name = strings.TrimRight(name, " \t")
	if !found {
		return "", "", errors.New("the line has no =")
	}
	if !isName(name) {
		return "", "", errors.New("the name before = may hold letters, digits and _ only")
	}
	value, err = parseValue(strings.TrimLeft(rest, " \t"))
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", name, err)
	}
	return name, value, nil
}

func parseValue(s string) (string, error) {
	if s == "" || s[0] == '#' {
		return "", nil
	}
	quote := s[0]
	if quote != '"' && quote != '\'' {
		for i := 1; i < len(s); i++ {
			if s[i] == '#' && (s[i-1] == ' ' || s[i-1] == '\t') {
				s = s[:i]
				break
			}
		}
		return strings.TrimRight(s, " \t"), nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			if rest := strings.TrimLeft(s[i+1:], " \t"); rest != "" && rest[0] != '#' {
				return "", errors.New("there is text after the closing quote")
			}
			return b.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			case '"', '\\', '$':
				b.WriteByte(s[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the closing quote is missing")
}

// isName reports whether s can be the name of a variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

var errReference = errors.New("broken reference")

const referenceHelp = "Write a reference like ${NAME}, with letters, digits and _; $${ stands for the two characters."

// expand replaces ${NAME} in s by look-ups and returns the first name that
// was not found. "$${" writes "${"; any other $ stands for itself.
func (e *environment) expand(s string) (value, missing string, err error) {
	if !strings.Contains(s, "${") {
		return s, "", nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String(), missing, nil
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString(before + "{")
			s = rest
			continue
		}
		b.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !isName(name) {
			return "", "", errReference
		}
		v, _, ok := e.lookup(name)
		if !ok && missing == "" {
			missing = name
		}
		b.WriteString(v)
		s = after
	}
}

// SetVariable writes one assignment to .env of the home, 0600, replacing the
// last one of that name and leaving every other line alone. It is where a
// pasted key belongs: mercury.yaml then refers to it as ${NAME}.
func SetVariable(h Home, name, value string) error {
	if !isName(name) || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("set variable %s: a name has letters, digits and _, a value is text", quoted(name))}
	}
	if err := h.Create(); err != nil {
		return fmt.Errorf("set variable %s: %w", name, err)
	}
	text, err := readLimited(h.Env(), maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set variable %s: %w", name, err)
	}
	vars, _ := parseDotenv(text)
	lines := strings.SplitAfter(string(text), "\n")
	assignment := name + "=" + quoteVariable(value) + "\n"
	if old, ok := vars[name]; ok {
		lines[old.line-1] = assignment
	} else {
		if last := lines[len(lines)-1]; last != "" {
			lines[len(lines)-1] += "\n"
		}
		lines = append(lines, assignment)
	}
	if err := atomicfile.Write(h.Env(), []byte(strings.Join(lines, "")), 0o600); err != nil {
		return fmt.Errorf("set variable %s: %w", name, unwritten(err))
	}
	return nil
}

// quoteVariable writes a value so that parseValue reads it back.
func quoteVariable(value string) string {
	if value != "" && !strings.ContainsAny(value, " \t\r\n\"'\\#") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(value) + `"`
}

// HasVariable reports whether .env of the home assigns a value to a name.
func HasVariable(h Home, name string) (bool, error) {
	text, err := readLimited(h.Env(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for variable %s: %w", name, err)
	}
	vars, _ := parseDotenv(text)
	return vars[name].value != "", nil
}
