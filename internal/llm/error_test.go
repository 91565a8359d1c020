package llm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAModelsErrorIsReadAsOneOfTheHouse(t *testing.T) {
	for _, tt := range []struct {
		class llm.Class
		kind  mercury.Kind
		helps bool
	}{
		{llm.RateLimit, mercury.Transient, false},
		{llm.StreamCut, mercury.Transient, false},
		{llm.Auth, mercury.Setup, true},
		{llm.Quota, mercury.Setup, true},
		{llm.ContextLength, mercury.Invalid, true},
		{llm.BadRequest, mercury.Invalid, false},
		{llm.ContentFiltered, mercury.Denied, true},
		{llm.Canceled, mercury.Unknown, false},
	} {
		err := fmt.Errorf("run step: %w", &llm.Error{Class: tt.class, Provider: "p", Model: "m", RetryAfter: time.Second, Message: "words"})
		if got := mercury.KindOf(err); got != tt.kind {
			t.Errorf("%s: kind %d, want %d", tt.class, got, tt.kind)
		}
		if got := mercury.HelpOf(err); (got != "") != tt.helps {
			t.Errorf("%s: help %q", tt.class, got)
		}
		var e *mercury.Error
		if !errors.As(err, &e) || e.After != time.Second || !strings.Contains(e.Error(), "words") {
			t.Errorf("%s: %+v", tt.class, e)
		}
	}
}
