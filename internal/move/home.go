package move

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/mercury-agent/mercury/internal/mercury"
)

const (
	maxText    = 16 << 20 // bytes of one file that is read whole
	maxLine    = 4 << 20  // bytes of one line of a transcript
	maxSkill   = 4 << 20  // bytes of one skill, its files together
	maxToolOut = 2000     // bytes of a tool's output that are kept in a talk
)

// home is a foreign home, read only. Paths are relative, with slashes.
type home struct {
	dir      string
	warnings []string
}

func openHome(dir string) (*home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	info, err := os.Stat(abs)
	if err != nil || !info.IsDir() {
		return nil, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no folder %s", dir), Help: "Name the folder in which the other agent keeps its files, such as ~/.openclaw."}
	}
	return &home{dir: abs}, nil
}

// at is the place of a path; one that is absolute stays.
func (h *home) at(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.dir, filepath.FromSlash(name))
}

func (h *home) has(name string) bool {
	info, err := os.Stat(h.at(name))
	return err == nil && info.Mode().IsRegular()
}

func (h *home) warn(format string, a ...any) {
	h.warnings = append(h.warnings, fmt.Sprintf(format, a...))
}

// text reads a file. One that is not there is empty; one that cannot be read
// is a warning and empty.
func (h *home) text(name string) []byte {
	info, err := os.Stat(h.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil && info.Size() > maxText {
		err = fmt.Errorf("it has %d MB, which is too much", info.Size()>>20)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(h.at(name))
	}
	if err != nil {
		h.warn("%s was not read: %v", name, err)
		return nil
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
}

// json reads a JSON file, with the liberties of JSON5 where lenient, into v
// and reports whether it did.
func (h *home) json(name string, lenient bool, v any) bool {
	text := h.text(name)
	if len(bytes.TrimSpace(text)) == 0 {
		return false
	}
	var err error
	if lenient {
		if text, err = plainJSON(text); err != nil {
			h.warn("%s cannot be understood: %v", name, err)
			return false
		}
	}
	if err := json.Unmarshal(text, v); err != nil {
		h.warn("%s cannot be understood: %v", name, err)
		return false
	}
	return true
}

// yaml reads a YAML file into v and reports whether it did.
func (h *home) yaml(name string, v any) bool {
	text := h.text(name)
	if len(bytes.TrimSpace(text)) == 0 {
		return false
	}
	if err := yaml.Unmarshal(text, v); err != nil {
		h.warn("%s cannot be understood: %s", name, firstLine(err.Error()))
		return false
	}
	return true
}

// lines calls each line of a JSONL file; one that is no JSON object is passed
// over.
func (h *home) lines(name string, each func(line []byte)) {
	f, err := os.Open(h.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		h.warn("%s was not read: %v", name, err)
		return
	}
	defer f.Close()
	skipped := 0
	for r := newLines(f); ; {
		line, err := r.next()
		if len(line) > 0 {
			if json.Valid(line) {
				each(line)
			} else {
				skipped++
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.warn("%s was read in part: %v", name, err)
			break
		}
	}
	if skipped > 0 {
		h.warn("%s: lines that cannot be understood were passed over, %d in all", name, skipped)
	}
}

// glob lists the regular files and folders that a pattern matches, sorted.
func (h *home) glob(pattern string) []string {
	found, err := filepath.Glob(h.at(pattern))
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range found {
		if rel, err := filepath.Rel(h.dir, f); err == nil && !filepath.IsAbs(pattern) {
			f = filepath.ToSlash(rel)
		}
		names = append(names, f)
	}
	slices.Sort(names)
	return names
}

// env reads an .env file into a map. Lines it does not understand are passed
// over.
func (h *home) env(name string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(string(h.text(name))) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		key, value, found := strings.Cut(line, "=")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		vars[strings.TrimSpace(key)] = value
	}
	return vars
}

// skill reads a folder with a SKILL.md as files for skills/NAME. Links and
// other odd files stay behind with a word.
func (h *home) skill(p *Parcel, dir string) {
	name := path.Base(filepath.ToSlash(dir))
	if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || !h.has(path.Join(filepath.ToSlash(dir), "SKILL.md")) {
		return
	}
	total := 0
	var files []File
	err := filepath.WalkDir(h.at(dir), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "__pycache__"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(h.at(dir), at)
		if !d.Type().IsRegular() {
			h.warn("skill %s: %s is a link or no file, and stays behind", name, rel)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += int(info.Size()); info.Size() > maxSkill || total > maxSkill {
			return fmt.Errorf("it is larger than %d MB", maxSkill>>20)
		}
		text, err := os.ReadFile(at)
		files = append(files, File{Path: path.Join("skills", name, filepath.ToSlash(rel)), From: at, Text: text})
		return err
	})
	if err != nil {
		h.warn("skill %s stays behind: %v", name, err)
		return
	}
	p.Files = append(p.Files, files...)
}

// keep puts a file into what is kept, when it is there.
func (h *home) keep(p *Parcel, name, why string) {
	if text := h.text(name); len(text) > 0 {
		p.Kept = append(p.Kept, File{Path: cleanPath(name), From: name, Why: why, Text: text})
	}
}

// cleanPath is a path that stays below a folder whatever name says.
func cleanPath(name string) string {
	name = strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(filepath.VolumeName(name)))
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// soul takes a text for a file of soul/.
func (h *home) soul(p *Parcel, name, to string) {
	if text := bytes.TrimSpace(h.text(name)); len(text) > 0 {
		p.Files = append(p.Files, File{Path: "soul/" + to, From: name, Text: append(text, '\n')})
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// cut shortens a text to n bytes at a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// millis is a time in milliseconds since 1970; 0 is none.
func millis(ms float64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// bullets splits a Markdown text into what its list items and paragraphs say;
// headings go before what stands below them.
func bullets(text string) []string {
	var found []string
	heading, item := "", ""
	flush := func() {
		item = strings.Join(strings.Fields(strings.TrimSpace(item)), " ")
		if len(item) >= 3 && heading != "" && len(heading) < 60 {
			item = heading + ": " + item
		}
		if len(item) >= 3 {
			found = append(found, item)
		}
		item = ""
	}
	fenced := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			item += " "
		case fenced:
			item += " " + trimmed
		case trimmed == "" || trimmed == "---":
			flush()
		case strings.HasPrefix(trimmed, "#"):
			flush()
			heading = strings.TrimSpace(strings.TrimLeft(trimmed, "#"))
		case strings.HasPrefix(trimmed, "- "), strings.HasPrefix(trimmed, "* "), strings.HasPrefix(trimmed, "+ "):
			flush()
			item = trimmed[2:]
		default:
			item += " " + trimmed
		}
	}
	flush()
	return found
}
