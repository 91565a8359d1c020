package move

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Preview writes what unpacking would bring, for a person to decide.
func (p *Parcel) Preview(w io.Writer, to Target) {
	fmt.Fprintf(w, "From %s in %s, which is only read:\n", p.Source, p.Dir)
	line := func(what string, n int, about string) {
		if n > 0 {
			fmt.Fprintf(w, "  %-10s %4d  %s\n", what, n, about)
		}
	}
	settings := p.wanted(to.Secrets)
	var shown []string
	for _, s := range settings {
		shown = append(shown, s.Key+" = "+s.Value)
	}
	line("settings", len(settings), "where you have not decided yet: "+strings.Join(shown, "; "))
	souls, skills := p.names()
	line("soul", len(souls), strings.Join(souls, ", "))
	line("skills", len(skills), strings.Join(skills, ", ")+"; none runs by itself")
	line("memories", len(p.Memories), p.place(to.Memories != nil, "memories.jsonl", "each with where it came from"))
	line("schedules", len(p.Schedules), p.place(to.Schedules != nil, "schedules.jsonl", "paused until you confirm them"))
	for _, s := range p.Schedules {
		next := ""
		if to.Schedules != nil {
			if at, err := to.Schedules.Next(s); err != nil {
				next = " (its time is not understood: " + err.Error() + ")"
			} else if !at.IsZero() {
				next = ", next " + at.Format("Mon 2 Jan 15:04 MST")
			}
		}
		if s.Disabled {
			next += ", was off there too"
		}
		fmt.Fprintf(w, "                   %s: %s%s\n", s.Name, s.When(), next)
	}
	messages := 0
	for _, c := range p.Conversations {
		messages += len(c.Entries)
	}
	line("talks", len(p.Conversations), mercury.Count(messages, "message", "messages")+", to read and search: mercury conversations list")
	line("people", len(p.People), p.peopleText())
	p.previewSecrets(w, to.Secrets)
	line("kept", len(p.Kept), "as files in "+p.keptDir()+":")
	for _, f := range p.Kept {
		fmt.Fprintf(w, "                   %s: %s\n", f.Path, f.Why)
	}
	for _, left := range p.Left {
		fmt.Fprintf(w, "  stays behind: %s\n", left)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "! %s\n", warning)
	}
}

// place says where things go.
func (p *Parcel) place(room bool, file, about string) string {
	if room {
		return about
	}
	return "kept in " + path.Join(p.keptDir(), file) + ": this version has no room for them"
}

// names are the files of soul/ and the skills, for a person.
func (p *Parcel) names() (souls, skills []string) {
	for _, f := range p.Files {
		if name, ok := strings.CutPrefix(f.Path, "soul/"); ok {
			souls = append(souls, name)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Path, "skills/"), "/")
		if !slices.Contains(skills, name) {
			skills = append(skills, name)
		}
	}
	return souls, skills
}

func (p *Parcel) peopleText() string {
	var names []string
	for _, x := range p.People {
		name := x.Channel + " " + x.ID
		if x.Name != "" {
			name += " " + x.Name
		}
		role := x.Role
		if role == "" {
			role = mercury.Member
		}
		names = append(names, fmt.Sprintf("%s (%s)", name, role))
	}
	return strings.Join(names, ", ") + "; nobody pairs again"
}

func (p *Parcel) previewSecrets(w io.Writer, along bool) {
	if len(p.Secrets) == 0 {
		return
	}
	var names []string
	for _, s := range p.Secrets {
		names = append(names, s.Variable)
	}
	about := "stay behind; --with-secrets takes them along: "
	if along {
		about = "into .env: "
	}
	fmt.Fprintf(w, "  %-10s %4d  %s%s\n", "secrets", len(names), about, strings.Join(names, ", "))
}
