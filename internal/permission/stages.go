package permission

import (
	"context"
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/argv"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// access takes one access through the stages that judge it alone.
func (g *Gate) access(ctx context.Context, q Question, a mercury.Access, grants []Grant, d *Decision) finding {
	var seen command
	if a.Kind == mercury.RunCommand {
		seen = look(a, q.Dir)
		out := blocked(seen.script, seen.dir)
		if out == nil {
			out = g.opts.Files.ownHome(seen.script, seen.dir)
		}
		if out == nil {
			out = g.opts.Files.alias(q.Mandate.Scopes)
		}
		if out != nil {
			d.Commands = append(d.Commands, Command{})
			return *out
		}
	}
	if rights := g.roles[q.Mandate.Actor.Role]; rights.Kinds != nil && !slices.Contains(rights.Kinds, a.Kind) {
		return deny("role.kind", fmt.Sprintf("the role %s may not %s; the owner can do it, or give this person another role in mercury.yaml", q.Mandate.Actor.Role, a.Kind))
	}
	out, place := g.rules(ctx, q, a, seen, d)
	if out.verdict == mercury.Deny {
		return out
	}
	why := g.taint(q, a, out)
	if why != "" {
		out = finding{verdict: mercury.Ask, rule: "taint." + string(a.Kind), why: why, always: out.always}
	}
	if out.verdict == mercury.Allow {
		return out
	}
	if g.fences(q, a) {
		// Granted or not: a command that can do its work fenced stays so.
		return g.mode(q, a, out, d)
	}
	for _, gr := range grants {
		if covers(gr.Rule, a, place, seen.dir) && (why == "" || gr.Named) {
			return allow("grant."+gr.ID, "granted: "+gr.Rule)
		}
	}
	if why != "" {
		return out
	}
	return g.mode(q, a, out, d)
}

// command is a RunCommand access taken apart.
type command struct {
	words  []string // the argument vector; nil when there is shell syntax
	refuse error    // why there is none
	script argv.Script
	dir    string
}

func look(a mercury.Access, dir string) command {
	c := command{dir: dir, words: a.Argv}
	if a.Dir != "" {
		c.dir = a.Dir
	}
	if len(c.words) == 0 {
		c.words, c.refuse = argv.Parse(a.Target)
	}
	if c.refuse == nil {
		c.script = argv.ReadArgv(c.words)
	} else {
		c.script = argv.Read(a.Target)
	}
	return c
}

// rules asks the stage that knows the kind of access.
func (g *Gate) rules(ctx context.Context, q Question, a mercury.Access, seen command, d *Decision) (finding, Place) {
	m := q.Mandate
	switch a.Kind {
	case mercury.OwnState:
		return allow("own", "the conversation's own notes"), Place{}
	case mercury.ReadPath, mercury.WritePath, mercury.DeletePath:
		place, out := g.opts.Files.judge(a.Kind, a.Target, q.Dir, m.Scopes)
		d.Places = append(d.Places, place)
		return out, place
	case mercury.RunCommand:
		cmd, out := g.command(a, seen, m.Scopes, d)
		d.Commands = append(d.Commands, cmd)
		return out, Place{}
	case mercury.FetchURL:
		if slices.Contains(g.opts.Services, a.Target) {
			d.Targets = append(d.Targets, Target{URL: a.Target})
			return allow("url.service", shown(a.Target)+" is a configured service"), Place{}
		}
		target, out := g.urls.check(ctx, a.Target)
		d.Targets = append(d.Targets, target)
		return out, Place{}
	case mercury.SendTo:
		if a.Target == m.Destination {
			return allow("send.destination", "it goes where this run's answer goes"), Place{}
		}
		return lastingAsk(a, "send.other", "it goes to "+shown(a.Target)), Place{}
	case mercury.AskPerson:
		if m.Interactive {
			return allow("ask.person", "a person is asked"), Place{}
		}
		return deny("ask.nobody", "nobody can be asked here"), Place{}
	case mercury.Spend:
		return lastingAsk(a, "spend", "it costs money beyond the model: "+shown(a.Target)), Place{}
	case mercury.Settings:
		return lastingAsk(a, "settings", "it changes Mercury itself: "+shown(a.Target)), Place{}
	case mercury.Foreign:
		return lastingAsk(a, "foreign", "it calls the outside tool "+shown(a.Target)), Place{}
	}
	return deny("kind.unknown", fmt.Sprintf("nothing is known about the access %q", a.Kind)), Place{}
}

func lastingAsk(a mercury.Access, rule, why string) finding {
	out := ask(rule, why)
	if a.Target != "" {
		out.always = string(a.Kind) + ":" + a.Target
	}
	return out
}

// command judges a command that is not blocked, and says what would run.
func (g *Gate) command(a mercury.Access, seen command, scopes []mercury.Scope, d *Decision) (Command, finding) {
	out := finding{}
	if seen.refuse == nil {
		var cmd Command
		if cmd, out = g.lane.judge(seen.words, seen.dir, scopes); out.verdict == mercury.Allow {
			return cmd, out
		}
		if len(a.Argv) > 0 && cmd.Path != "" { // asked about, and as hardened as without
			cmd.Asked = true
			out.always = lastingCommand(commandText(a), seen.dir, true, seen.script)
			return cmd, out
		}
	} else {
		out = ask("command.syntax", seen.refuse.Error())
	}
	for _, c := range seen.script.Commands {
		if name := c.Name(); !slices.Contains(d.Heads, name) {
			d.Heads = append(d.Heads, name)
		}
	}
	if len(a.Argv) > 0 {
		cmd, handled, err := g.lane.gitWrite(a.Argv, seen.dir, scopes)
		if err != nil {
			return Command{}, deny("command.git", err.Error())
		}
		if handled {
			out.rule, out.why = "command.git", "git "+a.Argv[1]+" changes the repository"
			if a.Argv[1] == "push" {
				out.rule, out.why = "command.network", "git push sends commits to another machine"
			}
			cmd.Asked = true
			out.always = lastingCommand(commandText(a), seen.dir, true, seen.script)
			return cmd, out
		}
	}
	out.always = lastingCommand(commandText(a), seen.dir, seen.refuse == nil, seen.script)
	return g.approved(a, seen), out
}

// approved is how a command runs that is let through in spite of the lane: a
// string by a shell, an argument vector as it is, and cd by going there.
func (g *Gate) approved(a mercury.Access, seen command) Command {
	cmd := Command{Dir: seen.dir, Env: g.opts.Environment, Shell: true, Path: g.opts.Shell}
	switch {
	case len(seen.words) == 2 && seen.words[0] == "cd":
		if place, stop := g.opts.Files.find(mercury.ReadPath, seen.words[1], seen.dir); stop == nil {
			return Command{Builtin: "cd", Args: seen.words, Dir: place.Path}
		}
		cmd.Args = []string{"sh", "-c", a.Target}
	case len(a.Argv) > 0:
		cmd.Args = append([]string{"sh", "-c", `exec "$@"`, "sh"}, a.Argv...)
	default:
		cmd.Args = []string{"sh", "-c", a.Target}
	}
	return cmd
}

// taint says why a tainted request must ask about a, or nothing.
func (g *Gate) taint(q Question, a mercury.Access, out finding) string {
	if len(q.Taint) == 0 || slices.Contains(q.Verbatim, a.Target) {
		return ""
	}
	source := shown(q.Taint[0])
	if len(q.Taint) > 1 {
		source = fmt.Sprintf("%s and %d more", source, len(q.Taint)-1)
	}
	switch a.Kind {
	case mercury.SendTo:
		if a.Target == q.Mandate.Destination {
			return ""
		}
		return fmt.Sprintf("text from %s was read, and this would go to %s", source, shown(a.Target))
	case mercury.FetchURL:
		if out.rule == "url.service" {
			return ""
		}
		return fmt.Sprintf("text from %s was read, and this address was put together afterwards", source)
	case mercury.RunCommand:
		if out.rule == "command.argv" || out.rule == "command.unfenced" || g.fences(q, a) {
			return "" // it reads in scope, or has neither network nor a way out
		}
		return fmt.Sprintf("text from %s was read, and this command could send or install something", source)
	case mercury.Settings, mercury.Spend, mercury.Foreign:
		return fmt.Sprintf("text from %s was read, and %s", source, out.why)
	}
	return ""
}

// fences reports whether a command runs unasked because it runs fenced.
func (g *Gate) fences(q Question, a mercury.Access) bool {
	return a.Kind == mercury.RunCommand && !a.Unfenced && g.opts.Sandboxed && q.Mandate.Mode == ModeGuided
}

// mode lowers a question where the mandate's mode covers it.
func (g *Gate) mode(q Question, a mercury.Access, out finding, d *Decision) finding {
	switch q.Mandate.Mode {
	case ModeGuided:
		// A file with other names is not lowered: what is read by it may lie
		// outside the granted folders.
		if out.rule == "path.delete" {
			return allow("mode.guided", out.why+"; it can be undone")
		}
		if g.fences(q, a) && out.rule != "command.network" {
			d.Commands[len(d.Commands)-1].Fence = true
			return allow("mode.guided", "it runs fenced in: no network, and it writes only in the workspace")
		}
	case ModeAllowAll:
		// What outlives its call may outlive the mode as well.
		if q.Mandate.Actor.Role == mercury.Owner && q.Mandate.Interactive && !a.Background {
			return allow("mode.allow-all", "the owner chose not to be asked")
		}
	}
	return out
}

// defaultRights are the rights of the built-in roles. What a role may touch
// further depends on its mandate; what stands here it may not do at all.
func defaultRights() map[mercury.Role]Rights {
	work := []mercury.AccessKind{
		mercury.ReadPath, mercury.WritePath, mercury.DeletePath, mercury.RunCommand, mercury.FetchURL,
		mercury.SendTo, mercury.Spend, mercury.AskPerson, mercury.OwnState, mercury.Foreign,
	}
	return map[mercury.Role]Rights{
		mercury.Owner:      {},
		mercury.Admin:      {},
		mercury.Schedule:   {},
		mercury.BotRole:    {Kinds: work},
		mercury.HelperRole: {Kinds: work},
		mercury.Member: {Kinds: []mercury.AccessKind{
			mercury.ReadPath, mercury.WritePath, mercury.FetchURL, mercury.SendTo, mercury.AskPerson, mercury.OwnState,
		}},
		mercury.Stranger: {Kinds: []mercury.AccessKind{mercury.OwnState}},
	}
}
