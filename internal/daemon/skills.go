package daemon

import (
	"context"
	"os"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/skill"
)

// skillsSection is how many bytes of each request tell of skills.
const skillsSection = 900

// newSkills finds skills in the home, in the workspace and where other agents
// keep theirs.
func newSkills(home config.Home, workspace string) *skill.Library {
	o := skill.Options{Home: home.Skills(), Workspace: filepath.Join(workspace, ".agents", "skills")}
	if dir, err := os.UserHomeDir(); err == nil && home.Usual() {
		o.Shared = filepath.Join(dir, ".agents", "skills")
	}
	return skill.New(o)
}

// Skills is the library that a Mercury of this home and configuration uses.
func Skills(home config.Home, c *config.Config) *skill.Library {
	return newSkills(home, config.ExpandPath(c.Workspace))
}

// skillPrompt is what a schedule that uses a skill says.
func (p *profiles) skillPrompt(_ context.Context, name string) (string, error) {
	e, b, err := p.skills.Find(name)
	if err != nil {
		return "", err
	}
	return skill.Instructions(e, b, p.workspace)
}
