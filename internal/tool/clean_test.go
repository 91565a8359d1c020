package tool

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanMakesTextHarmless(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain text", "a\tb\r\nü😀", "a\tb\r\nü😀"},
		{"nul", "a\x00b", "a\ufffdb"},
		{"invalid bytes", "\xc3(\xff", "\ufffd(\ufffd"},
		{"a rune cut off", "x\xe2\x82", "x\ufffd\ufffd"},
		{"colours", "\x1b[1;31mred\x1b[0m", "red"},
		{"a title", "\x1b]0;evil\x07ok\x1b]8;;http://x\x1b\\link", "oklink"},
		{"a title that never ends stops at its line", "\x1b]0;evil\nok", "ok"},
		{"other escapes", "\x1bcA\x1b(BB\x1bM", "AB"},
		{"c1 controls", "a\u009b31mb", "a\ufffd31mb"},
		{"bell, backspace, delete", "\x07\b\x7f", "\ufffd\ufffd\ufffd"},
		{"an escape at the end", "a\x1b", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzCleanIsTheSameInPieces(f *testing.F) {
	f.Add("a\x1b[31mü\xff\x00", 3)
	f.Add("\x1b]0;x\x1b\\y\xe2\x82\xac", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		whole := Clean(s)
		if !utf8.ValidString(whole) || strings.ContainsAny(whole, "\x00\x1b\x07\x7f") {
			t.Fatalf("%q is not harmless", whole)
		}
		if again := Clean(whole); again != whole {
			t.Fatalf("%q changes again to %q", whole, again)
		}
		var c cleaner
		var out []byte
		n = max(1, min(n, 16))
		for rest := s; rest != ""; rest = rest[min(n, len(rest)):] {
			out = c.add(out, []byte(rest[:min(n, len(rest))]))
		}
		if got := string(c.flush(out)); got != whole {
			t.Fatalf("in pieces of %d: %q, want %q", n, got, whole)
		}
	})
}

func FuzzCaptureKeepsItsLimits(f *testing.F) {
	f.Add("line\n", 3000, 10)
	f.Add("ü", 60000, 7)
	f.Fuzz(func(t *testing.T, s string, times, piece int) {
		times = max(0, min(times, 100_000/max(1, len(s))))
		text := strings.Repeat(s, times)
		k := NewCapture(Call{})
		for piece = max(1, min(piece, 1<<16)); text != ""; text = text[min(piece, len(text)):] {
			if _, err := k.Write([]byte(text[:min(piece, len(text))])); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := k.Finish()
		if len(got) > MaxBytes || strings.Count(got, "\n") > MaxLines || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, %d lines, valid %v", len(got), strings.Count(got, "\n"), utf8.ValidString(got))
		}
	})
}

func FuzzNearestNeverPanics(f *testing.F) {
	f.Add("red_file")
	f.Fuzz(func(t *testing.T, s string) {
		if got := nearest(s, []string{"read_file", "write_file"}); got != "" && distance(strings.ToLower(s), got) > max(len(s), 3)/3 {
			t.Fatalf("%q is not near %q", got, s)
		}
	})
}
