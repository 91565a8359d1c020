//go:build unix

package config

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// Opening a pipe waits for a writer, for ever if need be.
func TestAPipeInPlaceOfAFileIsRefusedAtOnce(t *testing.T) {
	for _, file := range []func(Home) string{Home.Config, Home.Env, Home.TokenFile} {
		h, err := HomeAt(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(file(h), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Load(Source{Home: h, Getenv: func(string) string { return "" }})
		if file(h) == h.TokenFile() {
			_, err = h.Token()
		}
		var problems Problems
		said := fmt.Sprint(err)
		if errors.As(err, &problems) {
			said += problems[0].String()
		}
		if err == nil || !strings.Contains(said, "no regular file") {
			t.Errorf("%s: %s", file(h), said)
		}
	}
}
