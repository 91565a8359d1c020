package llmtest

import (
	"net/http/httptest"
)

// T is what Start needs of a test.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Running is a Server on a loopback port.
type Running struct {
	*Server
	URL string // without a path; the OpenAI wire is at URL + "/v1"
}

// Start serves script until the test ends.
func Start(t T, script Script) *Running {
	t.Helper()
	s, err := NewServer(script, nil)
	if err != nil {
		t.Fatalf("start scripted model: %v", err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return &Running{Server: s, URL: h.URL}
}
