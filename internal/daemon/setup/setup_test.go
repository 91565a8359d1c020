package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

func TestAKeyTellsItsProviderOrIsNotGuessed(t *testing.T) {
	for _, tt := range []struct{ line, provider, key string }{
		{"sk-ant-abc", "anthropic", "sk-ant-abc"},
		{"sk-or-v1-abc", "openrouter", "sk-or-v1-abc"},
		{"sk-proj-abc", "openai", "sk-proj-abc"},
		{"gsk_abc", "groq", "gsk_abc"},
		{"xai-abc", "xai", "xai-abc"},
		{"AIzaabc", "gemini", "AIzaabc"},
		{"sk-0123456789abcdef0123456789abcdef", "deepseek", "sk-0123456789abcdef0123456789abcdef"},
		{"0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp", "zai", "0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp"},
		{"sk-AbCdEf1234567890", "", "sk-AbCdEf1234567890"}, // OpenAI's old form, Moonshot's, and others'
		{"DeepSeek  sk-abc", "deepseek", "sk-abc"},
		{"moonshot: sk-abc", "moonshot", "sk-abc"},
		{`MISTRAL_API_KEY="abc"`, "mistral", "abc"},
		{"hello", "", "hello"},
	} {
		provider, key := Recognise(tt.line)
		if provider != tt.provider || key != tt.key {
			t.Errorf("Recognise(%q) = %q, %q", tt.line, provider, key)
		}
	}
}

func TestAZoneIsFoundByItsNameACityOrTheTimeThere(t *testing.T) {
	winter := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"Europe/Lisbon", []string{"Europe/Lisbon"}},
		{"lisbon", []string{"Europe/Lisbon"}},
		{"new york", []string{"America/New_York"}},
		{"buenos aires", []string{"America/Buenos_Aires"}},
		{"tokyo", []string{"Asia/Tokyo"}},
		{"21:00", []string{"Asia/Tokyo", "Asia/Seoul"}},
		{"17:46", []string{"Asia/Kathmandu"}},
		{"nowhere", nil},
		{"../etc/passwd", nil},
		{"", nil},
	} {
		if got := Zones(tt.text, winter); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Zones(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestTheSummaryIsChangedByWords(t *testing.T) {
	got, err := Changes("name=Nova, budget=500,000,workspace = ~/my, work")
	want := []config.Setting{{Key: "name", Value: "Nova"}, {Key: "budget.daily_tokens", Value: "500000"}, {Key: "workspace", Value: "~/my, work"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Changes("colour=red"); mercury.KindOf(err) != mercury.Invalid {
		t.Errorf("an unknown word: %v", err)
	}
}

// person answers questions in turn and remembers what was asked with which
// veil.
type person struct {
	t       *testing.T
	answers []string
	veils   []tui.Veil
	asked   []string
}

func (p *person) ask(_ context.Context, question string, veil tui.Veil) (string, error) {
	p.asked, p.veils = append(p.asked, question), append(p.veils, veil)
	if len(p.answers) == 0 {
		return "", io.EOF
	}
	line := p.answers[0]
	p.answers = p.answers[1:]
	return line, nil
}

// start returns a new home whose model is scripted, and its options.
func start(t *testing.T, p *person) (Options, *bytes.Buffer) {
	t.Helper()
	model := llmtest.Start(t, llmtest.Script{Default: "ok"})
	home, err := config.HomeAt(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MERCURY_DISCOVER": "off", "OPENAI_API_KEY": "sk-proj-secretsecretsecret", "OPENAI_BASE_URL": model.URL + "/v1"}
	var out bytes.Buffer
	return Options{Source: config.Source{Home: home, Getenv: func(n string) string { return env[n] }}, Ask: p.ask, Out: &out}, &out
}

const token = "123456789:AAExampleExampleExampleExample"

// botAPI answers getMe as Telegram does, for one token.
func botAPI(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet || r.URL.Path != "/bot"+token+"/getMe" {
			w.WriteHeader(http.StatusUnauthorized)
			json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": 401, "description": "Unauthorized"})
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": map[string]any{"id": 123456789, "is_bot": true, "first_name": "N", "username": "nova_bot"}})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestATelegramTokenIsCheckedAndAskedAgainInPlace(t *testing.T) {
	p := &person{t: t, answers: []string{"1", "nonsense", "123:wrong", token, "", "", ""}}
	o, out := start(t, p)
	o.Telegram = true
	if err := o.Source.Home.Create(); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Set(config.Source{Home: o.Source.Home, Getenv: o.Source.Getenv}, "channels.telegram.api_url", botAPI(t)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"that is no bot token", "words of Telegram: Unauthorized", "It is @nova_bot"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it never said %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), token) || strings.Contains(strings.Join(p.asked, ""), token) || p.veils[1] != tui.Hidden {
		t.Error("the token was shown")
	}
	yaml, _ := os.ReadFile(o.Source.Home.Config())
	env, _ := os.ReadFile(o.Source.Home.Env())
	if !strings.Contains(string(yaml), `token: "${TELEGRAM_BOT_TOKEN}"`) || !strings.Contains(string(env), token) {
		t.Errorf("kept\n%s\n%s", yaml, env)
	}
}

func TestAQuestionNobodyAnswersKeepsWhatWasAnswered(t *testing.T) {
	p := &person{t: t, answers: []string{"1"}}
	o, _ := start(t, p)
	if err := Run(t.Context(), o); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "is kept") {
		t.Fatalf("got %v", err)
	}
	if !Begun(o.Source.Home) {
		t.Fatal("the set-up forgot that it was begun")
	}
	p.answers, p.asked = []string{"", ""}, nil
	if err := Run(t.Context(), o); err != nil || len(p.asked) != 2 || Begun(o.Source.Home) {
		t.Errorf("going on asked %q: %v", p.asked, err)
	}
}

// login is a stand-in for the services of an operating system.
type login struct{ installed int }

func (l *login) Installed(context.Context) (bool, error) { return l.installed > 0, nil }
func (l *login) Install(context.Context) error           { l.installed++; return nil }

func TestStartingAtLoginKeepsTheKeyThatAServiceWouldNotSee(t *testing.T) {
	p := &person{t: t, answers: []string{"1", "", "", "y"}}
	o, out := start(t, p)
	l := &login{}
	o.Login = l
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	env, _ := os.ReadFile(o.Source.Home.Env())
	if l.installed != 1 || !strings.Contains(string(env), "OPENAI_API_KEY=sk-proj-secretsecretsecret") || strings.Contains(out.String(), "sk-proj-secret") {
		t.Errorf("installed %d times; .env %q\n%s", l.installed, env, out)
	}
	p.answers, p.asked = []string{"", "", ""}, nil
	if err := Run(t.Context(), o); err != nil || len(p.asked) != 3 {
		t.Errorf("a second set-up asked %q: %v", p.asked, err)
	}
}

func TestAKeyThatTheEnvironmentWouldHideIsKeptUnderAnotherName(t *testing.T) {
	p := &person{t: t, answers: []string{"openai sk-proj-anotheranotheranother", "", ""}}
	o, out := start(t, p)
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := config.Load(o.Source)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := c.Providers["openai"].APIKey.Value(); key != "sk-proj-anotheranotheranother" || err != nil {
		t.Errorf("the key in use is not the one that was pasted: %v", err)
	}
}

func TestASetUpWithoutQuestionsMayBeRepeated(t *testing.T) {
	o, _ := start(t, &person{t: t})
	a := Answers{Timezone: "lisbon", Name: "Nova", Budget: "500000"}
	if err := Quiet(t.Context(), o, a); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(o.Source.Home.Config())
	if err := Quiet(t.Context(), o, a); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(o.Source.Home.Config()); !bytes.Equal(first, second) {
		t.Errorf("before\n%s\nafter\n%s", first, second)
	}
	for _, want := range []string{"model: openai/gpt-5-mini", "timezone: Europe/Lisbon", "name: Nova"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("lacks %q:\n%s", want, first)
		}
	}
	if err := Quiet(t.Context(), o, Answers{Timezone: "nowhere"}); mercury.KindOf(err) != mercury.Invalid {
		t.Errorf("a zone that is none: %v", err)
	}
}

func TestATimeOfDayIsConfirmedByAPlace(t *testing.T) {
	there := func(zone string) string {
		z, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return time.Now().In(z).Format("15:04")
	}
	for _, tt := range []struct {
		answers []string
		want    string
	}{
		{[]string{"1", there("Asia/Tokyo"), "", ""}, "Asia/Tokyo"},
		{[]string{"1", there("Asia/Tokyo"), "seoul", ""}, "Asia/Seoul"},
		{[]string{"1", "n", "nowhere", "kathmandu", ""}, "Asia/Kathmandu"},
	} {
		p := &person{t: t, answers: tt.answers}
		o, out := start(t, p)
		if err := Run(t.Context(), o); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if c, err := config.Load(o.Source); err != nil || c.Timezone != tt.want {
			t.Errorf("%q: zone %q, %v", tt.answers, c.Timezone, err)
		}
	}
}
