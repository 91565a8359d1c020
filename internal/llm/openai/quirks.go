package openai

import (
	"net/url"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
)

// Quirks is what sets a provider apart from OpenAI's own Chat Completions.
// The zero value is a plain, unknown, compatible server.
type Quirks struct {
	Name    string
	Aliases []string // other names in a configuration
	Hosts   []string // a host, or the end of one after a dot; with a port it must match whole
	BaseURL string   // used when the configuration names none
	Keyless bool     // works without a key

	Path      string // default /chat/completions; {model} is replaced
	KeyHeader string // default Authorization: Bearer

	MaxField        string // default max_tokens
	NoStreamOptions bool   // refuses stream_options; usage comes by itself
	CacheKey        bool   // takes prompt_cache_key
	CacheControl    string // models with this prefix take cache_control marks
	Effort          Effort
	Replay          Replay
	NeedsReplay     bool   // refuses calls without the field of Replay; an empty one will do
	ShortIDs        bool   // call ids are nine letters or digits
	Bridge          bool   // wants an assistant message between a tool's and a user's
	RequiredWord    string // for tool_choice "required"
	ThinkTags       bool   // may think inside <think> tags in its text
	Cumulative      bool   // each delta repeats what came before it
	Extra           string // JSON members added to each request, with a leading comma

	Codes map[string]llm.Class // its own error codes
}

// Effort says how a provider is told to think more or less.
type Effort string

const (
	EffortNone     Effort = ""         // not at all
	EffortField    Effort = "field"    // "reasoning_effort": "low"
	EffortObject   Effort = "object"   // "reasoning": {"effort": "low"}
	EffortThinking Effort = "thinking" // "thinking": {"type": "enabled"}
)

// Replay says in which field a model's earlier reasoning is sent back to it.
type Replay string

const (
	ReplayNone    Replay = ""
	ReplayContent Replay = "reasoning_content"
	ReplayText    Replay = "reasoning"
	ReplayDetails Replay = "reasoning_details"
)

// Providers returns the table of those we know. Each row has a recorded
// answer under testdata/NAME.
func Providers() []Quirks {
	return []Quirks{
		{
			Name: "openai", Hosts: []string{"api.openai.com"}, BaseURL: "https://api.openai.com/v1",
			MaxField: "max_completion_tokens", CacheKey: true, Effort: EffortField,
		},
		{
			Name: "azure", Hosts: []string{"openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"},
			Path: "/openai/deployments/{model}/chat/completions?api-version=2024-10-21", KeyHeader: "Api-Key",
			MaxField: "max_completion_tokens", Effort: EffortField,
		},
		{
			Name: "deepseek", Hosts: []string{"api.deepseek.com"}, BaseURL: "https://api.deepseek.com/v1",
			Effort: EffortThinking, Replay: ReplayContent, NeedsReplay: true,
		},
		{
			Name: "groq", Hosts: []string{"api.groq.com"}, BaseURL: "https://api.groq.com/openai/v1",
			MaxField: "max_completion_tokens", Effort: EffortField, Replay: ReplayText,
		},
		{
			Name: "openrouter", Hosts: []string{"openrouter.ai"}, BaseURL: "https://openrouter.ai/api/v1",
			Effort: EffortObject, Replay: ReplayDetails, CacheControl: "anthropic/", Extra: `,"usage":{"include":true}`,
		},
		{
			Name: "xai", Aliases: []string{"grok"}, Hosts: []string{"api.x.ai"}, BaseURL: "https://api.x.ai/v1",
			Effort: EffortField, Replay: ReplayContent,
		},
		{
			Name: "mistral", Hosts: []string{"api.mistral.ai"}, BaseURL: "https://api.mistral.ai/v1",
			NoStreamOptions: true, ShortIDs: true, Bridge: true, RequiredWord: "any",
		},
		{
			Name: "together", Hosts: []string{"api.together.xyz", "api.together.ai"}, BaseURL: "https://api.together.xyz/v1",
			Effort: EffortField, ThinkTags: true,
		},
		{
			Name: "zai", Aliases: []string{"z.ai", "glm"}, Hosts: []string{"api.z.ai", "open.bigmodel.cn"}, BaseURL: "https://api.z.ai/api/paas/v4",
			Effort: EffortThinking, Replay: ReplayContent,
			Codes: map[string]llm.Class{
				"1000": llm.Auth, "1001": llm.Auth, "1002": llm.Auth, "1003": llm.Auth, "1004": llm.Auth,
				"1112": llm.Auth, "1113": llm.Quota, "1211": llm.UnknownModel, "1261": llm.ContextLength,
				"1301": llm.ContentFiltered, "1302": llm.RateLimit, "1303": llm.RateLimit, "1304": llm.Quota,
				"1305": llm.RateLimit, "1308": llm.Quota, "1309": llm.Quota, "1230": llm.Unavailable, "1234": llm.Unavailable,
			},
		},
		{
			Name: "minimax", Hosts: []string{"api.minimax.io", "api.minimaxi.com", "api.minimax.chat"}, BaseURL: "https://api.minimax.io/v1",
			Replay: ReplayDetails, ThinkTags: true, Cumulative: true, Extra: `,"reasoning_split":true`,
			Codes: map[string]llm.Class{
				"1000": llm.Unavailable, "1001": llm.Unavailable, "1002": llm.RateLimit, "1004": llm.Auth, "1008": llm.Quota,
				"1013": llm.Unavailable, "1024": llm.Unavailable, "1026": llm.ContentFiltered, "1027": llm.ContentFiltered,
				"1033": llm.Unavailable, "1039": llm.ContextLength, "2013": llm.BadRequest, "2049": llm.Auth, "2056": llm.Quota,
			},
		},
		{
			Name: "gemini", Aliases: []string{"google"}, Hosts: []string{"generativelanguage.googleapis.com"},
			BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", Effort: EffortField,
		},
		{
			Name: "ollama", Hosts: []string{"localhost:11434", "127.0.0.1:11434", "ollama.com"}, BaseURL: "http://127.0.0.1:11434/v1",
			Keyless: true, Replay: ReplayText, ThinkTags: true,
		},
		{
			Name: "lmstudio", Aliases: []string{"lm-studio"}, Hosts: []string{"localhost:1234", "127.0.0.1:1234"}, BaseURL: "http://127.0.0.1:1234/v1",
			Keyless: true, ThinkTags: true,
		},
		{
			Name: "litellm", Hosts: []string{"localhost:4000", "127.0.0.1:4000"}, BaseURL: "http://127.0.0.1:4000/v1",
			Keyless: true, Effort: EffortField, Replay: ReplayContent,
		},
		{
			Name: "atomic", Aliases: []string{"atomic-chat", "atomicchat"}, Hosts: []string{"localhost:1337", "127.0.0.1:1337"}, BaseURL: "http://127.0.0.1:1337/v1",
			Keyless: true, ThinkTags: true,
		},
	}
}

// Lookup finds the quirks of a provider: by the host of its base URL, which
// cannot be mistaken, then by its configured name. Any other is plain.
func Lookup(name, baseURL string) Quirks {
	all := Providers()
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		for _, q := range all {
			for _, h := range q.Hosts {
				if u.Host == h || u.Hostname() == h || strings.HasSuffix(u.Hostname(), "."+h) {
					return q
				}
			}
		}
	}
	name = strings.ToLower(name)
	for _, q := range all {
		if q.Name == name {
			return q
		}
		for _, a := range q.Aliases {
			if a == name {
				return q
			}
		}
	}
	return Quirks{Name: name, ThinkTags: true}
}

// endpoint returns the URL to ask model at.
func (q Quirks) endpoint(base, model string) string {
	base = strings.TrimRight(base, "/")
	path := q.Path
	switch {
	case strings.HasSuffix(base, "/chat/completions"):
		return base
	case path == "", strings.HasSuffix(base, "/openai/v1"): // Azure's newer address is a plain one
		return base + "/chat/completions"
	case strings.Contains(base, "/openai/deployments/"):
		_, query, _ := strings.Cut(path, "?")
		return base + "/chat/completions?" + query
	}
	return base + strings.ReplaceAll(path, "{model}", url.PathEscape(model))
}
