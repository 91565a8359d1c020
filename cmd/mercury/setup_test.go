package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
)

// Ctrl+C ends the context; the line that nobody types must not hold it up.
func TestAnInterruptEndsAQuestionOfSetup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nextLine(ctx, make(chan string)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// As under sudo, or where HOME was changed: what there was is found.
func TestAMercuryThatLivesWhereHomeNoLongerPointsIsFound(t *testing.T) {
	mine, other := t.TempDir(), t.TempDir()
	t.Setenv("HOME", other)
	t.Setenv("MERCURY_HOME", "")
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if got := homeIn(mine, home); got != "" {
		t.Errorf("found %s where there is none", got)
	}
	old := filepath.Join(mine, ".mercury")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "mercury.yaml"), []byte("name: X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := homeIn(mine, home); got != old {
		t.Errorf("found %q, want %q", got, old)
	}
	if got := homeIn(other, home); got != "" {
		t.Errorf("its own home is another one: %s", got)
	}
}
