package move

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// tsConfig is what of the TypeScript Mercury's mercury.yaml has a place here.
type tsConfig struct {
	Identity struct {
		Name  string `yaml:"name"`
		Owner string `yaml:"owner"`
	} `yaml:"identity"`
	Providers map[string]any `yaml:"providers"` // "default", and providers by name
	Channels  struct {
		Telegram struct {
			BotToken       string     `yaml:"botToken"`
			AllowedChatIDs []any      `yaml:"allowedChatIds"`
			Admins         []tsPerson `yaml:"admins"`
			Members        []tsPerson `yaml:"members"`
		} `yaml:"telegram"`
	} `yaml:"channels"`
	GitHub struct {
		DefaultOwner string `yaml:"defaultOwner"`
		DefaultRepo  string `yaml:"defaultRepo"`
	} `yaml:"github"`
	Heartbeat struct {
		IntervalMinutes int `yaml:"intervalMinutes"`
	} `yaml:"heartbeat"`
	Tokens struct {
		DailyBudget int64 `yaml:"dailyBudget"`
	} `yaml:"tokens"`
	Spotify struct {
		ClientID     string `yaml:"clientId"`
		ClientSecret string `yaml:"clientSecret"`
	} `yaml:"spotify"`
}

type tsPerson struct {
	UserID    any    `yaml:"userId"`
	Username  string `yaml:"username"`
	FirstName string `yaml:"firstName"`
}

// readMercury reads a home of the TypeScript Mercury.
func readMercury(h *home, p *Parcel) error {
	const from = "mercury.yaml"
	var c tsConfig
	var whole map[string]any
	if h.yaml(from, &whole) {
		h.yaml(from, &c)
		p.Kept = append(p.Kept, File{Path: "mercury.json", From: from, Why: "the whole configuration, without secrets, to look things up in", Text: masked(whole)})
	}
	env := h.env(".env")
	set := func(key, value string) {
		if value != "" && value != "0" {
			p.Settings = append(p.Settings, Setting{Key: key, Value: value, From: from})
		}
	}
	set("name", cmp.Or(c.Identity.Name, env["MERCURY_NAME"]))
	set("owner", cmp.Or(c.Identity.Owner, env["MERCURY_OWNER"]))
	set("budget.daily_tokens", fmt.Sprint(c.Tokens.DailyBudget))
	if n := c.Heartbeat.IntervalMinutes; n > 0 {
		set("heartbeat.every", fmt.Sprintf("%dm", n))
	}
	set("spotify.client_id", c.Spotify.ClientID)
	tsProviders(c, env, p)
	if token := c.Channels.Telegram.BotToken; token != "" {
		channelSecret(p, "telegram", "bot_token", token, from)
	}
	if s := c.Spotify.ClientSecret; s != "" {
		p.Secrets = append(p.Secrets, Secret{"SPOTIFY_CLIENT_SECRET", s, from})
	}
	secretsOf(env, p, ".env")
	tsPeople(c, p)
	for _, name := range []string{"soul.md", "persona.md", "taste.md", "heartbeat.md"} {
		h.soul(p, "soul/"+name, name)
	}
	for _, dir := range h.glob("skills/*") {
		h.skill(p, dir)
	}
	tsSchedules(h, p)
	tsMemories(h, p)
	tsTalks(h, p)
	h.keep(p, "permissions.yaml", "what ran unasked there asks here; `mercury permissions allow` and permissions.scopes let it")
	for _, pattern := range []string{"bots/*/bot.yaml", "bots/*/persona.md", "bots/*/permissions.yaml"} {
		for _, name := range h.glob(pattern) {
			h.keep(p, name, "a bot is not started by an import; move its folder into bots/ when you want it")
		}
	}
	return nil
}

// tsNames are its names for providers that are called otherwise here.
var tsNames = map[string]string{"ollamaCloud": "ollama-cloud", "ollamaLocal": "ollama", "grok": "xai", "glm": "zai", "lmStudio": "lmstudio", "atomicChat": "atomic", "openaiCompat": "custom", "mimoTokenPlan": "mimo"}

func tsProviders(c tsConfig, env map[string]string, p *Parcel) {
	const from = "mercury.yaml"
	first := cmp.Or(text(c.Providers["default"]), env["DEFAULT_PROVIDER"])
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		settings, ok := c.Providers[name].(map[string]any)
		if !ok {
			continue
		}
		ours := cmp.Or(tsNames[name], name)
		if key := text(settings["apiKey"]); key != "" {
			variable := variableOf(ours)
			p.Secrets = append(p.Secrets, Secret{variable, key, from})
			if !usualVariable(variable) {
				p.Settings = append(p.Settings, Setting{Key: fmt.Sprintf("providers.%q.api_key", ours), Value: "${" + variable + "}", From: from, Needs: variable})
			}
		}
		if base := text(settings["baseUrl"]); base != "" && ours == "custom" {
			p.Settings = append(p.Settings, Setting{Key: "providers.custom.base_url", Value: base, From: from}, Setting{Key: "providers.custom.api", Value: "openai", From: from})
		}
		if model := text(settings["model"]); name == first && model != "" {
			p.Settings = append(p.Settings, Setting{Key: "model", Value: ours + "/" + model, From: from})
		}
	}
}

// tsPeople reads who was approved. The first admin paired in the terminal and
// is the owner.
func tsPeople(c tsConfig, p *Parcel) {
	t := c.Channels.Telegram
	id := func(v any) string {
		switch x := v.(type) {
		case string:
			return x
		case uint64, int64, int:
			return fmt.Sprint(x)
		case float64:
			return fmt.Sprintf("%.0f", x)
		}
		return ""
	}
	add := func(who tsPerson, role mercury.Role) {
		if s := id(who.UserID); s != "" {
			p.People = append(p.People, Person{Channel: "telegram", ID: s, Name: cmp.Or(who.Username, who.FirstName), Role: role})
		}
	}
	for i, who := range t.Admins {
		role := mercury.Admin
		if i == 0 {
			role = mercury.Owner
		}
		add(who, role)
	}
	for _, who := range t.Members {
		add(who, mercury.Member)
	}
	for _, v := range t.AllowedChatIDs { // of older versions: private chats, whose ids are people's
		if s := id(v); s != "" && !strings.HasPrefix(s, "-") {
			p.People = append(p.People, Person{Channel: "telegram", ID: s, Role: mercury.Member})
		}
	}
}

// tsSchedules reads schedules.yaml: tasks with a cron expression, or with
// executeAt.
func tsSchedules(h *home, p *Parcel) {
	type task struct {
		ID          string `yaml:"id"`
		Cron        string `yaml:"cron"`
		Description string `yaml:"description"`
		Prompt      string `yaml:"prompt"`
		SkillName   string `yaml:"skillName"`
		Skill       string `yaml:"skill_name"`
		ExecuteAt   any    `yaml:"executeAt"`
	}
	var store struct {
		Tasks     []task `yaml:"tasks"`
		Schedules []task `yaml:"schedules"`
	}
	const name = "schedules.yaml"
	if !h.yaml(name, &store) {
		return
	}
	for _, t := range append(store.Tasks, store.Schedules...) {
		s := Schedule{Name: cmp.Or(t.Description, t.ID), Cron: t.Cron, Prompt: t.Prompt, Skill: cmp.Or(t.SkillName, t.Skill), From: name}
		if s.Prompt == "" && s.Skill == "" {
			s.Prompt = t.Description
		}
		if raw, err := json.Marshal(t.ExecuteAt); err == nil && t.Cron == "" {
			s.At = when(raw)
		}
		p.schedule(h, s)
	}
}

// tsMemories reads the second brain, and the facts of installations that had
// none.
func tsMemories(h *home, p *Parcel) {
	const brain = "memory/second-brain/second-brain.db"
	h.database(brain, func(db *sql.DB) error {
		return rows(db, mercuryMemories, func(r *sql.Rows) error {
			m := Memory{From: brain}
			var at float64
			err := r.Scan(&m.Type, &m.Summary, &m.Detail, &m.Confidence, &m.Importance, &m.Durability, &m.Evidence, &at)
			m.At = millis(at)
			p.Memories = append(p.Memories, m)
			return err
		})
	})
	const facts = "memory/long-term/facts.jsonl"
	h.lines(facts, func(line []byte) {
		var f struct {
			Timestamp float64 `json:"timestamp"`
			Topic     string  `json:"topic"`
			Fact      string  `json:"fact"`
		}
		if json.Unmarshal(line, &f) == nil && f.Fact != "" {
			m := Memory{Type: "decision", Summary: f.Fact, At: millis(f.Timestamp), From: facts, Confidence: 0.7, Importance: 0.6, Durability: 0.7}
			if f.Topic != "" {
				m.Summary = f.Topic + ": " + f.Fact
			}
			if full := m.Summary; len(full) > maxSummary {
				m.Summary, m.Detail = cut(full, maxSummary-3), full
			}
			p.Memories = append(p.Memories, m)
		}
	})
}

// tsTalks reads what it kept of its talks, the last messages of each channel,
// and its list of events.
func tsTalks(h *home, p *Parcel) {
	for _, name := range h.glob("memory/short-term/*.json") {
		var messages []struct {
			Timestamp float64 `json:"timestamp"`
			Role      string  `json:"role"`
			Content   string  `json:"content"`
		}
		if !h.json(name, false, &messages) {
			continue
		}
		id := strings.TrimSuffix(path.Base(name), ".json")
		c := Conversation{ID: conversationID("mercury1", id), Title: "TypeScript Mercury: " + id}
		for _, m := range messages {
			c.add(m.Role, "", quoted(m.Content), millis(m.Timestamp))
		}
		p.converse(c)
	}
	events := Conversation{ID: conversationID("mercury1", "events"), Title: "TypeScript Mercury: what happened"}
	h.lines("memory/episodic/events.jsonl", func(line []byte) {
		var e struct {
			Timestamp float64 `json:"timestamp"`
			Type      string  `json:"type"`
			Summary   string  `json:"summary"`
		}
		if json.Unmarshal(line, &e) == nil {
			events.note(e.Type+": "+e.Summary, millis(e.Timestamp))
		}
	})
	slices.SortStableFunc(events.Entries, func(a, b Entry) int { return time.Time.Compare(a.At, b.At) })
	p.converse(events)
}

func quoted(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}
