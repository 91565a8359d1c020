package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// ErrNotConfigured says that there is no model to ask.
var ErrNotConfigured = errors.New("no model is configured")

// Known is a provider that needs no more than its key. An entry of the same
// name in mercury.yaml starts from it.
type Known struct {
	Name    string   // what stands before the slash in model
	Title   string   // what people call it
	API     string   // openai or anthropic
	BaseURL string   //
	Env     []string // variables that may hold the key, the usual one first; none: keyless
	BaseEnv string   // variable that may hold another address
	Model   string   // asked when none is named; empty: the first that its list has
}

// KnownProviders lists them in the order in which they are chosen when several
// keys are found and no model is named.
func KnownProviders() []Known {
	return []Known{
		{"anthropic", "Anthropic", "anthropic", "https://api.anthropic.com", []string{"ANTHROPIC_API_KEY"}, "ANTHROPIC_BASE_URL", "claude-sonnet-5"},
		{"openai", "OpenAI", "openai", "https://api.openai.com/v1", []string{"OPENAI_API_KEY"}, "OPENAI_BASE_URL", "gpt-5-mini"},
		{"gemini", "Google Gemini", "openai", "https://generativelanguage.googleapis.com/v1beta/openai", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "", "gemini-2.5-flash"},
		{"deepseek", "DeepSeek", "openai", "https://api.deepseek.com/v1", []string{"DEEPSEEK_API_KEY"}, "DEEPSEEK_BASE_URL", "deepseek-chat"},
		{"openrouter", "OpenRouter", "openai", "https://openrouter.ai/api/v1", []string{"OPENROUTER_API_KEY"}, "", "openrouter/auto"},
		{"xai", "xAI Grok", "openai", "https://api.x.ai/v1", []string{"XAI_API_KEY", "GROK_API_KEY"}, "", "grok-4"},
		{"mistral", "Mistral", "openai", "https://api.mistral.ai/v1", []string{"MISTRAL_API_KEY"}, "", "mistral-medium-latest"},
		{"groq", "Groq", "openai", "https://api.groq.com/openai/v1", []string{"GROQ_API_KEY"}, "", "openai/gpt-oss-120b"},
		{"zai", "Z.ai GLM", "openai", "https://api.z.ai/api/paas/v4", []string{"ZAI_API_KEY", "GLM_API_KEY"}, "", "glm-4.6"},
		{"minimax", "MiniMax", "openai", "https://api.minimax.io/v1", []string{"MINIMAX_API_KEY"}, "", "MiniMax-M2"},
		{"moonshot", "Moonshot Kimi", "openai", "https://api.moonshot.ai/v1", []string{"MOONSHOT_API_KEY"}, "", "kimi-k2-0905-preview"},
		{"mimo", "Xiaomi MiMo", "openai", "https://api.xiaomimimo.com/v1", []string{"MIMO_API_KEY"}, "MIMO_BASE_URL", "mimo-v2.5-pro"},
		{"cerebras", "Cerebras", "openai", "https://api.cerebras.ai/v1", []string{"CEREBRAS_API_KEY"}, "", "gpt-oss-120b"},
		{"together", "Together", "openai", "https://api.together.xyz/v1", []string{"TOGETHER_API_KEY"}, "", "openai/gpt-oss-120b"},
		{"fireworks", "Fireworks", "openai", "https://api.fireworks.ai/inference/v1", []string{"FIREWORKS_API_KEY"}, "", "accounts/fireworks/models/gpt-oss-120b"},
		{"aiml", "AI/ML API", "openai", "https://api.aimlapi.com/v1", []string{"AIML_API_KEY", "AIMLAPI_API_KEY"}, "", "openai/gpt-5-mini"},
		{"ollama-cloud", "Ollama Cloud", "openai", "https://ollama.com/v1", []string{"OLLAMA_API_KEY", "OLLAMA_CLOUD_API_KEY"}, "", "gpt-oss:120b"},
		{"ollama", "Ollama", "openai", "http://127.0.0.1:11434/v1", nil, "", ""},
		{"lmstudio", "LM Studio", "openai", "http://127.0.0.1:1234/v1", nil, "", ""},
		{"litellm", "LiteLLM", "openai", "http://127.0.0.1:4000/v1", nil, "", ""},
		{"atomic", "Atomic Chat", "openai", "http://127.0.0.1:1337/v1", nil, "", ""},
	}
}

func knownProvider(name string) (Known, bool) {
	for _, k := range KnownProviders() {
		if k.Name == name {
			return k, true
		}
	}
	return Known{}, false
}

// SplitModel cuts "provider/model" at its first slash; the model may hold more.
func SplitModel(s string) (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(s, "/")
	return provider, model, ok && provider != "" && model != ""
}

// fillProviders completes the written providers from the known ones, adds
// those whose key is in the environment and those that a model names, and
// chooses a model where none is written. A key in the file is never replaced:
// it says by its ${NAME} which variable it wants.
func (c *Config) fillProviders(env *environment) {
	if c.Providers == nil {
		c.Providers = map[string]Provider{}
	}
	wanted := map[string]bool{}
	for _, m := range append([]string{c.Model}, c.Fallbacks...) {
		if name, _, ok := SplitModel(m); ok {
			wanted[name] = true
		}
	}
	chosen := ""
	for _, k := range KnownProviders() {
		p, written := c.Providers[k.Name]
		key, origin, found := k.key(env)
		if !p.APIKey.IsSet() && found {
			p.APIKey = Secret{raw: "${" + origin.Name + "}", value: key, key: joinKey([]string{"providers", k.Name, "api_key"})}
			c.origins["providers."+k.Name+".api_key"] = origin
		}
		if !written && !found && !wanted[k.Name] {
			continue
		}
		if p.BaseURL == "" && k.BaseEnv != "" {
			if base, origin, ok := env.lookup(k.BaseEnv); ok {
				p.BaseURL = base
				c.origins["providers."+k.Name+".base_url"] = origin
			}
		}
		p.API = cmp.Or(p.API, k.API)
		p.BaseURL = cmp.Or(p.BaseURL, k.BaseURL)
		c.Providers[k.Name] = p
		if _, err := p.APIKey.Value(); chosen == "" && p.APIKey.IsSet() && err == nil && k.Model != "" {
			chosen = k.Name + "/" + k.Model
		}
	}
	for name, p := range c.Providers {
		if p.API == "" {
			p.API = "openai"
			c.Providers[name] = p
		}
	}
	if c.Model == "" && chosen != "" {
		c.Model = chosen
		c.origins["model"] = Origin{Source: Discovered}
	}
}

// key returns the first of the provider's variables that is set.
func (k Known) key(env *environment) (string, Origin, bool) {
	for _, name := range k.Env {
		if v, origin, ok := env.lookup(name); ok {
			return v, origin, true
		}
	}
	return "", Origin{}, false
}

// keyless is the ErrNotConfigured of a model whose provider has no key.
type keyless struct{ model, provider string }

func (e *keyless) Error() string        { return "model " + e.model + ": " + e.provider + " has no key" }
func (e *keyless) Is(target error) bool { return target == ErrNotConfigured }

// Configured returns nil when there is a model to ask and what its provider
// needs is there. Otherwise it returns a Setup error whose help says exactly
// what to do; without any model it is ErrNotConfigured.
func (c *Config) Configured() error {
	if c.Model == "" {
		return &mercury.Error{
			Kind: mercury.Setup,
			Help: "Run `mercury setup`; or set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY; or start Ollama; or write `model: provider/model` in " + c.home.Config() + ".",
			Err:  ErrNotConfigured,
		}
	}
	name, _, _ := SplitModel(c.Model)
	p := c.Providers[name]
	if _, err := p.APIKey.Value(); err != nil {
		return err
	}
	k, known := knownProvider(name)
	if known && len(k.Env) > 0 && !p.APIKey.IsSet() && p.BaseURL == k.BaseURL {
		return &mercury.Error{
			Kind: mercury.Setup,
			Help: fmt.Sprintf("Set %s in the environment or in %s, or run `mercury setup`.", k.Env[0], c.home.Env()),
			Err:  &keyless{model: c.Model, provider: k.Title},
		}
	}
	return nil
}

// providerNames lists what may stand before the slash in model.
func (c *Config) providerNames() []string {
	names := slices.Sorted(maps.Keys(c.Providers))
	for _, k := range KnownProviders() {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}
