package move

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Variables under which the three agents keep keys that Mercury knows by the
// same name, or by the one behind it.
var variables = map[string]string{
	"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GEMINI_API_KEY": "", "GOOGLE_API_KEY": "GEMINI_API_KEY", "DEEPSEEK_API_KEY": "",
	"OPENROUTER_API_KEY": "", "XAI_API_KEY": "", "GROK_API_KEY": "XAI_API_KEY", "MISTRAL_API_KEY": "", "GROQ_API_KEY": "", "ZAI_API_KEY": "",
	"GLM_API_KEY": "ZAI_API_KEY", "Z_AI_API_KEY": "ZAI_API_KEY", "MINIMAX_API_KEY": "", "MOONSHOT_API_KEY": "", "KIMI_API_KEY": "MOONSHOT_API_KEY",
	"MIMO_API_KEY": "", "CEREBRAS_API_KEY": "", "TOGETHER_API_KEY": "", "FIREWORKS_API_KEY": "", "AIML_API_KEY": "",
	"OLLAMA_API_KEY": "", "OLLAMA_CLOUD_API_KEY": "OLLAMA_API_KEY",
	"TELEGRAM_BOT_TOKEN": "", "DISCORD_BOT_TOKEN": "", "SLACK_BOT_TOKEN": "", "SLACK_APP_TOKEN": "",
	"GITHUB_TOKEN": "", "SPOTIFY_CLIENT_SECRET": "", "BRAVE_API_KEY": "BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY": "BRAVE_API_KEY", "TAVILY_API_KEY": "",
}

// usualVariable reports whether Mercury looks for a key under this name by
// itself.
func usualVariable(name string) bool {
	to, known := variables[name]
	return known && to == ""
}

// variableOf is the variable of a provider's key.
func variableOf(provider string) string {
	name := strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, provider)) + "_API_KEY"
	if to := variables[name]; to != "" {
		return to
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// secretsOf takes those of the variables that Mercury has a use for.
func secretsOf(env map[string]string, p *Parcel, from string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		to, known := variables[name]
		if !known || env[name] == "" {
			continue
		}
		if to == "" {
			to = name
		}
		p.Secrets = append(p.Secrets, Secret{to, env[name], from})
		switch to {
		case "TELEGRAM_BOT_TOKEN":
			p.Settings = append(p.Settings, Setting{Key: "channels.telegram.token", Value: "${TELEGRAM_BOT_TOKEN}", From: from, Needs: "TELEGRAM_BOT_TOKEN"})
		case "BRAVE_API_KEY", "TAVILY_API_KEY":
			service := strings.ToLower(strings.TrimSuffix(to, "_API_KEY"))
			p.Settings = append(p.Settings, Setting{Key: "web_search.provider", Value: service, From: from, Needs: to}, Setting{Key: "web_search.key", Value: "${" + to + "}", From: from, Needs: to})
		}
	}
}

// channelSecret takes a channel's token.
func channelSecret(p *Parcel, channel, key, value, from string) {
	variable := strings.ToUpper(channel) + "_BOT_TOKEN"
	setting := "channels." + channel + "." + key
	switch {
	case key == "app_token":
		variable = strings.ToUpper(channel) + "_APP_TOKEN"
	case channel != "slack":
		setting = "channels." + channel + ".token"
	}
	p.Secrets = append(p.Secrets, Secret{variable, value, from})
	p.Settings = append(p.Settings, Setting{Key: setting, Value: "${" + variable + "}", From: from, Needs: variable})
}

// knownChannel reports whether Mercury has settings for a channel.
func knownChannel(name string) bool {
	return name == "telegram" || name == "discord" || name == "slack" || name == "imessage"
}

// masked writes a foreign configuration without what may be a secret in it.
func masked(v any) []byte {
	text, err := json.MarshalIndent(maskValue(v, false), "", "  ")
	if err != nil {
		return nil
	}
	return append(text, '\n')
}

func maskValue(v any, secret bool) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range x {
			out[k] = maskValue(inner, secret || telling(k))
		}
		return out
	case map[any]any: // as YAML gives it
		out := map[string]any{}
		for k, inner := range x {
			if name, ok := k.(string); ok {
				out[name] = maskValue(inner, secret || telling(name))
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, inner := range x {
			out[i] = maskValue(inner, secret)
		}
		return out
	case string:
		if secret && x != "" && !strings.HasPrefix(x, "${") || looksLikeKey(x) {
			return "********"
		}
	}
	return v
}

// telling reports whether what stands below a name is a secret.
func telling(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	for _, word := range []string{"token", "apikey", "secret", "password", "passwd", "authorization", "cookie", "credential", "privatekey"} {
		if strings.Contains(name, word) && !strings.HasSuffix(name, "tokens") && name != "dailytokenbudget" {
			return true
		}
	}
	return name == "key" || name == "env" || name == "headers"
}

// looksLikeKey reports whether a text is one long word of letters and digits.
func looksLikeKey(s string) bool {
	digits, letters := 0, 0
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		case r == '-' || r == '_' || r == ':' || r == '.':
		default:
			return false
		}
	}
	return len(s) >= 24 && digits >= 4 && letters >= 8
}
