package config

import (
	"os"
	"path/filepath"
	"testing"
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
