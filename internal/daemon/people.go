package daemon

import (
	"context"
	"fmt"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/store"
)

// people says who a sender is: the terminal and the API are the owner's, on
// other channels the configuration names people, and everyone else is a
// stranger. Whoever it names twice has the lesser role but for owners.
func people(c *config.Config) func(string, mercury.Actor) mercury.Role {
	known := map[string]mercury.Role{}
	name := func(channel string, owners, members []string, others map[string]string) {
		for id, role := range others {
			known[channel+"/"+id] = mercury.Role(role)
		}
		for _, id := range members {
			known[channel+"/"+id] = mercury.Member
		}
		for _, id := range owners {
			known[channel+"/"+id] = mercury.Owner
		}
	}
	if ch := c.Channels.Relay; ch != nil {
		name("relay", ch.Owners, ch.Members, ch.Roles)
	}
	if ch := c.Channels.Telegram; ch != nil {
		name("telegram", ch.Owners, ch.Members, ch.Roles)
	}
	if ch := c.Channels.Discord; ch != nil {
		name("discord", ch.Owners, ch.Members, ch.Roles)
	}
	if ch := c.Channels.Slack; ch != nil {
		name("slack", ch.Owners, ch.Members, ch.Roles)
	}
	if ch := c.Channels.IMessage; ch != nil {
		name("imessage", ch.Owners, ch.Members, ch.Roles)
	}
	return func(channel string, a mercury.Actor) mercury.Role {
		if channel == "local" {
			return mercury.Owner
		}
		if role, ok := known[channel+"/"+a.ID]; ok && a.ID != "" {
			return role
		}
		return mercury.Stranger
	}
}

// roles are the built-in roles with what the configuration changes and adds. A
// built-in one keeps its permissions where none are written.
func roles(c *config.Config) permission.Roles {
	all := permission.DefaultRoles()
	for name, r := range c.Roles {
		role := all[mercury.Role(name)]
		if r.Permissions != nil {
			role.May = nil
			for _, p := range r.Permissions {
				role.May = append(role.May, mercury.Permission(p))
			}
		}
		if len(r.Tools) > 0 {
			role.Tools = r.Tools
		}
		if r.MessagesPerMinute > 0 {
			role.PerMinute = r.MessagesPerMinute
		}
		role.DailyTokens = r.DailyTokens
		all[mercury.Role(name)] = role
	}
	return all
}

// rights are what the gate lets the configured roles touch: all that work
// takes, and never Mercury's own settings.
func rights(all permission.Roles) map[mercury.Role]permission.Rights {
	out := map[mercury.Role]permission.Rights{}
	for name := range all {
		switch name {
		case mercury.Owner, mercury.Admin, mercury.Member, mercury.Stranger:
		default:
			out[name] = permission.Rights{Kinds: []mercury.AccessKind{mercury.ReadPath, mercury.WritePath, mercury.DeletePath,
				mercury.RunCommand, mercury.FetchURL, mercury.SendTo, mercury.AskPerson, mercury.OwnState, mercury.Foreign}}
		}
	}
	return out
}

// limit is how much one person of a role may write and use.
func (p *profiles) limit(a mercury.Actor) intake.Limit {
	r := p.roles[a.Role]
	return intake.Limit{PerMinute: r.PerMinute, DailyTokens: r.DailyTokens}
}

// left is what a person may still use today, apart from this run.
func (p *profiles) left(ctx context.Context, run mercury.Run, day int64) (int64, error) {
	e := p.gate.engine.Load()
	if e == nil {
		return day, nil
	}
	var used int64
	err := e.View(ctx, func(tx store.Tx) (err error) {
		used, err = intake.Used(tx, run.Actor, p.zone)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count a person's tokens: %w", err)
	}
	return max(1, day-used+run.Usage.Input+run.Usage.Output), nil
}
