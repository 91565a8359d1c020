package tui

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// typing feeds chunks to a line as a terminal would and returns the line, what
// the screen was sent, and how it ended.
func typing(veil Veil, chunks ...string) (text, screen string, err error) {
	var out bytes.Buffer
	l := &promptLine{out: &out, veil: veil}
	var rest []byte
	for _, c := range chunks {
		rest = append(rest, c...)
		l.burst([]byte(c))
		for len(rest) > 0 {
			n, done, err := l.take(rest)
			if done {
				return string(l.text), out.String() + l.end(), err
			}
			if n == 0 {
				break
			}
			rest = rest[n:]
		}
	}
	return string(l.text), out.String() + l.end(), errors.New("the line did not end")
}

func letters(s string) []string { return append(strings.Split(s, ""), "\r") }

const key = "sk-ant-api03-abcdefghijklmnop"

func TestAPromptShowsWhatIsTypedAndNeverAKey(t *testing.T) {
	for _, tt := range []struct {
		name   string
		veil   Veil
		chunks []string
		text   string
		screen string
	}{
		{"a number", Careful, []string{"2", "\r"}, "2", "2"},
		{"a number with its Enter at once", Careful, []string{"2\r"}, "2", "2"},
		{"a correction", Open, []string{"a", "b", "\x7f", "c", "\r"}, "ac", "ab\b \bc"},
		{"a wide character taken back", Open, []string{"日", "\x7f", "x", "\r"}, "x", "日\b \b\b \bx"},
		{"half a character at a time", Open, []string{"\xe6\x97", "\xa5", "\r"}, "日", "日"},
		{"arrows and other keys", Open, []string{"a", "\x1b[A", "\x1bOP", "b", "\r"}, "ab", "ab"},
		{"a pasted key", Careful, []string{key, "\r"}, key, "(29 characters, not shown)"},
		{"a marked paste with its newline", Careful, []string{"\x1b[200~" + key + "\n\x1b[201~", "\r"}, key, "(29 characters, not shown)"},
		{"a mark that comes in pieces", Careful, []string{"\x1b[20", "0~s", "k", "\x1b[201~", "\r"}, "sk", "(2 characters, not shown)"},
		{"a hidden line", Hidden, letters("123:abc"), "123:abc", "(7 characters, not shown)"},
		{"a hidden line taken back", Hidden, []string{"1", "\x15", "\r"}, "", ""},
		{"a model's name", Careful, letters("openrouter/anthropic/claude"), "openrouter/anthropic/claude", "openrouter/anthropic/claude"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, screen, err := typing(tt.veil, tt.chunks...)
			if err != nil || text != tt.text || screen != tt.screen {
				t.Errorf("got %q, %q, %v; want %q, %q", text, screen, err, tt.text, tt.screen)
			}
		})
	}
	text, screen, err := typing(Careful, letters(key)...)
	if err != nil || text != key || !strings.Contains(screen, strings.Repeat("\b \b", 18)) || strings.Contains(screen, key[18:]) {
		t.Errorf("a key typed by hand: got %q, %q, %v", text, screen, err)
	}
}

func TestCtrlCAndCtrlDLeaveAPrompt(t *testing.T) {
	if _, _, err := typing(Open, "a", "\x03"); !errors.Is(err, ErrInterrupted) {
		t.Errorf("Ctrl+C: %v", err)
	}
	if _, _, err := typing(Open, "\x04"); !errors.Is(err, io.EOF) {
		t.Errorf("Ctrl+D: %v", err)
	}
	if text, _, err := typing(Open, "a\x04", "\r"); text != "a" || err != nil {
		t.Errorf("Ctrl+D inside a line: %q, %v", text, err)
	}
}
