package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
)

func TestAKeyInTheConfigurationIsLeftOutOfABackup(t *testing.T) {
	home, err := config.HomeAt(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const text = `model: far/one
providers:
  far: { api: openai, base_url: "http://127.0.0.1:9/v1", api_key: "sk-canary-0123456789" }
  local: { api: openai, base_url: "http://127.0.0.1:9/v1", api_key: "ollama" }
`
	for name, b := range map[string]string{home.Config(): text, home.Env(): "OTHER_KEY=env-canary-0123456789\n"} {
		if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Source{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	clean := cleaner(c, newSecrets(c, "token-canary-0123456789"))
	b, out := clean("mercury.yaml", []byte(text))
	if strings.Contains(string(b), "canary") || len(out) != 1 || !strings.Contains(out[0], "providers.far.api_key") {
		t.Errorf("%q, left out %q", b, out)
	}
	if !strings.Contains(string(b), `"ollama"`) {
		t.Errorf("a key that is an ordinary word is gone: %q", b)
	}
	if err := os.WriteFile(home.Config(), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Source{Home: home}); err != nil {
		t.Errorf("what is left does not load: %v", err)
	}
	for _, name := range []string{"soul/soul.md", "skills/a/SKILL.md", "bots/ann/bot.yaml"} {
		b, out := clean(name, []byte("use env-canary-0123456789 and token-canary-0123456789"))
		if strings.Contains(string(b), "canary") || len(out) == 0 {
			t.Errorf("%s: %q, left out %q", name, b, out)
		}
	}
	if b, out := clean("soul/soul.md", []byte("I am calm.")); string(b) != "I am calm." || out != nil {
		t.Errorf("%q, left out %q", b, out)
	}
}
