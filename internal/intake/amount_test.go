package intake

import "testing"

func TestOneMessageIsNotSeveral(t *testing.T) {
	for n, want := range map[int]string{0: "0 messages wait", 1: "1 message waits", 2: "2 messages wait"} {
		if got := messages(n, "waits", "wait"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
