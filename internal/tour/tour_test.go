package tour

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/demo"
)

func TestANumberStandsForItsLine(t *testing.T) {
	first := demo.Tour()[0].Type
	for _, tt := range []struct{ typed, want string }{
		{"1", first}, {" 1. ", first}, {"0", "0"}, {"6", "6"}, {"run date", "run date"}, {"1 or 2", "1 or 2"},
	} {
		tour := &tour{o: Options{Out: &bytes.Buffer{}}}
		if got := tour.numbered(tt.typed); got != tt.want {
			t.Errorf("numbered(%q) = %q, want %q", tt.typed, got, tt.want)
		}
	}
}

func TestTheGreetingFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 60, 80} {
		var out bytes.Buffer
		(&tour{o: Options{Out: &out, Width: func() int { return width }}}).greet()
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d columns on a terminal of %d: %q", n, width, line)
			}
		}
	}
}
