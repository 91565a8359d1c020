package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestARequestThatWouldBeMisreadIsRefusedAtTheDoor(t *testing.T) {
	h := open(t)
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		status             int
		says               string
	}{
		{"gzip", "POST", "/api/runs/r/cancel", map[string]string{"Content-Encoding": "gzip"}, http.StatusUnsupportedMediaType, "Content-Encoding"},
		{"utf-16", "POST", "/api/runs/r/cancel", map[string]string{"Content-Type": `application/json; Charset="UTF-16"`}, http.StatusUnsupportedMediaType, "UTF-8"},
		{"utf-8", "POST", "/api/runs/r/cancel", map[string]string{"Content-Type": "application/json; charset=UTF-8", "Content-Encoding": "identity"}, http.StatusNotFound, ""},
		{"one parameter twice", "GET", "/api/runs?conversation=a&conversation=b", nil, http.StatusBadRequest, "conversation"},
		{"two states", "GET", "/api/runs?state=done&state=failed", nil, http.StatusOK, ""},
		{"two states, comma", "GET", "/api/runs?state=done,failed", nil, http.StatusOK, ""},
		{"the second state is read too", "GET", "/api/runs?state=done&state=nonsense", nil, http.StatusUnprocessableEntity, "state"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, _ := h.do(t, tt.method, tt.path, "", tt.header)
			if status != tt.status || !strings.Contains(body, tt.says) {
				t.Errorf("%d %s, want %d with %q", status, body, tt.status, tt.says)
			}
		})
	}
}
