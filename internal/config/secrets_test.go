package config

import (
	"os"
	"testing"
)

func TestEverySecretOfTheConfigurationAndTheHomeIsNamed(t *testing.T) {
	home, err := HomeAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		home.Env(): "API_KEY=from-dotenv-1\nNOT_REFERRED=from-dotenv-2\nMERCURY_LOG=debug\n",
		home.Config(): `model: a/b
providers:
  a: { api_key: "${API_KEY}", base_url: "http://127.0.0.1:1/v1", headers: { X-Extra: "Bearer header-3" } }
database: { url: "postgres://ann:word-4@127.0.0.1/db" }
channels:
  relay: { url: "http://127.0.0.1:2", token: relay-5 }
mcp: { servers: { x: { command: [x], env: { K: mcp-6 } } } }
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(Source{Home: home, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for name, value := range c.Secrets() {
		have[value] = name
	}
	for _, want := range []string{"from-dotenv-1", "from-dotenv-2", "Bearer header-3", "header-3", "postgres://ann:word-4@127.0.0.1/db", "word-4", "relay-5", "mcp-6"} {
		if have[want] == "" {
			t.Errorf("%q is not among the secrets: %v", want, have)
		}
	}
	if name := have["debug"]; name != "" {
		t.Errorf("the log level counts as the secret %s", name)
	}
}
