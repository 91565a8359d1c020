package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/soul"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// newSchedules makes the work that starts itself: with the rights, the tools
// and the budget of this house.
func newSchedules(c *current, p *profiles, e *engine.Engine, turn engine.Handler, node string, poll time.Duration, log *slog.Logger) *schedule.Schedules {
	now := c.now.Load
	return schedule.New(e, schedule.Options{
		Zone: p.zone, ZoneName: zoneName(p.zone), Turn: turn,
		Tools: func(ctx context.Context) (*tool.Set, error) { return now().belted(ctx) },
		Skill: func(ctx context.Context, name string) (string, error) { return now().skillPrompt(ctx, name) },
		Rights: func(by mercury.Actor, destination string) mercury.Mandate {
			return now().scheduleRights(by, destination)
		},
		Narrow:    func(m mercury.Mandate) mercury.Mandate { return now().narrow(m) },
		Afford:    func(tx store.Tx, s store.Schedule) (string, error) { return now().afford(tx, s) },
		Hush:      func(t time.Time) time.Time { return now().hush(t) },
		Heartbeat: schedule.Heartbeat{Every: time.Duration(p.config.Heartbeat.Every), Words: p.heartbeat},
		Owner:     node, Poll: poll, Log: log,
	})
}

// heartbeat is what the owner wants looked after. What the file says before
// anybody edits it asks for nothing, so by itself there is no heartbeat.
func (p *profiles) heartbeat() (string, error) {
	b, err := os.ReadFile(filepath.Join(p.home.Soul(), "heartbeat.md"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if strings.TrimSpace(string(b)) == strings.TrimSpace(soul.Default(soul.Heartbeat)) {
		return "", err
	}
	return string(b), err
}

// belted are the tools of the main agent, behind the gate,
// and what one run has besides.
func (p *profiles) belted(ctx context.Context, more ...tool.Tool) (*tool.Set, error) {
	core := append(slices.Clip(p.core), more...)
	switch {
	case p.outside != nil:
		return p.outside.tools(ctx, p.gate, core, p.more)
	case len(more) > 0:
		return tool.NewTieredSet(p.gate, core, p.more), nil
	}
	return p.tools, nil
}

// zoneName is the IANA name of a zone, of the machine's as well.
func zoneName(zone *time.Location) string {
	if zone != time.Local {
		return zone.String()
	}
	if name := strings.TrimPrefix(os.Getenv("TZ"), ":"); name != "" {
		if _, err := time.LoadLocation(name); err == nil {
			return name
		}
	}
	if path, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(filepath.ToSlash(path), "/zoneinfo/"); ok {
			return strings.TrimPrefix(name, "posix/")
		}
	}
	return zone.String()
}

// scheduleRights are what the occurrences of a schedule may do that somebody
// makes now: what its maker may. The owner is asked about the rest, nobody
// else is.
func (p *profiles) scheduleRights(by mercury.Actor, destination string) mercury.Mandate {
	m := mercury.Mandate{Actor: by, Mode: permission.ModeAsk, Interactive: by.Role == mercury.Owner,
		Tools: p.roles.Tools(by.Role, p.tools.Names()), Scopes: p.scopes, Workspace: p.workspace, Destination: destination}
	if by.Role == mercury.Owner {
		m.Mode = p.mode
	}
	return m
}

// narrow takes from a frozen mandate what its owner may no longer do.
func (p *profiles) narrow(m mercury.Mandate) mercury.Mandate {
	now := p.scheduleRights(m.Actor, m.Destination)
	out := permission.Child(now, m)
	if m.Mode == permission.ModeGuided && now.Mode != permission.ModeAsk {
		out.Mode = permission.ModeGuided
	}
	return out
}

// afford says why an occurrence that asks a model is too much now.
func (p *profiles) afford(tx store.Tx, _ store.Schedule) (string, error) {
	why, err := p.book().Tight(tx)
	if err != nil || why == "" {
		return why, err
	}
	return why + "; schedules stop here", nil
}

// hush is when the owner may be told of something that was asked unbidden at
// t: at once, or when the quiet hours end.
func (p *profiles) hush(t time.Time) time.Time {
	from, to := p.config.QuietHours.From, p.config.QuietHours.To
	begin, err1 := time.Parse("15:04", from)
	end, err2 := time.Parse("15:04", to)
	if from == "" || to == "" || err1 != nil || err2 != nil {
		return time.Time{}
	}
	here := t.In(p.zone)
	minute := here.Hour()*60 + here.Minute()
	first, last := begin.Hour()*60+begin.Minute(), end.Hour()*60+end.Minute()
	quiet := minute >= first && minute < last
	if first > last {
		quiet = minute >= first || minute < last
	}
	if !quiet {
		return time.Time{}
	}
	y, m, d := here.Date()
	until := time.Date(y, m, d, end.Hour(), end.Minute(), 0, 0, p.zone)
	if !until.After(t) {
		until = time.Date(y, m, d+1, end.Hour(), end.Minute(), 0, 0, p.zone)
	}
	return until
}

// openQuestions is how many questions of schedules wait for the owner at most.
const openQuestions = 3

// crowded reports whether a schedule may ask no more, since enough of their
// questions wait already. What a run has asked, it goes on asking.
func (g *gate) crowded(ctx context.Context, r tool.Request) bool {
	e := g.engine.Load()
	if e == nil || r.Mandate.Actor.Role != mercury.Schedule {
		return false
	}
	others := 0
	err := e.View(ctx, func(tx store.Tx) error {
		others = 0
		mine, err := tx.RunQuestions(r.RunID)
		if err != nil || slices.ContainsFunc(mine, func(q mercury.Question) bool { return q.CallID == r.CallID }) {
			return err
		}
		open, err := tx.OpenQuestions("")
		for _, q := range open {
			if q.AskedBy.Role == mercury.Schedule {
				others++
			}
		}
		return err
	})
	if err != nil {
		g.log.Warn("the open questions of schedules could not be counted", "err", err)
		return true
	}
	return others >= openQuestions
}

// inherited are the owner's own grants that a schedule of theirs has: lasting
// ones from before it was made, unless a rehearsal settled what it may do.
func inherited(tx store.Tx, actor mercury.Actor, grants []store.Grant) ([]permission.Grant, error) {
	if actor.Role != mercury.Schedule {
		return nil, nil
	}
	sch, err := tx.Schedule(actor.ID)
	if errors.Is(err, store.ErrNotFound) || sch.Rehearsed {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []permission.Grant
	for _, g := range grants {
		if g.Actor.Role == mercury.Owner && !g.Once && g.RunID == "" && g.ExpiresAt.IsZero() && !g.CreatedAt.After(sch.CreatedAt) {
			out = append(out, permission.Grant{ID: g.ID, Rule: g.Rule})
		}
	}
	return out, nil
}
