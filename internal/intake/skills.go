package intake

import (
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/skill"
)

// What /skill has the model do. They are messages of the person who wrote the
// command, so they pass the same gate as any other.
const (
	useSkill  = "Use the skill %s (load it with use_skill)."
	saveSkill = `Make a skill of what we just did. Load the skill "template" first. Then write a SKILL.md with a name, a description that says when to use it, ` +
		"and the steps that worked, without keys, passwords, names of people or paths that only fit this time. Call install_skill with it: I see it and decide. If there is nothing worth keeping, say so instead."
)

// skillPrompt turns "/skill NAME TASK" and "/skill save" into the message that
// they stand for. Whatever else begins with /skill is left to the command, which
// says what is wrong.
func (i *Intake) skillPrompt(m mercury.Message) string {
	name, args, ok := parseCommand(m.Text)
	if !ok || name != "skill" || i.opts.Skills == nil || args == "" {
		return m.Text
	}
	which, task, _ := strings.Cut(args, " ")
	if which == "save" {
		return strings.TrimSpace(saveSkill + " " + strings.TrimSpace(task))
	}
	if _, _, err := i.opts.Skills.Find(which); err != nil {
		return m.Text
	}
	return strings.TrimSpace(fmt.Sprintf(useSkill, which) + " " + strings.TrimSpace(task))
}

// oneSkill answers for a skill that cannot be used.
func (i *Intake) oneSkill(_ *engine.Tx, call Call) (Reply, error) {
	if i.opts.Skills == nil {
		return Reply{}, invalid("there are no skills here", "")
	}
	name, _, _ := strings.Cut(call.Args, " ")
	if name == "" {
		return Reply{}, invalid("which skill?", "/skills lists them; then /skill NAME and what to do.")
	}
	_, _, err := i.opts.Skills.Find(name)
	return Reply{Text: "Say what it shall do: /skill " + name + " TASK"}, err
}

func (i *Intake) listSkills(*engine.Tx, Call) (Reply, error) {
	if i.opts.Skills == nil {
		return Reply{Text: "There are no skills here."}, nil
	}
	all, err := i.opts.Skills.List()
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s (%s): %s", e.Name, e.Origin, e.Description)
		if e.State != skill.Ready {
			fmt.Fprintf(&b, " [cannot be used: %s]", e.Why)
		}
		b.WriteByte('\n')
	}
	b.WriteString("/skill NAME uses one; /skill save makes one of what we just did.")
	return Reply{Text: b.String()}, nil
}

func (i *Intake) skillNames(*engine.Tx, Call) ([]string, error) {
	if i.opts.Skills == nil {
		return nil, nil
	}
	all, err := i.opts.Skills.List()
	names := []string{"save"}
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names, err
}
