package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/ask"
	"github.com/mercury-agent/mercury/internal/tool/file"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// profiles turns the configuration into who answers and with which rights.
type profiles struct {
	config    *config.Config
	home      config.Home
	chain     *llm.Chain
	gate      *gate
	tools     []tool.Tool
	set       *tool.Set // of tools
	outside   *outside  // nil: only what this machine has
	zone      *time.Location
	workspace string
	scopes    []mercury.Scope
	mode      string
}

func newProfiles(c *config.Config, home config.Home, chain *llm.Chain, owner string) *profiles {
	zone, err := c.Location()
	if err != nil {
		zone = time.Local
	}
	p := &profiles{config: c, home: home, chain: chain, zone: zone, mode: c.Permissions.Mode,
		workspace: config.ExpandPath(c.Workspace)}
	for _, s := range c.Permissions.Scopes {
		p.scopes = append(p.scopes, mercury.Scope{Path: config.ExpandPath(s.Path), Read: s.Read, Write: s.Write})
	}
	if len(p.scopes) == 0 {
		p.scopes = []mercury.Scope{{Path: p.workspace, Read: true, Write: true}}
	}
	p.gate = newGate(home.Dir(), c.Timezone, services(c))
	p.tools = tools(home, owner)
	p.set = tool.NewSet(p.gate, p.tools...)
	return p
}

// plan says which run an input starts, and freezes its rights: an actor's
// mode is the conversation's own while it lasts, else the configured one, and
// only ever the owner's. Whoever is neither owner nor admin cannot be asked.
func (p *profiles) plan(c mercury.Conversation, in mercury.Input) (engine.NewRun, error) {
	mode := permission.ModeAsk
	if in.Actor.Role == mercury.Owner {
		mode = p.mode
		if c.Mode != "" && (c.ModeUntil.IsZero() || in.AcceptedAt.Before(c.ModeUntil)) {
			mode = c.Mode
		}
	}
	return engine.NewRun{Kind: "turn", Lane: mercury.Chat, ConversationID: c.ID, Actor: in.Actor,
		Mandate: mercury.Mandate{Actor: in.Actor, Mode: mode, Interactive: in.Actor.Trusted(),
			Scopes: p.scopes, Workspace: p.workspace, Destination: c.ID}}, nil
}

// Profile returns the main agent; it answers every conversation.
func (p *profiles) Profile(ctx context.Context, _ mercury.Run, c mercury.Conversation) (agent.Profile, error) {
	l := p.config.Limits.Turn
	provider, _, _ := config.SplitModel(p.config.Model)
	service := p.config.Providers[provider]
	set := p.set
	if p.outside != nil {
		var err error
		if set, err = p.outside.tools(ctx, p.gate, p.tools); err != nil {
			return agent.Profile{}, err
		}
	}
	return agent.Profile{
		Name:   "main",
		System: []string{agent.System(p.config.Name, p.config.Owner)},
		Model:  p.chain, ModelName: p.config.Model,
		Window: int(service.ContextWindow), MaxOutput: int(service.MaxOutput),
		Tools: set, Outputs: p.outputs(c.ID),
		Limits: agent.Limits{Steps: l.Steps, Tokens: l.Tokens, Time: time.Duration(l.Minutes) * time.Minute},
	}, nil
}

// outputs is the folder of a conversation's large tool outputs.
func (p *profiles) outputs(conversation string) string {
	sum := sha256.Sum256([]byte(conversation))
	return filepath.Join(p.home.Files(), "outputs", hex.EncodeToString(sum[:8]))
}

// tools are what the main agent may do.
func tools(home config.Home, owner string) []tool.Tool {
	return append(file.Tools(file.Options{Hidden: []string{home.Dir()}}), shell.Run(shell.Options{Owner: owner}), ask.User())
}

// roles says who a sender is: the terminal and the API are the owner's, on
// other channels the configuration names people, and everyone else is a
// stranger.
func roles(c *config.Config) func(string, mercury.Actor) mercury.Role {
	known := map[string]mercury.Role{}
	if r := c.Channels.Relay; r != nil {
		for _, id := range r.Members {
			known["relay/"+id] = mercury.Member
		}
		for _, id := range r.Owners {
			known["relay/"+id] = mercury.Owner
		}
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

// digest names the configuration that this process works by.
func digest(c *config.Config) string {
	b, err := json.Marshal(c) // secrets encode masked
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
