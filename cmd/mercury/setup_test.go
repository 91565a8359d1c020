package main

import (
	"context"
	"errors"
	"testing"
)

// Ctrl+C ends the context; the line that nobody types must not hold it up.
func TestAnInterruptEndsAQuestionOfSetup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nextLine(ctx, make(chan string)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
