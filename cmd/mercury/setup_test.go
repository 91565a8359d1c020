package main

import (
	"context"
	"errors"
	"testing"
)

func TestAPastedKeyIsRecognisedByItsShapeOrItsName(t *testing.T) {
	for _, tt := range []struct{ line, provider, key string }{
		{"sk-ant-abc", "anthropic", "sk-ant-abc"},
		{"sk-or-v1-abc", "openrouter", "sk-or-v1-abc"},
		{"sk-proj-abc", "openai", "sk-proj-abc"},
		{"DeepSeek  sk-abc", "deepseek", "sk-abc"},
		{"moonshot sk-abc", "moonshot", "sk-abc"},
		{"hello", "", "hello"},
	} {
		provider, key := recognise(tt.line)
		if provider != tt.provider || key != tt.key {
			t.Errorf("recognise(%q) = %q, %q", tt.line, provider, key)
		}
	}
}

// Ctrl+C ends the context; the line that nobody types must not hold it up.
func TestAnInterruptEndsAQuestionOfSetup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nextLine(ctx, make(chan string)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
