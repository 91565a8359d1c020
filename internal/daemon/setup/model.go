package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// model asks for a model until one answers.
func (w *wizard) model(ctx context.Context) error {
	for {
		again, err := w.modelOnce(ctx)
		if !again {
			return err
		}
	}
}

// choice is one line of the list of models.
type choice struct{ model, from string }

// choices are the model that answers now, and those that could without more
// ado.
func (w *wizard) choices(ctx context.Context) []choice {
	var list []choice
	if w.c.Model != "" && w.c.Configured() == nil {
		if e, err := w.c.Explain("model"); err == nil && e.Origin.Source == config.FromFile {
			list = append(list, choice{w.c.Model, "answers now"})
		}
	}
	for _, f := range config.Discover(ctx, w.o.Source) {
		from := f.Provider.Title + " on this machine"
		if f.Key.Name != "" {
			from = "key in " + f.Key.Name
		}
		if len(list) == 0 || list[0].model != f.Model {
			list = append(list, choice{f.Model, from})
		}
	}
	return list
}

// modelOnce looks for models and asks which shall answer. It reports whether
// to look again.
func (w *wizard) modelOnce(ctx context.Context) (again bool, err error) {
	list := w.choices(ctx)
	w.say("Which model should answer?")
	for i, c := range list {
		w.say(fmt.Sprintf("  %d  %s (%s)", i+1, c.model, c.from))
	}
	prompt := "Number, provider/model, or paste a key [1]:"
	if len(list) == 0 {
		w.say("No key in the environment and no model server on this machine was found. Paste a provider's key, or start a server such as Ollama and press Enter.")
		prompt = "Key (Enter looks again, q leaves):"
	}
	for {
		line, err := w.ask(ctx, prompt, tui.Careful)
		if err != nil {
			return false, err
		}
		if line == "" && len(list) == 0 {
			return true, nil
		}
		if line == "" {
			line = "1"
		}
		if err = w.answerModel(ctx, list, line); err == nil {
			return false, nil
		}
		if errors.Is(err, ErrLeft) || errors.Is(err, tui.ErrInterrupted) || ctx.Err() != nil {
			return false, err
		}
		w.complain(err)
	}
}

// answerModel takes a number of the list, a provider/model, or a key.
func (w *wizard) answerModel(ctx context.Context, list []choice, line string) error {
	if n, err := strconv.Atoi(line); err == nil && n < 100 {
		if n < 1 || n > len(list) {
			return fmt.Errorf("there is no number %d here", n)
		}
		return w.chooseModel(ctx, list[n-1].model)
	}
	if provider, _, ok := config.SplitModel(line); ok && !strings.Contains(line, " ") && w.knows(provider) {
		return w.chooseModel(ctx, line)
	}
	provider, key := Recognise(line)
	if provider == "" && len(key) >= shortestKey && !strings.Contains(key, " ") {
		w.say("That looks like a key, but keys of several providers look so.")
		name, err := w.ask(ctx, "Whose is it? A name such as openai, deepseek or mistral:", tui.Open)
		if err != nil {
			return err
		}
		provider = strings.ToLower(name)
	}
	return w.tryKey(ctx, provider, key)
}

func (w *wizard) knows(provider string) bool {
	_, configured := w.c.Providers[provider]
	return configured || slices.ContainsFunc(config.KnownProviders(), func(k config.Known) bool { return k.Name == provider })
}

func (w *wizard) chooseModel(ctx context.Context, model string) error {
	if err := w.try(ctx, w.o.Source, model); err != nil {
		return err
	}
	return w.keep(config.Setting{Key: "model", Value: model})
}

// tryKey tries a key at its provider alone and keeps it when it is good.
func (w *wizard) tryKey(ctx context.Context, provider, key string) error {
	at := slices.IndexFunc(config.KnownProviders(), func(k config.Known) bool { return k.Name == provider && len(k.Env) > 0 })
	if at < 0 || key == "" {
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("that is no number of the list, no provider/model and no key that is recognised"),
			Help: "Write the provider's name before its key, such as: deepseek sk-…. For a provider that is not known here add it below providers in " + w.o.Source.Home.Config() + "."}
	}
	known := config.KnownProviders()[at]
	if strings.ContainsAny(key, " \t") {
		return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("a key has no blanks in it"), Help: "Copy the key alone."}
	}
	name, settings := w.variable(known, key)
	src := w.o.Source
	src.Getenv = func(n string) string {
		if n == name {
			return key
		}
		return w.environment(n)
	}
	src.Flags = map[string]string{}
	maps.Copy(src.Flags, w.o.Source.Flags)
	for _, s := range settings {
		src.Flags[s.Key] = s.Value
	}
	model := known.Name + "/" + known.Model
	if err := w.try(ctx, src, model); err != nil {
		return fmt.Errorf("%w\nThe key was not kept", err)
	}
	if err := config.SetVariable(w.o.Source.Home, name, key); err != nil {
		return err
	}
	return w.keep(append(settings, config.Setting{Key: "model", Value: model})...)
}

// variable is the name under which a key is kept, with what mercury.yaml must
// say so that it is used. It is the provider's usual one, unless that has
// another value in the process's environment, which would win.
func (w *wizard) variable(known config.Known, key string) (string, []config.Setting) {
	name := known.Env[0]
	setting := "providers." + known.Name + ".api_key"
	if set := w.environment(name); set != "" && set != key {
		name = "MY_" + name
		return name, []config.Setting{{Key: setting, Value: "${" + name + "}"}}
	}
	if e, err := w.c.Explain(setting); err == nil && e.Origin.Source == config.FromFile {
		return name, []config.Setting{{Key: setting, Value: "${" + name + "}"}}
	}
	return name, nil
}

const shortestKey = 20 // characters; no provider has shorter ones

// shapes are how keys of providers begin, the longer prefix first. Those that
// several providers share are left out: a key is sent to nobody on a guess.
// They are as the providers print them: Anthropic "sk-ant-", OpenRouter
// "sk-or-", OpenAI "sk-proj-", "sk-svcacct-" and "sk-admin-", Groq "gsk_", xAI
// "xai-", Google "AIza" and "AQ.", Cerebras "csk-", Fireworks "fw_", Together
// "tgp_v1_".
var shapes = []struct{ prefix, provider string }{
	{"sk-ant-", "anthropic"}, {"sk-or-", "openrouter"}, {"sk-proj-", "openai"}, {"sk-svcacct-", "openai"},
	{"gsk_", "groq"}, {"xai-", "xai"}, {"AIza", "gemini"}, {"AQ.", "gemini"}, {"csk-", "cerebras"},
	{"fw_", "fireworks"}, {"tgp_v1_", "together"},
}

// byForm tells keys by their whole form: DeepSeek's are "sk-" and 32 hex
// digits, Z.ai's 32 hex digits, a dot and 16 characters.
func byForm(key string) string {
	if digits, ok := strings.CutPrefix(key, "sk-"); ok && isHex(digits, 32) {
		return "deepseek"
	}
	if id, secret, ok := strings.Cut(key, "."); ok && isHex(id, 32) && len(secret) == 16 {
		return "zai"
	}
	return ""
}

func isHex(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdef") == ""
}

// Recognise returns the provider and the key of a pasted line: the key alone,
// or behind the provider's name where keys of several look alike. The provider
// is empty when the key does not tell.
func Recognise(line string) (provider, key string) {
	line = strings.TrimSpace(line)
	if name, rest, two := strings.Cut(line, " "); two {
		return strings.ToLower(strings.TrimRight(name, ":=")), strings.TrimSpace(rest)
	}
	// As it stands in an .env file: the name tells more than the form.
	if name, rest, found := strings.Cut(strings.TrimPrefix(line, "export "), "="); found {
		for _, k := range config.KnownProviders() {
			if slices.Contains(k.Env, name) {
				return k.Name, strings.Trim(rest, `"'`)
			}
		}
	}
	for _, s := range shapes {
		if strings.HasPrefix(line, s.prefix) {
			return s.provider, line
		}
	}
	return byForm(line), line
}
