package channel

import (
	"strings"
	"testing"
	"unicode"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestSplitCutsAtBlockBordersAndKeepsFencesWhole(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"short text is one piece", "hello", 10, []string{"hello"}},
		{"blank text is none", " \n ", 10, nil},
		{"no limit is no cut", strings.Repeat("x", 9999), 0, []string{strings.Repeat("x", 9999)}},
		{"between paragraphs", "first paragraph here\n\nsecond paragraph", 30, []string{"first paragraph here", "second paragraph"}},
		{"between words", "one two three four five six seven", 21, []string{"one two three four", "five six seven"}},
		{"a fence is closed and opened again", "```go\naaaa aaaa aaaa\nbbbb bbbb bbbb\ncccc\n```", 36,
			[]string{"```go\naaaa aaaa aaaa\n```", "```go\nbbbb bbbb bbbb\ncccc\n```"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Split(tt.text, tt.limit)
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("Split = %q\nwant    %q", got, tt.want)
			}
		})
	}
}

func TestPartsListFilesByNameWhereTheyCannotBeSent(t *testing.T) {
	d := mercury.Delivery{Text: "see", Files: []mercury.File{{Name: "a.pdf"}}}
	if got := Parts(d, Limits{}); len(got) != 1 || got[0].Text != "see\n[file: a.pdf]" {
		t.Errorf("without files: %+v", got)
	}
	if got := Parts(d, Limits{Files: true}); len(got) != 2 || got[1].File.Name != "a.pdf" || got[1].N != 1 {
		t.Errorf("with files: %+v", got)
	}
}

// The text that people read is all there, in order: with fences and white
// space aside, the pieces joined are the text.
func FuzzSplitLosesNothingAndKeepsTheLimit(f *testing.F) {
	f.Add("plain words and more of them", 40)
	f.Add("```py\nprint(1)\n\nprint(2)\n```\nand **bold** text 🙂🙂🙂🙂🙂🙂🙂🙂", 40)
	f.Add("~~~~\n```\n~~~~\n"+strings.Repeat("x", 200), 64)
	f.Add("\xff\xfe broken", 40)
	bare := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			if fenceMarks(strings.TrimRight(line, "\r\n ")) == "" {
				b.WriteString(strings.Join(strings.FieldsFunc(line, unicode.IsSpace), ""))
			}
		}
		return b.String()
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 40 || limit > 5000 || len(text) > 20000 {
			return
		}
		pieces := Split(text, limit)
		for _, p := range pieces {
			if Units(p) > limit {
				t.Fatalf("a piece of %d units, limit %d: %q", Units(p), limit, p)
			}
			if strings.TrimSpace(p) == "" {
				t.Fatal("a blank piece")
			}
		}
		if strings.Contains(text, "```") || strings.Contains(text, "~~~") {
			return // fence lines are added on purpose
		}
		if got, want := bare(strings.Join(pieces, "\n")), bare(strings.ToValidUTF8(text, "\uFFFD")); got != want {
			t.Fatalf("text changed:\n%q\n%q", got, want)
		}
	})
}
