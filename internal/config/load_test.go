package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// homeWith returns a home in a temporary folder with these files in it.
func homeWith(t *testing.T, files map[string]string) Home {
	t.Helper()
	h, err := HomeAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(h.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// variables is an environment for tests.
func variables(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

const example = `# yaml-language-server: $schema=./mercury.schema.json
name: Mercury
owner: ""                           # what it calls you
timezone: ""                         # empty: the machine's
model: local/qwen3:8b               # provider/model
fallbacks: [anthropic/claude-sonnet-5]
providers:
  local:     { api: openai, base_url: "http://127.0.0.1:11434/v1" }
  anthropic: { api: anthropic, api_key: "${ANTHROPIC_API_KEY}" }
database: { url: "" }               # postgres://… ; empty: SQLite in the home
web:      { listen: "127.0.0.1:6174" }
workspace: ~/mercury                # where relative paths of tools begin
permissions: { mode: guided, scopes: [{ path: ~/mercury, read: true, write: true }] }   # ask | guided | allow-all
budget:   { daily_tokens: 1_000_000 }
channels:
  telegram: { token: "${TELEGRAM_BOT_TOKEN}", api_url: "https://api.telegram.org" }
`

func TestTheExampleLoads(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": example, ".env": "TELEGRAM_BOT_TOKEN='123:abc'\n"})
	c, err := Load(Source{Home: h, Getenv: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Budget.DailyTokens != 1_000_000 || c.Model != "local/qwen3:8b" || c.Channels.Discord != nil {
		t.Errorf("%+v", c)
	}
	if token, err := c.Channels.Telegram.Token.Value(); token != "123:abc" || err != nil {
		t.Errorf("the bot's token is %q, %v", token, err)
	}
	if err := c.Configured(); err != nil {
		t.Errorf("the local model needs no key: %v", err)
	}
	if _, err := c.Providers["anthropic"].APIKey.Value(); err == nil {
		t.Error("a missing variable was not reported when its value was asked for")
	}
}

func TestLaterLayersWinAndEveryValueKnowsItsOrigin(t *testing.T) {
	h := homeWith(t, map[string]string{
		"mercury.yaml": "owner: Ada\nweb:\n  listen: \"127.0.0.1:1\"\nlog: { level: warn }\nproviders:\n  mine: { base_url: \"http://${HOST}/v1\", api_key: \"${MY_KEY}\" }\n  openai: { api_key: literal }\n",
		".env":         "# keys\nMY_KEY=from-dotenv\nHOST=wrong\nGROQ_API_KEY=g\nMERCURY_LOG=error\n",
	})
	c, err := Load(Source{
		Home:   h,
		Getenv: variables(map[string]string{"HOST": "right", "MERCURY_LISTEN": "127.0.0.1:2", "OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": ""}),
		Flags:  map[string]string{"web.listen": "127.0.0.1:3", "limits.turn.steps": "7", "fallbacks": "[mine/a, groq/b]", "channels.telegram.token": "t"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ key, value, origin string }{
		{"name", "Mercury", "default"},
		{"owner", "Ada", h.Config() + ":1"},
		{"web.listen", "127.0.0.1:3", "flag for web.listen"},
		{"log.level", "error", "environment MERCURY_LOG (" + h.Env() + ":5)"},
		{"limits.turn.steps", "7", "flag for limits.turn.steps"},
		{"limits.turn.minutes", "20", "default"},
		{"fallbacks.1", "groq/b", "flag for fallbacks"},
		{"fallbacks", `["mine/a","groq/b"]`, "flag for fallbacks"},
		{"providers.mine.base_url", "http://right/v1", h.Config() + ":6"},
		{"providers.mine.api_key", Masked, h.Config() + ":6"},
		{"providers.openai.api_key", Masked, h.Config() + ":7"},
		{"providers.openai.base_url", "https://api.openai.com/v1", "default"},
		{"providers.groq.api_key", Masked, "environment GROQ_API_KEY (" + h.Env() + ":4)"},
		{"channels.telegram.token", Masked, "flag for channels.telegram.token"},
		{"channels.telegram.api_url", "https://api.telegram.org", "default"},
		{"model", "openai/gpt-5-mini", "discovered"},
		{"backup.every", "24h", "default"},
		{"http.header_timeout", "3m", "default"},
	} {
		e, err := c.Explain(tt.key)
		if err != nil || e.Value != tt.value || e.Origin.String() != tt.origin {
			t.Errorf("explain %s: %q from %s, %v; want %q from %s", tt.key, e.Value, e.Origin, err, tt.value, tt.origin)
		}
		if e.Description == "" {
			t.Errorf("%s has no description", tt.key)
		}
	}
	if key, _ := c.Providers["openai"].APIKey.Value(); key != "literal" {
		t.Error("the environment replaced a key that the file gives")
	}
	if e, _ := c.Explain("providers.mine.api_key"); e.Written != "${MY_KEY}" {
		t.Errorf("the reference is shown as %q", e.Written)
	}
	for _, key := range c.Keys() {
		if _, err := c.Explain(key); err != nil {
			t.Errorf("a listed key cannot be explained: %v", err)
		}
	}
}

func TestAnUnknownKeyIsNotFoundWithASuggestion(t *testing.T) {
	c, err := Load(Source{Home: homeWith(t, nil), Getenv: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for key, help := range map[string]string{
		"web.lissten": "listen", "zebra": "Keys here", "web.listen.port": "nothing below", "providers.nobody": "valid key", "fallbacks.7": "valid key", "..": "", `a."b`: "",
	} {
		if _, err := c.Get(key); err == nil || !strings.Contains(mercury.HelpOf(err), help) {
			t.Errorf("get %s: %v, help %q, want one with %q", key, err, mercury.HelpOf(err), help)
		}
	}
}

func TestWrongValuesOfTheEnvironmentAndFlagsNameTheirPlace(t *testing.T) {
	for _, tt := range []struct {
		name       string
		env, flags map[string]string
		want       string
	}{
		{"a level", map[string]string{"MERCURY_LOG": "loud"}, nil, "environment MERCURY_LOG: log.level should be one of"},
		{"an address", map[string]string{"MERCURY_LISTEN": "here"}, nil, "environment MERCURY_LISTEN: web.listen should be host:port"},
		{"a flag's key", nil, map[string]string{"web.lisen": "x"}, "flag for web.lisen: unknown key"},
		{"a flag's type", nil, map[string]string{"limits.turn.steps": "many"}, "flag for limits.turn.steps: limits.turn.steps should be a whole number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Source{Home: homeWith(t, nil), Getenv: variables(tt.env), Flags: tt.flags})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(err.Error(), tt.want) != 1 {
				t.Errorf("got %v, want one problem with %q", err, tt.want)
			}
		})
	}
}

func TestWithoutAModelTheHelpSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name, text, help string
		env              map[string]string
		isMissing        bool
	}{
		{"no key at all", "", "mercury setup", nil, true},
		{"a model without its key", "model: openai/gpt-5", "OPENAI_API_KEY", nil, true},
		{"a reference to a missing variable", "model: m/x\nproviders: {m: {base_url: http://a, api_key: \"${M_KEY}\"}}", "M_KEY", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(Source{Home: homeWith(t, map[string]string{"mercury.yaml": tt.text}), Getenv: variables(tt.env)})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Configured()
			if mercury.KindOf(err) != mercury.Setup || !strings.Contains(mercury.HelpOf(err), tt.help) || errors.Is(err, ErrNotConfigured) != tt.isMissing {
				t.Errorf("got %v, help %q", err, mercury.HelpOf(err))
			}
		})
	}
	for _, env := range []map[string]string{{"DEEPSEEK_API_KEY": "k"}, {"ANTHROPIC_API_KEY": "k"}, {"XAI_API_KEY": "k"}} {
		c, err := Load(Source{Home: homeWith(t, nil), Getenv: variables(env)})
		if err != nil || c.Configured() != nil {
			t.Errorf("with %v: %v", env, err)
		}
	}
}

func TestASecretPrintsItselfNowhere(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": "providers: {openai: {api_key: " + canary + ", headers: {X: " + canary + "}}}\ngithub: {token: \"a${K}\"}\n"})
	c, err := Load(Source{Home: h, Getenv: variables(map[string]string{"K": canary})})
	if err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "config", c.Providers, "key", c.GitHub.Token)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", c.Providers, "key", c.GitHub.Token)
	p := c.Providers["openai"]
	for _, s := range []string{string(j), b.String(), fmt.Sprint(p), fmt.Sprintf("%+v", p), fmt.Sprintf("%#v", p), fmt.Sprintf("%v %+v %#v %s", p.APIKey, p.APIKey, p.APIKey, p.APIKey), fmt.Sprintf("%q %x", p.APIKey, p.APIKey)} {
		if strings.Contains(s, canary) {
			t.Errorf("the secret is in %s", s)
		}
	}
	for _, key := range c.Keys() {
		if e, _ := c.Explain(key); strings.Contains(fmt.Sprintf("%+v", e), canary) {
			t.Errorf("explain %s shows it", key)
		}
	}
	if v, err := p.APIKey.Value(); v != canary || err != nil {
		t.Error("the value is lost")
	}
}

func TestOnAndYesAreTextsAndNullsAreDefaults(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": "name: on\nowner: yes\nworkspace: null\nweb:\nchannels: { telegram: { token: 123, owners: [42, 007, 1.50] } }\n"})
	c, err := Load(Source{Home: h, Getenv: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "on" || c.Owner != "yes" || c.Workspace != "~/mercury" || c.Web.Listen != "127.0.0.1:6174" {
		t.Errorf("%q %q %q %q", c.Name, c.Owner, c.Workspace, c.Web.Listen)
	}
	if got := c.Channels.Telegram.Owners; !slices.Equal(got, []string{"42", "007", "1.50"}) {
		t.Errorf("ids became %q", got)
	}
}

func TestMergeKeysAndAnchorsWork(t *testing.T) {
	h := homeWith(t, map[string]string{"mercury.yaml": "providers:\n  a: &a { base_url: http://a, max_output: 5 }\n  b: { <<: *a, base_url: http://b }\n"})
	c, err := Load(Source{Home: h, Getenv: variables(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if b := c.Providers["b"]; b.MaxOutput != 5 || b.BaseURL != "http://b" || b.API != "openai" {
		t.Errorf("%+v", b)
	}
}

func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	bomb := "fallbacks: &a [x/x, x/x, x/x, x/x, x/x, x/x, x/x, x/x, x/x, x/x]\n"
	var nested strings.Builder
	nested.WriteString("zebra:\n  a0: &a0 {k: v}\n")
	for i := range 200 {
		fmt.Fprintf(&nested, "  a%d: &a%d { <<: *a%d, k%d: *a%d }\n", i+1, i+1, i, i, i)
	}
	for name, text := range map[string]string{
		"brackets":         strings.Repeat("[", 200_000),
		"braces":           "name: " + strings.Repeat("{a: ", 50_000),
		"dashes":           strings.Repeat("- ", 100_000),
		"questions":        strings.Repeat("? ", 100_000),
		"a staircase":      stairs(700),
		"larger than 256K": "# " + strings.Repeat("x", 300<<10),
		"a self reference": "limits: &l\n  turn: *l\n",
		"chained anchors":  nested.String() + bomb,
		"zero bytes":       "name: \x00\x00",
		"not UTF-8":        "name: \xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			h := homeWith(t, map[string]string{"mercury.yaml": text})
			began := time.Now()
			_, err := Load(Source{Home: h, Getenv: variables(nil)})
			if err == nil || mercury.KindOf(err) != mercury.Setup {
				t.Errorf("got %v, want a Setup error", err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if err != nil && len(err.Error()) > 100<<10 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestChangedNamesWhatAReloadMustTouch(t *testing.T) {
	load := func(text string) *Config {
		c, err := Load(Source{Home: homeWith(t, map[string]string{"mercury.yaml": text}), Getenv: variables(nil)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := load("log: {level: info}\ngithub: {token: a}\nchannels: {relay: {url: http://a}}\n")
	after := load("log: {level: debug}\ngithub: {token: b}\n")
	want := []string{"github.token", "log.level", "channels.relay.members", "channels.relay.owners", "channels.relay.progress", "channels.relay.token", "channels.relay.url"}
	if got := Changed(before, after); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Changed(after, after); len(got) != 0 {
		t.Errorf("nothing changed, but got %v", got)
	}
}

// BenchmarkLoad is the cost of config check without the start of a process.
func BenchmarkLoad(b *testing.B) {
	h, _ := HomeAt(b.TempDir())
	if err := os.WriteFile(h.Config(), []byte(example), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Load(Source{Home: h, Getenv: variables(nil)}); err != nil {
			b.Fatal(err)
		}
	}
}
