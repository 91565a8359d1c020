package file

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed edit.md
var editUsage string

type editInput struct {
	Path       string `json:"path"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

// edit is the tool that changes part of a file.
func (f *Files) edit() tool.Tool {
	return tool.Define(tool.Definition[editInput]{
		Name: "edit_file", Usage: editUsage, Effect: mercury.Once,
		Access: func(_ context.Context, c tool.Call, in editInput) ([]mercury.Access, error) {
			switch {
			case in.OldString == "":
				return nil, invalid("old_string is empty", "Use write_file to create a file.")
			case in.OldString == in.NewString:
				return nil, invalid("old_string and new_string are the same", "")
			case len(in.NewString) > changeMax:
				return nil, invalid("new_string is too long", "")
			}
			return f.access(c, mercury.WritePath, in.Path)
		},
		Run: f.runEdit,
		Show: func(_ context.Context, _ tool.Call, in editInput) string {
			all := ""
			if in.ReplaceAll {
				all = ", every occurrence"
			}
			return fmt.Sprintf("%s%s\n%s%s", in.Path, all, prefixed("-", in.OldString), prefixed("+", in.NewString))
		},
		Probe: f.probeEdit,
	})
}

func prefixed(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

func (f *Files) runEdit(ctx context.Context, c tool.Call, in editInput) (tool.Output, error) {
	v := NewView(f.opts, c)
	real, err := v.admit(mercury.WritePath, in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	defer f.lock(real)()
	p, err := v.existing(real)
	if err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	defer p.dir.Close()
	content, err := p.content()
	if err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	before := string(content)
	after, at, err := replaceText(before, in)
	if err != nil {
		return tool.Output{}, fmt.Errorf("%s: %w", in.Path, err)
	}
	if len(after) > changeMax {
		return tool.Output{}, invalid(fmt.Sprintf("%s would grow to %s", in.Path, bytesText(int64(len(after)))), "")
	}
	r := f.replaced(ctx, c, p, real, content, []byte(after), nil)
	if err := p.replace(ctx, []byte(after)); err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	text := fmt.Sprintf("Changed %s at line %d.", real, at[0])
	if len(at) > 1 {
		text = fmt.Sprintf("Changed %s in %d places, at lines %s.", real, len(at), lineList(at))
	}
	return remember(tool.Output{Text: text, Diff: diff(real, content, []byte(after))}, r), nil
}

// replaceText does the edit and returns the lines it changed. In a file whose
// lines all end in CR LF, the strings are read as if theirs did too.
func replaceText(content string, in editInput) (after string, at []int, err error) {
	old, fresh := in.OldString, in.NewString
	if crlf(content) {
		old, fresh = toCRLF(old), toCRLF(fresh)
	}
	at = occurrences(content, old)
	switch {
	case len(at) == 0:
		return "", nil, notFound(content, in.OldString)
	case len(at) > 1 && !in.ReplaceAll:
		return "", nil, invalid(fmt.Sprintf("old_string is found %d times, at lines %s", len(at), lineList(at)),
			"Add surrounding lines to it, or set replace_all.")
	}
	return strings.ReplaceAll(content, old, fresh), at, nil
}

// crlf reports whether every line of content ends in CR LF.
func crlf(content string) bool {
	n := strings.Count(content, "\r\n")
	return n > 0 && n == strings.Count(content, "\n")
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// occurrences returns the lines, from 1, where s begins.
func occurrences(content, s string) []int {
	var at []int
	line := 1
	for {
		before, rest, ok := strings.Cut(content, s)
		if !ok {
			return at
		}
		line += strings.Count(before, "\n")
		at = append(at, line)
		line += strings.Count(s, "\n")
		content = rest
	}
}

// notFound says why old is not in content, with the lines that come nearest.
func notFound(content, old string) error {
	lines := strings.Split(content, "\n")
	want := strings.Split(strings.Trim(old, "\r\n"), "\n")
	var whole, first []int
	for i := range lines {
		if strings.TrimSpace(want[0]) == "" || squeeze(lines[i]) != squeeze(want[0]) {
			continue
		}
		first = append(first, i+1)
		if i+len(want) <= len(lines) && squeeze(strings.Join(lines[i:i+len(want)], "\n")) == squeeze(strings.Join(want, "\n")) {
			whole = append(whole, i+1)
		}
	}
	switch {
	case len(whole) > 0:
		return invalid(fmt.Sprintf("old_string is not in the file; the text at line %s differs from it only in blanks", lineList(whole)),
			"Copy it exactly, with its indentation.")
	case len(first) > 0:
		return invalid(fmt.Sprintf("old_string is not in the file; its first line stands at line %s, but what follows differs", lineList(first)),
			"Read the file again from there.")
	}
	near := nearLines(lines, want[0])
	if len(near) > 0 {
		return invalid("old_string is not in the file; the nearest lines are "+strings.Join(near, " and "), "Read the file again.")
	}
	return invalid("old_string is not in the file", "Read the file again.")
}

// squeeze writes every run of blanks as one space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// nearLines returns up to two lines that share most of their words with want.
func nearLines(lines []string, want string) []string {
	words := map[string]bool{}
	for _, w := range strings.Fields(want) {
		words[w] = true
	}
	if len(words) < 2 {
		return nil
	}
	var out []string
	for i, line := range lines {
		hit := 0
		for _, w := range strings.Fields(line) {
			if words[w] {
				hit++
			}
		}
		if hit*3 >= len(words)*2 {
			if out = append(out, fmt.Sprintf("%d: %.120q", i+1, strings.TrimSpace(line))); len(out) == 2 {
				break
			}
		}
	}
	return out
}

// lineList names up to ten lines.
func lineList(at []int) string {
	var b strings.Builder
	for i, n := range at {
		if i == 10 {
			fmt.Fprintf(&b, " and %d more", len(at)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// probeEdit finds out whether an interrupted edit happened, where the two
// strings do not contain each other and only one of them is there.
func (f *Files) probeEdit(_ context.Context, c tool.Call, in editInput) (*tool.Output, bool, error) {
	data, err := f.current(c, in.Path)
	if err != nil {
		return nil, false, err
	}
	content, old, fresh := string(data), in.OldString, in.NewString
	if crlf(content) {
		old, fresh = toCRLF(old), toCRLF(fresh)
	}
	if fresh == "" || strings.Contains(fresh, old) || strings.Contains(old, fresh) {
		return nil, false, nil
	}
	hasOld, hasNew := strings.Contains(content, old), strings.Contains(content, fresh)
	switch {
	case hasNew && !hasOld:
		return &tool.Output{Text: fmt.Sprintf("%s has the new text.", in.Path)}, false, nil
	case hasOld && !hasNew:
		return nil, true, nil
	}
	return nil, false, nil
}
