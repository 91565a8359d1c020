package file

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed search.md
var searchUsage string

type searchInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty" jsonschema:"file or folder; default: the workspace"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files such as *.go"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
}

const (
	searchMax  = 500      // lines shown
	searchLine = 400      // bytes shown of one line
	searchFile = 16 << 20 // bytes; larger files are skipped
)

// search is the tool that finds lines. It reads every file itself, through
// the view: a search program would open them by path, where a link may have
// been swapped in, and knows nothing of closed folders.
func (f *Files) search() tool.Tool {
	return tool.Define(tool.Definition[searchInput]{
		Name: "search_text", Usage: searchUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in searchInput) ([]mercury.Access, error) {
			if _, err := newSearch(in); err != nil {
				return nil, err
			}
			return f.walkAccess(NewView(f.opts, c), folderPath(in.Path))
		},
		Run: f.runSearch,
	})
}

func (f *Files) runSearch(ctx context.Context, c tool.Call, in searchInput) (tool.Output, error) {
	s, err := newSearch(in)
	if err != nil {
		return tool.Output{}, err
	}
	path := folderPath(in.Path)
	w, dir, real, err := f.start(ctx, c, path)
	var nf *notFolder
	if errors.As(err, &nf) && nf.path == real {
		file, info, err := NewView(f.opts, c).Open(path)
		if err != nil {
			return tool.Output{}, err
		}
		defer file.Close()
		s.file(file, info, path)
		return s.output(false), ctx.Err()
	}
	if err != nil {
		return tool.Output{}, explain(path, err)
	}
	err = w.walk(dir, real, func(rel string, dir *os.Root, d fs.DirEntry) error {
		if !d.Type().IsRegular() || !s.wants(rel) {
			return nil
		}
		file, info, err := w.view.openIn(dir, d.Name())
		if err != nil {
			return nil // gone, swapped, hidden, or not ours to read
		}
		defer file.Close()
		s.file(file, info, joined(path, rel))
		if s.full {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return tool.Output{}, err
	}
	return s.output(w.tooMany), nil
}

// A search is one search in progress.
type search struct {
	re     *regexp.Regexp // for one line
	whole  *regexp.Regexp // for a whole file; nil where that could miss a line
	glob   string
	buf    bytes.Buffer
	out    strings.Builder
	lines  int
	files  int
	large  int // files skipped for their size
	binary int
	full   bool
}

func newSearch(in searchInput) (*search, error) {
	flags := ""
	if in.IgnoreCase {
		flags = "(?i)"
	}
	if in.Pattern == "" || len(in.Pattern) > pathMax {
		return nil, invalid("the pattern is empty or too long", "")
	}
	re, err := regexp.Compile(flags + in.Pattern)
	if err != nil {
		return nil, invalid(err.Error(), "Escape characters such as ( [ { . * with a backslash to find them as they are.")
	}
	s := &search{re: re}
	// Anchors to the text and changed flags mean something else for a line
	// than for a file; without them a file that does not match has no line
	// that does.
	if !strings.Contains(in.Pattern, `\A`) && !strings.Contains(in.Pattern, `\z`) && !strings.Contains(in.Pattern, "(?") {
		s.whole = regexp.MustCompile("(?m)" + flags + in.Pattern)
	}
	if in.Glob != "" {
		if s.glob, err = anywhere(in.Glob); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *search) wants(rel string) bool {
	if s.glob == "" {
		return true
	}
	ok, _ := doublestar.Match(s.glob, rel) // the pattern is valid
	return ok
}

// file searches one file.
func (s *search) file(file *os.File, info os.FileInfo, name string) {
	if info.Size() > searchFile {
		s.large++
		return
	}
	s.buf.Reset()
	if _, err := s.buf.ReadFrom(io.LimitReader(file, searchFile)); err != nil {
		return
	}
	data := s.buf.Bytes()
	if binary(data[:min(len(data), sniffBytes)]) {
		s.binary++
		return
	}
	if s.whole != nil && !bytes.Contains(data, []byte("\r\n")) && !s.whole.Match(data) {
		return
	}
	hit := false
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		at := s.re.FindIndex(line)
		if at == nil {
			continue
		}
		if s.lines == searchMax || s.out.Len() > readText-2*searchLine {
			s.full = true
			return
		}
		s.lines++
		if !hit {
			hit = true
			s.files++
		}
		fmt.Fprintf(&s.out, "%s:%d:%s\n", printable(filepath.ToSlash(name)), n, tool.Clean(string(around(line, at[0]))))
	}
}

// around returns the part of a long line where the match begins.
func around(line []byte, at int) []byte {
	if len(line) <= searchLine {
		return line
	}
	from := max(0, min(at-searchLine/4, len(line)-searchLine))
	to := min(len(line), from+searchLine)
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to--
	}
	part := bytes.Clone(line[from:to])
	if from > 0 {
		part = append([]byte("…"), part...)
	}
	if to < len(line) {
		part = append(part, "…"...)
	}
	return part
}

func (s *search) output(cut bool) tool.Output {
	var notes []string
	if s.lines == 0 {
		notes = append(notes, "No line matches.")
	}
	if s.full || cut {
		notes = append(notes, "There may be more; narrow the pattern, glob or path.")
	}
	if s.large > 0 {
		notes = append(notes, fmt.Sprintf("%d files over %s were skipped.", s.large, bytesText(searchFile)))
	}
	if len(notes) > 0 {
		fmt.Fprintf(&s.out, "[%s]\n", strings.Join(notes, " "))
	}
	return tool.Output{Text: s.out.String()}
}
