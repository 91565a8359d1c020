// Package soul is who Mercury is: four Markdown files that people edit.
//
// soul.md says what it holds to and persona.md how it speaks; both stand in
// each request. taste.md, what it finds good, stands where something is made,
// and heartbeat.md, how it behaves unasked, in work that nobody sees begin.
// They are written once, with defaults, and never again by the program: no tool
// reaches them. A change counts from the next turn on.
package soul

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/mercury"
)

//go:embed default/*.md
var defaults embed.FS

//go:embed guardrails.md
var guardrails string

// The parts of a soul.
const (
	Soul      = "soul"
	Persona   = "persona"
	Taste     = "taste"
	Heartbeat = "heartbeat"
)

// Parts are the names of all files, without their ending.
var Parts = []string{Soul, Persona, Taste, Heartbeat}

// Who is meant where the configuration names nobody.
const (
	unnamed      = "Mercury"
	unnamedOwner = "your owner"
)

// FileMax is how much of a file is used, in bytes; the rest is left out, and
// said to be.
const FileMax = 6 << 10

// Options tune a soul. Dir is required.
type Options struct {
	Dir         string // folder of the files
	Name, Owner string // for {name} and {owner}; empty: Mercury, your owner
	// Screen takes secrets out of a text; nil leaves it as it is.
	Screen func(string) string
}

// Files are a soul on disk. They may be used by several goroutines.
type Files struct {
	opts Options

	mu    sync.Mutex
	known map[string]read
}

// read is a file as it was last read.
type read struct {
	at   time.Time
	size int64
	text string
	note string
}

// New returns the soul of a folder. It touches nothing.
func New(o Options) *Files {
	o.Name, o.Owner = cmp.Or(o.Name, unnamed), cmp.Or(o.Owner, unnamedOwner)
	if o.Screen == nil {
		o.Screen = func(s string) string { return s }
	}
	return &Files{opts: o, known: map[string]read{}}
}

// Rename changes who {name} and {owner} are.
func (f *Files) Rename(name, owner string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opts.Name, f.opts.Owner = cmp.Or(name, unnamed), cmp.Or(owner, unnamedOwner)
}

// Seed writes the defaults into an empty folder. A file that somebody deleted
// is not written again: its part is empty then.
func (f *Files) Seed() error {
	if _, err := os.Stat(f.opts.Dir); err == nil {
		entries, err := os.ReadDir(f.opts.Dir)
		if err != nil {
			return fmt.Errorf("look at the soul: %w", err)
		}
		if len(entries) > 0 {
			return nil
		}
	}
	if err := os.MkdirAll(f.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make the soul's folder: %w", err)
	}
	for _, part := range Parts {
		if err := atomicfile.Write(f.path(part), []byte(Default(part)), 0o600); err != nil {
			return fmt.Errorf("write %s.md: %w", part, err)
		}
	}
	return nil
}

// Default is what a part says before anybody edits it.
func Default(part string) string {
	b, err := defaults.ReadFile("default/" + part + ".md")
	if err != nil {
		panic("soul: there is no part " + part)
	}
	return string(b)
}

func (f *Files) path(part string) string { return filepath.Join(f.opts.Dir, part+".md") }

// Path is where a part stands; an Invalid error if there is none of this name.
func (f *Files) Path(part string) (string, error) {
	part = strings.TrimSuffix(part, ".md")
	if !slices.Contains(Parts, part) {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("there is no part %q", part),
			Help: "The parts are " + strings.Join(Parts, ", ") + "."}
	}
	return f.path(part), nil
}

// Text is a part as it stands on disk, empty if it is not there. A file that
// cannot be read, or is no text, is empty too, and the note says why; so it
// does of one that is too long.
func (f *Files) Text(part string) (text, note string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path(part))
	if err != nil {
		delete(f.known, part)
		if errors.Is(err, fs.ErrNotExist) {
			return "", ""
		}
		return "", fmt.Sprintf("%s.md cannot be read", part)
	}
	if k, ok := f.known[part]; ok && k.at.Equal(info.ModTime()) && k.size == info.Size() {
		return k.text, k.note
	}
	k := read{at: info.ModTime(), size: info.Size()}
	k.text, k.note = f.load(part, info)
	f.known[part] = k
	return k.text, k.note
}

func (f *Files) load(part string, info fs.FileInfo) (text, note string) {
	if !info.Mode().IsRegular() {
		return "", fmt.Sprintf("%s.md is not a file", part)
	}
	b, err := os.ReadFile(f.path(part))
	if err != nil {
		return "", fmt.Sprintf("%s.md cannot be read", part)
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", fmt.Sprintf("%s.md is not UTF-8 text", part)
	}
	text = strings.TrimSpace(string(b))
	if len(text) > FileMax {
		text = strings.ToValidUTF8(text[:FileMax], "")
		note = fmt.Sprintf("%s.md has %d bytes; the first %d are used", part, len(b), FileMax)
	}
	if clean := f.opts.Screen(text); clean != text {
		text = clean
		note = strings.TrimPrefix(note+"; ", "; ") + part + ".md holds what looks like a secret; it is left out"
	}
	return text, note
}

// System are the sections that stand in each request: what holds whoever
// Mercury is, then soul and persona. The same files give the same bytes.
func (f *Files) System() []string {
	out := []string{f.fill(guardrails)}
	for _, part := range []string{Soul, Persona} {
		if text, _ := f.Text(part); text != "" {
			out = append(out, f.fill(text))
		}
	}
	return out
}

// Section is one part as a prompt section, empty where there is none.
func (f *Files) Section(part string) string {
	text, _ := f.Text(part)
	return f.fill(text)
}

// Notes say what is wrong with the files.
func (f *Files) Notes() []string {
	var notes []string
	for _, part := range Parts {
		if _, note := f.Text(part); note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

func (f *Files) fill(text string) string {
	f.mu.Lock()
	name, owner := f.opts.Name, f.opts.Owner
	f.mu.Unlock()
	return strings.TrimSpace(strings.NewReplacer("{name}", name, "{owner}", owner).Replace(text))
}
