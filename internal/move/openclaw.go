package move

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// openClaw is what of openclaw.json has a place here. It is described at
// docs.openclaw.ai under gateway/configuration; earlier names of the program
// were Clawdbot and Moltbot.
type openClaw struct {
	Agents struct {
		Defaults struct {
			Workspace    string          `json:"workspace"`
			Model        json.RawMessage `json:"model"` // a text, or {primary, fallbacks}
			UserTimezone string          `json:"userTimezone"`
		} `json:"defaults"`
	} `json:"agents"`
	Models struct {
		Providers map[string]struct {
			BaseURL string          `json:"baseUrl"`
			API     string          `json:"api"`
			APIKey  json.RawMessage `json:"apiKey"`
		} `json:"providers"`
	} `json:"models"`
	Channels map[string]openClawChannel `json:"channels"`
	Commands struct {
		OwnerAllowFrom []json.RawMessage `json:"ownerAllowFrom"`
	} `json:"commands"`
	Env map[string]json.RawMessage `json:"env"` // values, or "vars" with values
}

type openClawChannel struct {
	BotToken  json.RawMessage            `json:"botToken"`
	Token     json.RawMessage            `json:"token"`
	AppToken  json.RawMessage            `json:"appToken"`
	AllowFrom []json.RawMessage          `json:"allowFrom"`
	Accounts  map[string]openClawChannel `json:"accounts"`
}

func readOpenClaw(h *home, p *Parcel) error {
	var c openClaw
	file := ""
	for _, name := range []string{"openclaw.json", "clawdbot.json", "moltbot.json"} {
		if h.has(name) {
			file = name
			break
		}
	}
	var whole map[string]any
	if h.json(file, true, &whole) {
		h.json(file, true, &c)
		p.Kept = append(p.Kept, File{Path: file, From: file, Why: "the whole configuration, without secrets, to look things up in", Text: masked(whole)})
	}
	env := h.env(".env")
	for name, raw := range c.Env {
		var value string
		var vars map[string]string
		if json.Unmarshal(raw, &value) == nil {
			env[name] = cmp.Or(env[name], value)
		} else if name == "vars" && json.Unmarshal(raw, &vars) == nil {
			for n, v := range vars {
				env[n] = cmp.Or(env[n], v)
			}
		}
	}
	openClawModels(c, env, p, file)
	if zone := c.Agents.Defaults.UserTimezone; zone != "" {
		p.Settings = append(p.Settings, Setting{Key: "timezone", Value: zone, From: file})
	}
	openClawPeople(h, c, env, p)
	secretsOf(env, p, ".env")
	openClawWorkspace(h, c, p)
	openClawCron(h, p)
	for _, store := range h.glob("agents/*/sessions/sessions.json") {
		openClawSessions(h, p, path.Dir(store))
	}
	h.keep(p, "exec-approvals.json", "commands that ran unasked there ask here; `mercury permissions allow` lets one run")
	return nil
}

// openClawProviders are its names for providers that are called otherwise
// here.
var openClawProviders = map[string]string{"google": "gemini", "z.ai": "zai", "x-ai": "xai", "moonshotai": "moonshot", "kimi": "moonshot"}

func openClawModels(c openClaw, env map[string]string, p *Parcel, file string) {
	rename := func(model string) string {
		provider, rest, ok := strings.Cut(model, "/")
		if !ok {
			return ""
		}
		return cmp.Or(openClawProviders[provider], provider) + "/" + rest
	}
	var one string
	var several struct {
		Primary   string   `json:"primary"`
		Fallbacks []string `json:"fallbacks"`
	}
	if json.Unmarshal(c.Agents.Defaults.Model, &one) != nil {
		_ = json.Unmarshal(c.Agents.Defaults.Model, &several) // neither form: there is no model
		one = several.Primary
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models.Providers)) {
		provider := c.Models.Providers[name]
		name = cmp.Or(openClawProviders[name], name)
		if provider.BaseURL != "" {
			wire := "openai"
			if strings.HasPrefix(provider.API, "anthropic") {
				wire = "anthropic"
			}
			p.Settings = append(p.Settings, Setting{Key: fmt.Sprintf("providers.%q.base_url", name), Value: provider.BaseURL, From: file},
				Setting{Key: fmt.Sprintf("providers.%q.api", name), Value: wire, From: file})
		}
		if key := openClawSecret(provider.APIKey, env); key != "" {
			variable := variableOf(name)
			p.Secrets = append(p.Secrets, Secret{variable, key, file})
			if !usualVariable(variable) {
				p.Settings = append(p.Settings, Setting{Key: fmt.Sprintf("providers.%q.api_key", name), Value: "${" + variable + "}", From: file, Needs: variable})
			}
		}
	}
	if model := rename(one); model != "" {
		p.Settings = append(p.Settings, Setting{Key: "model", Value: model, From: file})
	}
	var fallbacks []string
	for _, m := range several.Fallbacks {
		if m = rename(m); m != "" {
			fallbacks = append(fallbacks, fmt.Sprintf("%q", m))
		}
	}
	if len(fallbacks) > 0 {
		p.Settings = append(p.Settings, Setting{Key: "fallbacks", Value: "[" + strings.Join(fallbacks, ", ") + "]", From: file})
	}
}

// openClawSecret reads a secret in its three forms: a text, a text "${NAME}",
// or {source: "env", id: "NAME"}. Those that a program or a file would give are
// not read.
func openClawSecret(raw json.RawMessage, env map[string]string) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if name, ok := strings.CutPrefix(text, "${"); ok {
			return env[strings.TrimSuffix(name, "}")]
		}
		return text
	}
	var ref struct {
		Source string `json:"source"`
		ID     string `json:"id"`
	}
	if json.Unmarshal(raw, &ref) == nil && ref.Source == "env" {
		return env[ref.ID]
	}
	return ""
}

// openClawPeople reads who may talk: the lists of the configuration, and those
// who paired, credentials/CHANNEL-ACCOUNT-allowFrom.json and, from older
// versions, credentials/CHANNEL-allowFrom.json.
func openClawPeople(h *home, c openClaw, env map[string]string, p *Parcel) {
	for _, raw := range c.Commands.OwnerAllowFrom {
		if channel, id, ok := strings.Cut(jsonID(raw), ":"); ok && knownChannel(channel) {
			p.People = append(p.People, Person{Channel: channel, ID: id, Role: mercury.Owner})
		}
	}
	add := func(channel string, ids []json.RawMessage) {
		for _, raw := range ids {
			id := strings.TrimPrefix(jsonID(raw), channel+":")
			if id != "" && id != "*" && !strings.Contains(id, ":") {
				p.People = append(p.People, Person{Channel: channel, ID: id, Role: mercury.Member})
			}
		}
	}
	for _, channel := range slices.Sorted(maps.Keys(c.Channels)) {
		settings := c.Channels[channel]
		if !knownChannel(channel) {
			p.Left = append(p.Left, "the channel "+channel+": Mercury does not talk there")
			continue
		}
		accounts := []openClawChannel{settings}
		for _, name := range slices.Sorted(maps.Keys(settings.Accounts)) {
			accounts = append(accounts, settings.Accounts[name])
		}
		for _, a := range accounts {
			add(channel, a.AllowFrom)
			for _, s := range []struct {
				raw json.RawMessage
				key string
			}{{cmpRaw(a.BotToken, a.Token), "bot_token"}, {a.AppToken, "app_token"}} {
				if value := openClawSecret(s.raw, env); value != "" {
					channelSecret(p, channel, s.key, value, "openclaw.json")
				}
			}
		}
	}
	for _, name := range h.glob("credentials/*allowFrom.json") {
		channel, _, _ := strings.Cut(path.Base(name), "-")
		var list struct {
			AllowFrom []json.RawMessage `json:"allowFrom"`
		}
		if knownChannel(channel) && h.json(name, false, &list) {
			add(channel, list.AllowFrom)
		}
	}
}

func cmpRaw(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// jsonID reads an id that may be a text or a number.
func jsonID(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strings.TrimSpace(text)
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// openClawWorkspace reads the files that make its agent who it is.
func openClawWorkspace(h *home, c openClaw, p *Parcel) {
	dir := ""
	for _, name := range []string{expand(c.Agents.Defaults.Workspace), "workspace", "workspace-main", "workspace.default"} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(h.at(name)); err == nil && info.IsDir() {
			dir = name
			break
		}
	}
	in := func(name string) string { return path.Join(filepath.ToSlash(dir), name) }
	if dir != "" {
		h.soul(p, in("SOUL.md"), "soul.md")
		h.soul(p, in("IDENTITY.md"), "persona.md")
		h.soul(p, in("HEARTBEAT.md"), "heartbeat.md")
		for _, f := range []struct{ name, kind string }{{"USER.md", "identity"}, {"MEMORY.md", "decision"}} {
			memoriesOf(p, f.kind, in(f.name), string(h.text(in(f.name))))
		}
		for _, name := range []string{"AGENTS.md", "TOOLS.md", "BOOTSTRAP.md"} {
			h.keep(p, in(name), "instructions for the other agent; take what you miss into soul/soul.md")
		}
		notes(h, p, in("memory/*.md"))
	}
	for _, pattern := range []string{in("skills/*"), "skills/*", in(".agents/skills/*")} {
		for _, skill := range h.glob(pattern) {
			h.skill(p, skill)
		}
	}
	for _, other := range h.glob("workspace-*") {
		if other != dir {
			p.Left = append(p.Left, other+": the workspace of another agent; name it with `workspace` in its own import")
		}
	}
}

// notes makes one talk of daily notes, so that they can be searched.
func notes(h *home, p *Parcel, pattern string) {
	c := Conversation{ID: conversationID(p.Source, "notes"), Title: "Daily notes from " + p.Source}
	for _, name := range h.glob(pattern) {
		text := strings.TrimSpace(string(h.text(name)))
		if text == "" {
			continue
		}
		day, err := time.Parse("2006-01-02", strings.TrimSuffix(path.Base(filepath.ToSlash(name)), ".md"))
		if err != nil {
			day = time.Time{}
		}
		c.Entries = append(c.Entries, Entry{mercury.NoteEntry, path.Base(filepath.ToSlash(name)) + "\n" + text, day})
	}
	if len(c.Entries) > 0 {
		p.Conversations = append(p.Conversations, c)
	}
}

// openClawCron reads cron/jobs.json: jobs with a schedule of kind at, every or
// cron and a payload of kind systemEvent or agentTurn.
func openClawCron(h *home, p *Parcel) {
	var store struct {
		Jobs []struct {
			Name     string `json:"name"`
			ID       string `json:"id"`
			Enabled  *bool  `json:"enabled"`
			Schedule struct {
				Kind    string  `json:"kind"`
				At      string  `json:"at"`
				AtMs    float64 `json:"atMs"` // of older versions
				EveryMs float64 `json:"everyMs"`
				Expr    string  `json:"expr"`
				TZ      string  `json:"tz"`
			} `json:"schedule"`
			Payload struct {
				Text    string `json:"text"`
				Message string `json:"message"`
			} `json:"payload"`
		} `json:"jobs"`
	}
	const name = "cron/jobs.json"
	if !h.json(name, false, &store) {
		return
	}
	for _, j := range store.Jobs {
		s := Schedule{Name: cmp.Or(j.Name, j.ID), Prompt: cmp.Or(j.Payload.Message, j.Payload.Text), Zone: j.Schedule.TZ,
			Disabled: j.Enabled != nil && !*j.Enabled, From: name}
		switch j.Schedule.Kind {
		case "cron":
			s.Cron = j.Schedule.Expr
		case "every":
			s.Every = time.Duration(j.Schedule.EveryMs) * time.Millisecond
		case "at":
			s.At = millis(j.Schedule.AtMs)
			if at, err := time.Parse(time.RFC3339, j.Schedule.At); err == nil {
				s.At = at
			} else if at, err := time.Parse("2006-01-02T15:04:05", j.Schedule.At); err == nil {
				s.At = at // without a zone it is UTC there
			}
		}
		p.schedule(h, s)
	}
}

// schedule adds one that can run.
func (p *Parcel) schedule(h *home, s Schedule) {
	if s.Cron == "" && s.Every <= 0 && s.At.IsZero() || s.Prompt == "" && s.Skill == "" {
		h.warn("the schedule %q in %s has no time or nothing to do, and stays behind", s.Name, s.From)
		return
	}
	if !s.At.IsZero() && s.At.Before(time.Now()) {
		p.Left = append(p.Left, fmt.Sprintf("the schedule %q: its time is over", s.Name))
		return
	}
	p.Schedules = append(p.Schedules, s)
}

// memoriesOf splits a text into memories.
func memoriesOf(p *Parcel, kind, from, text string) {
	for _, item := range bullets(text) {
		m := Memory{Type: kind, Summary: item, From: from, Confidence: 0.8, Importance: 0.7, Durability: 0.8}
		if len(item) > maxSummary {
			m.Summary, m.Detail = cut(item, maxSummary-3), item
		}
		p.Memories = append(p.Memories, m)
	}
}

const maxSummary = 220 // bytes; what a memory's summary may have

func expand(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if user, err := os.UserHomeDir(); err == nil {
			return filepath.Join(user, rest)
		}
	}
	return name
}
