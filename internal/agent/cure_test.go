package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestEachFailureHasItsCure(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	a := New(nil, Options{Now: func() time.Time { return now }})
	of := func(c llm.Class, after time.Duration) error {
		return fmt.Errorf("step: %w", &llm.Error{Class: c, Provider: "one", RetryAfter: after, Message: "words of theirs"})
	}
	since := func(ago time.Duration) error {
		return &failure{err: of(llm.Unavailable, 0), since: now.Add(-ago), callID: "wanted-1"}
	}
	chat, helper := mercury.Run{Lane: mercury.Chat}, mercury.Run{Lane: mercury.Helper}
	for _, tt := range []struct {
		name  string
		run   mercury.Run
		err   error
		do    engine.Remedy
		after time.Duration
		told  bool
		asks  bool
	}{
		{"first outage in a chat", chat, since(0), engine.Requeue, firstWait, true, false},
		{"an outage of twenty minutes", chat, since(20 * time.Minute), engine.Requeue, 10 * time.Minute, true, false},
		{"an outage of two hours", chat, since(2 * time.Hour), engine.Requeue, longestWait, true, false},
		{"an outage of six hours", chat, since(6 * time.Hour), engine.Requeue, 0, false, true},
		{"a provider that names a longer wait", chat, &failure{err: of(llm.RateLimit, time.Hour), since: now}, engine.Requeue, time.Hour, true, false},
		{"an outage for a helper", helper, since(0), engine.Retry, 0, false, false},
		{"the third outage for a helper", mercury.Run{Lane: mercury.Helper, Attempts: 2}, since(0), engine.Dead, 0, false, false},
		{"a refused key", chat, of(llm.Auth, 0), engine.Dead, 0, false, false},
		{"a quota without an end", chat, of(llm.Quota, 0), engine.Dead, 0, false, false},
		{"a quota that comes back", chat, of(llm.Quota, time.Hour), engine.Requeue, time.Hour, true, false},
		{"a request that is wrong", chat, of(llm.BadRequest, 0), engine.Dead, 0, false, false},
		{"a surprise", chat, errors.New("boom"), engine.Retry, 0, false, false},
		{"the third surprise", mercury.Run{Attempts: 2}, errors.New("boom"), engine.Dead, 0, false, false},
		{"a missing configuration", chat, &mercury.Error{Kind: mercury.Setup, Err: errors.New("no model")}, engine.Dead, 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := a.Cure(tt.run, tt.err)
			if c.Do != tt.do || c.After != tt.after || (c.Notice != "") != tt.told || (c.Ask != nil) != tt.asks {
				t.Errorf("cure is %+v", c)
			}
			if c.Code == "" {
				t.Error("no code")
			}
		})
	}
}

func TestARefusalIsToldInTheProvidersOwnWordsWithItsRemedy(t *testing.T) {
	a := New(nil, Options{})
	for _, tt := range []struct {
		class llm.Class
		want  string
	}{
		{llm.Auth, "key"},
		{llm.Quota, "top it up"},
		{llm.UnknownModel, "mercury config set model"},
		{llm.ContextLength, "window"},
		{llm.BadRequest, "/new"},
	} {
		err := &llm.Error{Class: tt.class, Provider: "one", Message: "no such luck"}
		got := a.Failure(mercury.Run{}, "provider_"+string(tt.class), err)
		for _, want := range []string{tt.want, "no such luck", "[reason: provider_" + string(tt.class) + "]"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", tt.class, got, want)
			}
		}
	}
	got := a.Failure(mercury.Run{}, "setup", &mercury.Error{Kind: mercury.Setup, Help: "Run mercury setup.", Err: errors.New("no model")})
	if !strings.Contains(got, "Run mercury setup.") {
		t.Errorf("the remedy is missing: %q", got)
	}
}
