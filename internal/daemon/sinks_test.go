package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/permission"
)

const hush = "key-canary-41f0c9d2b7a6"

func vault() secrets {
	s := secrets{Vault: &permission.Vault{}}
	s.Add("providers.x.api_key", hush)
	s.broker = permission.NewBroker(s.Vault)
	return s
}

type talkative struct{ Key string }

func (talkative) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", hush)) }

func TestTheLogHoldsNoSecretHoweverItIsWritten(t *testing.T) {
	var out bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		log := redacted(slog.New(handler), vault().Mask)
		log.Info("the key is "+hush, "text", hush, "err", fmt.Errorf("ask: %w", errors.New("refused "+hush)), "list", []string{"a", hush},
			"struct", struct{ Key string }{hush}, "bytes", []byte("plain"), "header", http.Header{"Authorization": {"Bearer " + hush}}, "n", 7)
		log.With("with", hush).WithGroup("g").Warn("again", slog.Group("deep", "deeper", hush), "value", talkative{})
	}
	text := out.String()
	if strings.Contains(text, hush) || strings.Contains(text, "canary") {
		t.Errorf("the log holds the secret:\n%s", text)
	}
	for _, want := range []string{"n=7", `"n":7`, "deeper", "inner", "[secret providers.x.api_key]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
}

func TestAnAnswerOfTheAPIHoldsNoSecret(t *testing.T) {
	for kind, want := range map[string]bool{"application/json": false, "text/event-stream": false, "application/problem+json": false, "": false, "image/png": true} {
		w := httptest.NewRecorder()
		s := &screened{ResponseWriter: w, hide: vault().Hide}
		if kind != "" {
			s.Header().Set("Content-Type", kind)
		}
		s.Header().Set("Content-Length", "1000")
		if _, err := io.WriteString(s, `{"detail":"`+hush+`"}`); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(w.Body.String(), hush); got != want {
			t.Errorf("%q: %s", kind, w.Body)
		}
		if !want && w.Header().Get("Content-Length") != "" {
			t.Errorf("%q: a length that no longer holds", kind)
		}
	}
}

// parrot repeats what it is asked in pieces, and then fails with it.
type parrot struct{ asked llm.Request }

func (p *parrot) Stream(_ context.Context, req llm.Request, show func(llm.Event)) (llm.Response, error) {
	p.asked = req
	for _, c := range "I know " + hush + "." {
		show(llm.Event{Kind: llm.TextDelta, Text: string(c)})
	}
	show(llm.Event{Kind: llm.ToolStart, ID: "1", Name: "run"})
	for _, c := range `{"command":"` + hush + `"}` {
		show(llm.Event{Kind: llm.ToolDelta, ID: "1", Text: string(c)})
	}
	return llm.Response{Parts: []llm.Part{{Kind: llm.Text, Text: "I know " + hush}, {Kind: llm.ToolCall, ID: "1", Name: "run", Args: []byte(`{"command":"` + hush + `"}`)}}},
		&llm.Error{Class: llm.Auth, Message: "no " + hush, Raw: hush, Err: errors.New(hush)}
}

func TestAModelIsToldNoSecretAndTellsNone(t *testing.T) {
	p := &parrot{}
	var shown strings.Builder
	messages := []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "my key: " + hush}}}}
	res, err := screen{p, vault()}.Stream(t.Context(), llm.Request{System: []string{hush}, Tail: hush, Messages: messages}, func(ev llm.Event) {
		shown.WriteString(ev.Text)
	})
	for what, v := range map[string]any{"request": p.asked, "stream": shown.String(), "answer": res, "error": err} {
		if text := fmt.Sprintf("%+v %s", v, v); strings.Contains(text, hush) || strings.Contains(text, "canary") {
			t.Errorf("the %s holds the secret: %s", what, text)
		}
	}
	if llm.ClassOf(err) != llm.Auth {
		t.Errorf("the class is lost: %v", err)
	}
	if messages[0].Parts[0].Text != "my key: "+hush {
		t.Error("the caller's own request was changed")
	}
	var e *llm.Error
	if errors.As(err, &e); strings.Contains(e.Raw+e.Message, hush) || strings.Contains(e.Err.Error(), hush) {
		t.Errorf("%+v", e)
	}
}
