package tui

import (
	"bytes"
	"strings"
	"testing"
)

func TestLinesBreakBetweenWords(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		width            int
	}{
		{"what fits stays", "one two\n", "one two\n", 7},
		{"a word that does not fit goes down", "one two three\n", "one two\nthree\n", 9},
		{"blanks at a break vanish", "one   two", "one\ntwo", 5},
		{"blanks inside a line stay", "a   b", "a   b", 9},
		{"a list item keeps its indent", "- one two three", "- one\n  two\n  three", 7},
		{"so does a numbered one", "10. one two", "10. one\n    two", 9},
		{"a word longer than the line is the terminal's to break", "see https://example.com/long now", "see\nhttps://example.com/long\nnow", 10},
		{"code is not touched", "```\none two three\n```\none two", "```\none two three\n```\none\ntwo", 5},
		{"nor is a table", "| one | two | three |\n", "| one | two | three |\n", 6},
		{"wide letters break anywhere", "水星水星", "水星\n水星", 5},
		{"no width, no breaks", "one two three", "one two three", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Wrap(tt.text, tt.width); got != tt.want {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

func FuzzFoldingKeepsEveryWord(f *testing.F) {
	f.Add("- one two\n```\nx  y\n```\n| a |", 7, 3)
	f.Add("水星 is a planet\t.", 5, 1)
	f.Fuzz(func(t *testing.T, text string, width, at int) {
		if width < 0 || width > 200 || len(text) > 1<<12 {
			return
		}
		text = Safe(text)
		got := Wrap(text, width)
		if a, b := strings.Join(strings.Fields(got), ""), strings.Join(strings.Fields(text), ""); a != b {
			t.Fatalf("words were lost: %q became %q", text, got)
		}
		// However the text arrives, it is shown alike.
		runes := []rune(text)
		at = min(max(at, 0), len(runes))
		var b bytes.Buffer
		s := fold{out: &b, width: width}
		s.write(string(runes[:at]))
		s.write(string(runes[at:]))
		s.end()
		if b.String() != got {
			t.Fatalf("in two pieces %q, in one %q", b.String(), got)
		}
	})
}
