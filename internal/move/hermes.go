package move

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// readHermes reads a home of Hermes Agent, as its user guide describes it under
// "configuration": config.yaml, .env, SOUL.md, memories/, skills/, cron/,
// state.db or, from older versions, sessions/, and the pairing of its gateway.
func readHermes(h *home, p *Parcel) error {
	var c map[string]any
	if h.yaml("config.yaml", &c) {
		hermesConfig(c, p)
		p.Kept = append(p.Kept, File{Path: "config.json", From: "config.yaml", Why: "the whole configuration, without secrets, to look things up in", Text: masked(c)})
	}
	env := h.env(".env")
	secretsOf(env, p, ".env")
	hermesPeople(h, env, p)
	h.soul(p, "SOUL.md", "soul.md")
	for _, f := range []struct{ name, kind string }{{"memories/USER.md", "identity"}, {"memories/MEMORY.md", "decision"}} {
		hermesMemories(p, f.kind, f.name, string(h.text(f.name)))
	}
	hermesSkills(h, p)
	hermesCron(h, p)
	hermesTalks(h, p)
	if profiles := h.glob("profiles/*"); len(profiles) > 0 {
		p.Left = append(p.Left, fmt.Sprintf("%d profiles under profiles/: each is a home of its own and is imported by its own path", len(profiles)))
	}
	return nil
}

// hermesConfig takes model (a text, or {default, provider, base_url}),
// fallback models and the zone.
func hermesConfig(c map[string]any, p *Parcel) {
	const from = "config.yaml"
	model, provider, base := "", "", ""
	switch m := c["model"].(type) {
	case string:
		model = m
	case map[string]any:
		model = cmp.Or(text(m["default"]), text(m["model"]), text(m["name"]))
		provider, base = text(m["provider"]), text(m["base_url"])
	}
	if provider == "" || provider == "auto" {
		// Without a provider Hermes asks OpenRouter, whose names have a slash.
		provider = "openrouter"
		if !strings.Contains(model, "/") {
			provider = ""
		}
	}
	if base != "" && (provider == "custom" || provider == "") {
		provider = "custom"
		p.Settings = append(p.Settings, Setting{Key: "providers.custom.base_url", Value: base, From: from}, Setting{Key: "providers.custom.api", Value: "openai", From: from})
	}
	provider = cmp.Or(openClawProviders[provider], provider)
	if model != "" && provider != "" {
		if provider != "openrouter" {
			model = strings.TrimPrefix(model, provider+"/")
		}
		p.Settings = append(p.Settings, Setting{Key: "model", Value: provider + "/" + model, From: from})
	}
	if zone := text(c["timezone"]); zone != "" {
		p.Settings = append(p.Settings, Setting{Key: "timezone", Value: zone, From: from})
	}
}

func text(v any) string {
	s, _ := v.(string)
	return strings.TrimSpace(s)
}

// hermesPeople reads the lists of .env and who paired. Where
// TELEGRAM_HOME_CHANNEL is a person's own chat, that person is the owner.
func hermesPeople(h *home, env map[string]string, p *Parcel) {
	for _, channel := range []string{"telegram", "discord", "slack"} {
		upper := strings.ToUpper(channel)
		ids := strings.FieldsFunc(env[upper+"_ALLOWED_USERS"], func(r rune) bool { return r == ',' || r == ' ' })
		names := map[string]string{}
		for _, dir := range []string{"pairing", "platforms/pairing"} {
			var approved map[string]struct {
				Name string `json:"user_name"`
			}
			if h.json(path.Join(dir, channel+"-approved.json"), false, &approved) {
				for id, who := range approved {
					ids, names[id] = append(ids, id), who.Name
				}
			}
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			role := mercury.Member
			if id == strings.TrimSpace(env[upper+"_HOME_CHANNEL"]) {
				role = mercury.Owner
			}
			if id != "*" {
				p.People = append(p.People, Person{Channel: channel, ID: id, Name: names[id], Role: role})
			}
		}
	}
}

// hermesMemories splits a memory file: entries stand between lines of §.
func hermesMemories(p *Parcel, kind, from, content string) {
	if !strings.Contains(content, "§") {
		memoriesOf(p, kind, from, content)
		return
	}
	for entry := range strings.SplitSeq(content, "§") {
		entry = strings.Join(strings.Fields(entry), " ")
		if len(entry) < 3 {
			continue
		}
		m := Memory{Type: kind, Summary: entry, From: from, Confidence: 0.8, Importance: 0.7, Durability: 0.8}
		if len(entry) > maxSummary {
			m.Summary, m.Detail = cut(entry, maxSummary-3), entry
		}
		p.Memories = append(p.Memories, m)
	}
}

// hermesSkills reads skills/NAME and skills/CATEGORY/NAME. Those that came with
// the program, named in skills/.bundled_manifest, stay behind.
func hermesSkills(h *home, p *Parcel) {
	bundled := map[string]bool{}
	for line := range strings.Lines(string(h.text("skills/.bundled_manifest"))) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		bundled[name] = name != ""
	}
	left := 0
	for _, pattern := range []string{"skills/*", "skills/*/*"} {
		for _, dir := range h.glob(pattern) {
			if strings.Contains(dir, "/.") || !h.has(path.Join(dir, "SKILL.md")) {
				continue
			}
			if bundled[path.Base(dir)] {
				left++
				continue
			}
			h.skill(p, dir)
		}
	}
	if left > 0 {
		p.Left = append(p.Left, fmt.Sprintf("skills that came with Hermes, %d in all", left))
	}
}

// hermesCron reads cron/jobs.json. A schedule is {kind: once, run_at}, {kind:
// interval, minutes} or {kind: cron, expr}.
func hermesCron(h *home, p *Parcel) {
	var store struct {
		Jobs []struct {
			ID       string   `json:"id"`
			Name     string   `json:"name"`
			Prompt   string   `json:"prompt"`
			Skill    string   `json:"skill"`
			Skills   []string `json:"skills"`
			Script   string   `json:"script"`
			Enabled  *bool    `json:"enabled"`
			Schedule struct {
				Kind    string          `json:"kind"`
				RunAt   json.RawMessage `json:"run_at"`
				Minutes float64         `json:"minutes"`
				Expr    string          `json:"expr"`
			} `json:"schedule"`
		} `json:"jobs"`
	}
	const name = "cron/jobs.json"
	if !h.json(name, false, &store) {
		return
	}
	for _, j := range store.Jobs {
		s := Schedule{Name: cmp.Or(j.Name, j.ID), Prompt: j.Prompt, Skill: j.Skill, Disabled: j.Enabled != nil && !*j.Enabled, From: name}
		if s.Skill == "" && len(j.Skills) > 0 {
			s.Skill = j.Skills[0]
		}
		if j.Script != "" {
			h.warn("the schedule %q ran the script %s first; the script stays behind", s.Name, j.Script)
		}
		switch j.Schedule.Kind {
		case "cron":
			s.Cron = j.Schedule.Expr
		case "interval":
			s.Every = time.Duration(j.Schedule.Minutes * float64(time.Minute))
		case "once":
			s.At = when(j.Schedule.RunAt)
		}
		p.schedule(h, s)
	}
}

// hermesTalks reads the talks of state.db, and those transcripts under
// sessions/ that are not in it.
func hermesTalks(h *home, p *Parcel) {
	known := map[string]bool{}
	h.database("state.db", func(db *sql.DB) error {
		type session struct {
			id, title, source string
			at                float64
		}
		var list []session
		each := func(r *sql.Rows) error {
			var s session
			err := r.Scan(&s.id, &s.title, &s.source, &s.at)
			list = append(list, s)
			return err
		}
		if err := rows(db, hermesSessions, each); err != nil {
			list = nil // a version whose sessions have no titles
			if err := rows(db, hermesSessionsUntitled, each); err != nil {
				return err
			}
		}
		for _, s := range list {
			c := Conversation{ID: conversationID(p.Source, s.id), Title: "Hermes: " + cmp.Or(s.title, s.source+" "+millis(s.at*1000).Format("2006-01-02"))}
			err := rows(db, hermesMessages, func(r *sql.Rows) error {
				var role, content, tool string
				var at float64
				if err := r.Scan(&role, &content, &tool, &at); err != nil {
					return err
				}
				c.add(role, tool, hermesContent(content), millis(at*1000))
				return nil
			}, s.id)
			if err != nil {
				return err
			}
			known[s.id] = true
			p.converse(c)
		}
		return nil
	})
	for _, name := range h.glob("sessions/*.jsonl") {
		id := strings.TrimSuffix(path.Base(name), ".jsonl")
		if known[id] {
			continue
		}
		c := Conversation{ID: conversationID(p.Source, id), Title: "Hermes: " + id}
		h.lines(name, func(line []byte) {
			var l struct {
				Role      string          `json:"role"`
				Content   json.RawMessage `json:"content"`
				Timestamp json.RawMessage `json:"timestamp"`
				ToolName  string          `json:"tool_name"`
			}
			if json.Unmarshal(line, &l) == nil {
				c.add(l.Role, l.ToolName, l.Content, when(l.Timestamp))
			}
		})
		p.converse(c)
	}
}

// hermesContent is the content of a row: a text, or blocks as JSON.
func hermesContent(s string) json.RawMessage {
	var blocks []map[string]any
	if strings.HasPrefix(s, "[{") && json.Unmarshal([]byte(s), &blocks) == nil {
		return json.RawMessage(s)
	}
	return quoted(s)
}
