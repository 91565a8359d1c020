package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/longrun"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/skill"
	"github.com/mercury-agent/mercury/internal/soul"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/ask"
	"github.com/mercury-agent/mercury/internal/tool/file"
	"github.com/mercury-agent/mercury/internal/tool/git"
	"github.com/mercury-agent/mercury/internal/tool/message"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// profiles turns the configuration into who answers and with which rights.
type profiles struct {
	config    *config.Config
	home      config.Home
	model     llm.Client
	people    func(channel string, a mercury.Actor) mercury.Role
	commands  shell.Options
	gate      *gate
	core      []tool.Tool // always told of
	more      []tool.Tool // found when looked for
	tools     *tool.Set   // of both
	outside   *outside    // what reaches beyond this machine; nil: nothing
	files     *file.Files
	jobs      *shell.Jobs
	store     store.Store
	zone      *time.Location
	workspace string
	scopes    []mercury.Scope
	mode      string
	roles     permission.Roles
	schedules *schedule.Schedules // set once the engine exists
	mind      *mind
	skills    *skill.Library
	pictures  *pictures
	tally     *budget.Tally
}

func newProfiles(c *config.Config, home config.Home, hide secrets, model llm.Client, kept store.Store, node string, fence *sandbox.Fence, log *slog.Logger) *profiles {
	zone, err := c.Location()
	if err != nil {
		zone = time.Local
	}
	p := &profiles{config: c, home: home, model: model, zone: zone, mode: c.Permissions.Mode, store: kept,
		workspace: config.ExpandPath(c.Workspace), tally: &budget.Tally{}}
	p.scopes = scopes(c, p.workspace)
	p.roles, p.people = roles(c), people(c)
	p.gate = newGate(gateOptions{home: home.Dir(), zone: c.Timezone, mode: p.mode, fence: fence, secrets: hide, roles: p.roles, services: services(c), log: log})
	p.mind = &mind{soul: soul.New(soul.Options{Dir: home.Soul(), Name: c.Name, Owner: c.Owner, Screen: hide.Hide}), store: kept, zone: zone,
		model: p.model, log: log, config: func() *config.Config { return c }, book: func() budget.Book { return p.book() }, used: map[string][]string{}}
	p.files = file.New(file.Options{Hidden: []string{home.Dir()}, Keep: kept.Blobs().Put, Trash: filepath.Join(home.Files(), "trash")})
	commands := shell.Options{Owner: commandOwner(node, home.Dir()), Fence: fence, Hidden: []string{home.Dir()}, Watch: p.files.Watch, Remember: file.Remember}
	p.jobs = shell.NewJobs(commands, shell.JobsOptions{Update: p.gate.update, Node: node, Folder: filepath.Join(home.Files(), "jobs"), Log: log})
	commands.Jobs = p.jobs
	p.commands = commands
	p.skills, p.pictures = newSkills(home, p.workspace), &pictures{}
	p.files.TakesBack(skill.UndoAct, p.skills.Undo)
	p.core, p.more = p.belt(commands)
	p.tools = tool.NewTieredSet(p.gate, p.core, p.more)
	return p
}

// scopes are the granted folders; without any, the workspace.
func scopes(c *config.Config, workspace string) []mercury.Scope {
	var list []mercury.Scope
	for _, s := range c.Permissions.Scopes {
		list = append(list, mercury.Scope{Path: config.ExpandPath(s.Path), Read: s.Read, Write: s.Write})
	}
	if len(list) == 0 {
		list = []mercury.Scope{{Path: workspace, Read: true, Write: true}}
	}
	return list
}

// plan says which run an input starts, and freezes its rights: an actor's
// mode is the conversation's own while it lasts, else the configured one, and
// only ever the owner's. Whoever is neither owner nor admin cannot be asked.
func (p *profiles) plan(c mercury.Conversation, in mercury.Input) (engine.NewRun, error) {
	mode, until := permission.ModeAsk, time.Time{}
	if in.Actor.Role == mercury.Owner {
		mode = p.mode
		if c.Mode != "" && (c.ModeUntil.IsZero() || in.AcceptedAt.Before(c.ModeUntil)) {
			mode, until = c.Mode, c.ModeUntil
		}
	}
	if mode == permission.ModeAllowAll && !intake.Alone(c.ID, in.Actor) {
		mode, until = permission.ModeGuided, time.Time{} // others write here too
	}
	return engine.NewRun{Kind: "turn", Lane: mercury.Chat, ConversationID: c.ID, Actor: in.Actor,
		Mandate: mercury.Mandate{Actor: in.Actor, Mode: mode, ModeUntil: until, Interactive: in.Actor.Trusted(),
			Tools: p.roles.Tools(in.Actor.Role, p.tools.Names()), Scopes: p.scopes, Workspace: p.workspace, Destination: mercury.ChatOf(c.ID)}}, nil
}

// Profile returns the main agent; it answers every conversation.
func (p *profiles) Profile(ctx context.Context, run mercury.Run, c mercury.Conversation) (agent.Profile, error) {
	l := p.config.Limits.Turn
	if day := p.roles[run.Actor.Role].DailyTokens; day > 0 && run.Actor.Role != mercury.Owner {
		left, err := p.left(ctx, run, day)
		if err != nil {
			return agent.Profile{}, err
		}
		l.Tokens = min(l.Tokens, left)
	}
	var answerers []mercury.Role
	if p.roles.May(mercury.Admin, mercury.Answer) {
		answerers = []mercury.Role{mercury.Admin}
	}
	provider, name, _ := config.SplitModel(p.config.Model)
	service := p.config.Providers[provider]
	var more []tool.Tool
	if !run.Deadline.IsZero() {
		more = append(more, longrun.Tool())
	}
	set, err := p.belted(ctx, more...)
	if err != nil {
		return agent.Profile{}, err
	}
	profile := agent.Profile{
		Name:  "main",
		Model: p.model, ModelName: p.config.Model,
		Window: window(service, name), MaxOutput: int(service.MaxOutput),
		Answerers: answerers,
		Tools:     set, Outputs: p.outputs(c.ID),
		Limits: agent.Limits{Steps: l.Steps, Tokens: l.Tokens, Time: time.Duration(l.Minutes) * time.Minute},
	}
	book := p.book()
	profile.Budget = &book
	if run.Kind == schedule.Kind {
		profile.Patience, profile.Hush, profile.Silent = schedule.QuestionLife, p.hush, schedule.Acknowledgement
	}
	if sees(p.config.Model) {
		profile.Image = p.pictures.read
	}
	longrun.Shape(&profile, run, c, time.Now)
	if err := p.mind.complete(ctx, &profile, run, c); err != nil {
		return profile, err
	}
	if section := p.skills.Section(skillsSection); section != "" {
		profile.System = append(profile.System, section)
	}
	return profile, nil
}

// outputs is the folder of a conversation's large tool outputs.
func (p *profiles) outputs(conversation string) string {
	sum := sha256.Sum256([]byte(conversation))
	return filepath.Join(p.home.Files(), "outputs", hex.EncodeToString(sum[:8]))
}

// commandOwner is the mark of commands that the Mercury of a home started. A
// copy of a home has its identity and is another one.
func commandOwner(node, home string) string {
	sum := sha256.Sum256([]byte(home))
	return strings.TrimPrefix(node, "node_") + hex.EncodeToString(sum[:4])
}

// belt is what the main agent may do: what it is always told of, and what it
// finds when it looks for it.
func (p *profiles) belt(commands shell.Options) (core, more []tool.Tool) {
	core = append(p.files.Core(), shell.Run(commands), ask.User())
	core = append(core, p.mind.core()...)
	core = append(core, p.skills.Core()...)
	hidden := file.Options{Hidden: []string{p.home.Dir()}}
	more = append(p.files.More(), message.Tools(message.Options{Files: hidden, Sent: filepath.Join(p.home.Files(), "sent"),
		View: p.store.View, Daily: p.config.Budget.DailyTokens, Zone: p.zone})...)
	more = append(more, p.jobs.Tool())
	more = append(more, schedule.Tools(func() *schedule.Schedules { return p.schedules })...)
	more = append(more, p.mind.more()...)
	more = append(more, p.skills.More()...)
	more = append(more, git.Tools(commands)...)
	return core, more
}

// undo takes back what a run did, or only looks.
func (p *profiles) undo(ctx context.Context, tx store.Tx, run, conversation string, apply bool, by mercury.Actor) (mercury.Undone, error) {
	return p.files.Undo(ctx, tx, p.store.Blobs(), run, conversation, apply, by)
}

// digest names the configuration that this process works by.
func digest(c *config.Config) string {
	b, err := json.Marshal(c) // secrets encode masked
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
