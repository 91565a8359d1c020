// Package move takes what another agent knows into a Mercury home: who it is,
// what it remembers, its skills, schedules, people and talks. Reading a foreign
// home gives a Parcel, which can be shown before anything is done; unpacking
// it writes only into the home of Mercury, and may be repeated. The foreign
// home is opened for reading alone and is never changed.
//
// What Mercury has no place for is kept as files under files/imported/SOURCE,
// with secrets taken out, so that nothing is lost in silence. Secrets come
// along only when they are asked for.
package move

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// The agents whose homes can be read.
const (
	OpenClaw = "openclaw"
	Hermes   = "hermes"
	Mercury  = "mercury" // the TypeScript one
)

// Sources lists them.
func Sources() []string { return []string{OpenClaw, Hermes, Mercury} }

// A Parcel is what a foreign home holds, in Mercury's words.
type Parcel struct {
	Source        string
	Dir           string
	Settings      []Setting
	Files         []File // for soul/ and skills/ of the home
	Memories      []Memory
	Schedules     []Schedule
	Conversations []Conversation
	People        []Person
	Secrets       []Secret
	Kept          []File   // what has no place here; for files/imported/SOURCE
	Left          []string // what stays behind, and why
	Warnings      []string
}

// Setting is a key of mercury.yaml with a value as config.Set takes it, and
// where it was read. Needs is the secret without which it is of no use.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
	Needs string `json:"needs,omitempty"`
}

// File is a text with the place it goes to, below the home or the folder of
// what is kept. Why says why a kept one has no other place.
type File struct {
	Path, From, Why string
	Text            []byte
}

// Memory is one thing that is known. Zero scores mean that none were given.
type Memory struct {
	Type       string    `json:"kind"` // one of Mercury's types
	Summary    string    `json:"summary"`
	Detail     string    `json:"detail,omitempty"`
	Confidence float64   `json:"confidence,omitempty"`
	Importance float64   `json:"importance,omitempty"`
	Durability float64   `json:"durability,omitempty"`
	Evidence   int       `json:"evidence,omitempty"`
	At         time.Time `json:"created_at,omitzero"`
	From       string    `json:"file"` // it was read from
}

// Schedule is work that started itself. Exactly one of Cron, Every and At is
// set.
type Schedule struct {
	Name     string        `json:"name"`
	Cron     string        `json:"cron,omitempty"`
	Every    time.Duration `json:"every,omitempty"` // nanoseconds
	At       time.Time     `json:"at,omitzero"`
	Zone     string        `json:"zone,omitempty"`
	Prompt   string        `json:"prompt,omitempty"`
	Skill    string        `json:"skill,omitempty"`
	Disabled bool          `json:"disabled,omitempty"` // it was, there
	From     string        `json:"from"`
}

// title is what people call the other agent.
func (p *Parcel) title() string {
	return map[string]string{OpenClaw: "OpenClaw", Hermes: "Hermes", Mercury: "the TypeScript Mercury"}[p.Source]
}

// When writes the trigger for a person.
func (s Schedule) When() string {
	switch {
	case s.Cron != "" && s.Zone != "":
		return s.Cron + " (" + s.Zone + ")"
	case s.Cron != "":
		return s.Cron
	case s.Every > 0:
		return "every " + short(s.Every)
	}
	return "once, " + s.At.Format("2006-01-02 15:04 MST")
}

// short writes a duration without the idle zeros of "1h30m0s".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Conversation is a talk as it was. ID is stable: the same talk read again has
// the same one.
type Conversation struct {
	ID, Title string
	Entries   []Entry
}

// Entry is one line of it.
type Entry struct {
	Kind mercury.EntryKind // user, assistant or note
	Text string
	At   time.Time
}

// Person is somebody who may talk to the agent on a channel.
type Person struct {
	Channel string       `json:"channel"`
	ID      string       `json:"id"`
	Name    string       `json:"name,omitempty"`
	Role    mercury.Role `json:"role"` // owner, admin or member
}

// Secret is a value for .env. Its text is shown nowhere.
type Secret struct{ Variable, Value, From string }

func (s Secret) String() string   { return s.Variable }
func (s Secret) GoString() string { return s.Variable }

// Read reads the home of another agent in dir.
func Read(source, dir string) (*Parcel, error) {
	h, err := openHome(dir)
	if err != nil {
		return nil, err
	}
	p := &Parcel{Source: source, Dir: h.dir}
	readers := map[string]struct {
		read func(*home, *Parcel) error
		mark []string // one of these files tells that it is such a home
	}{
		OpenClaw: {readOpenClaw, []string{"openclaw.json", "clawdbot.json", "moltbot.json"}},
		Hermes:   {readHermes, []string{"config.yaml", "state.db", "SOUL.md"}},
		Mercury:  {readMercury, []string{"mercury.yaml"}},
	}
	r, known := readers[source]
	if !known {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("homes of %q cannot be read", source), Help: "Name one of " + strings.Join(Sources(), ", ") + "."}
	}
	if !slices.ContainsFunc(r.mark, h.has) {
		return nil, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("%s is no home of %s", dir, source),
			Help: "It would hold one of " + strings.Join(r.mark, ", ") + "."}
	}
	if err := r.read(h, p); err != nil {
		return nil, fmt.Errorf("read the home of %s: %w", source, err)
	}
	p.Warnings = append(p.Warnings, h.warnings...)
	p.settle()
	return p, nil
}

// settle takes doubles out, puts people into settings, and takes secrets out
// of every text.
func (p *Parcel) settle() {
	p.Secrets = unique(p.Secrets, func(s Secret) string { return s.Variable })
	p.Settings = unique(p.Settings, func(s Setting) string { return s.Key })
	p.Memories = unique(p.Memories, func(m Memory) string { return m.Type + "\x00" + m.Summary })
	p.Files = unique(p.Files, func(f File) string { return f.Path })
	p.Kept = unique(p.Kept, func(f File) string { return f.Path })
	p.People = unique(p.People, func(x Person) string { return x.Channel + "\x00" + x.ID })
	p.settlePeople()
	hide := p.hider()
	for i := range p.Memories {
		p.Memories[i].Summary, p.Memories[i].Detail = hide(p.Memories[i].Summary), hide(p.Memories[i].Detail)
	}
	for i := range p.Schedules {
		p.Schedules[i].Prompt = hide(p.Schedules[i].Prompt)
	}
	for _, files := range [][]File{p.Files, p.Kept} {
		for i := range files {
			files[i].Text = []byte(hide(string(files[i].Text)))
		}
	}
	for i, c := range p.Conversations {
		p.Conversations[i].Title = hide(c.Title)
		for j := range c.Entries {
			c.Entries[j].Text = hide(c.Entries[j].Text)
		}
	}
}

// settlePeople turns people into the lists of mercury.yaml. Where nobody is
// marked as the owner and one person alone may talk, that is who it is.
func (p *Parcel) settlePeople() {
	channels := map[string][]Person{}
	var names []string
	for _, person := range p.People {
		if len(channels[person.Channel]) == 0 {
			names = append(names, person.Channel)
		}
		channels[person.Channel] = append(channels[person.Channel], person)
	}
	for _, channel := range names {
		people := channels[channel]
		owned := slices.ContainsFunc(people, func(x Person) bool { return x.Role == mercury.Owner })
		if !owned && len(people) == 1 {
			people[0].Role, owned = mercury.Owner, true
		}
		if !owned {
			p.Warnings = append(p.Warnings, fmt.Sprintf("several people may talk on %s and none is marked as the owner: say which is you with `mercury config set channels.%s.owners ID`", channel, channel))
		}
		for _, list := range []struct {
			key  string
			role mercury.Role
		}{{"owners", mercury.Owner}, {"members", mercury.Member}} {
			var ids []string
			for _, x := range people {
				if x.Role == list.role {
					ids = append(ids, fmt.Sprintf("%q", x.ID))
				}
			}
			if len(ids) > 0 {
				p.Settings = append(p.Settings, Setting{Key: "channels." + channel + "." + list.key, Value: "[" + strings.Join(ids, ", ") + "]", From: "people who may talk there"})
			}
		}
		for _, x := range people {
			if x.Role == mercury.Admin {
				p.Settings = append(p.Settings, Setting{Key: fmt.Sprintf("channels.%s.roles.%q", channel, x.ID), Value: "admin", From: "people who may talk there"})
			}
		}
		if channel == "telegram" {
			p.Warnings = append(p.Warnings, "Telegram gives each message to one program: with the same token in two running agents both lose some. Stop "+p.title()+" before Mercury takes its token, or give Mercury a bot of its own.")
		}
	}
}

// hider returns a function that takes the foreign home's secrets out of a
// text.
func (p *Parcel) hider() func(string) string {
	var pairs []string
	secrets := slices.Clone(p.Secrets)
	slices.SortFunc(secrets, func(a, b Secret) int { return len(b.Value) - len(a.Value) })
	for _, s := range secrets {
		if len(s.Value) >= 8 {
			pairs = append(pairs, s.Value, "["+s.Variable+"]")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}

// unique keeps the first of those with one key.
func unique[T any](list []T, key func(T) string) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(v T) bool {
		k := key(v)
		if seen[k] {
			return true
		}
		seen[k] = true
		return false
	})
}

// conversationID names a talk by its source and its own id there.
func conversationID(source, id string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, id)
	if len(clean) > 80 {
		clean = clean[:80]
	}
	return "local/" + source + "-" + clean
}

// inside joins a relative slash path below a folder, or returns "" when it
// would lead out.
func inside(dir, path string) string {
	if !filepath.IsLocal(filepath.FromSlash(path)) {
		return ""
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}
