package mercury_test

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestOneThingIsNotWordedAsMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 messages", 1: "1 message", 2: "2 messages"} {
		if got := mercury.Count(n, "message", "messages"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
