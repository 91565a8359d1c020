package skill

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed use_skill.md
var useUsage string

//go:embed list_skills.md
var listUsage string

//go:embed install_skill.md
var installUsage string

// The names of the tools.
const (
	UseTool     = "use_skill"
	ListTool    = "list_skills"
	InstallTool = "install_skill"
)

// UndoAct marks what a run did to skills among what it did.
const UndoAct = "skill"

// Core returns use_skill, which a model is always told of.
func (l *Library) Core() []tool.Tool { return []tool.Tool{l.use()} }

// More returns list_skills and install_skill.
func (l *Library) More() []tool.Tool { return []tool.Tool{l.listed(), l.install()} }

func own(what string) []mercury.Access {
	return []mercury.Access{{Kind: mercury.OwnState, Target: what}}
}

type useInput struct {
	Name string `json:"name"`
}

func (l *Library) use() tool.Tool {
	return tool.New(UseTool, useUsage, mercury.Read, func(useInput) []mercury.Access { return own("skills") },
		func(_ context.Context, c tool.Call, in useInput) (tool.Output, error) {
			e, b, err := l.Find(in.Name)
			if err != nil {
				return tool.Output{}, err
			}
			text, err := Instructions(e, b, c.Mandate.Workspace)
			if err != nil {
				return tool.Output{}, err
			}
			out := tool.Output{Text: text, Narrows: e.AllowedTools}
			if e.Origin == Workspace || e.Origin == Shared {
				out.Taint = []string{"skill:" + e.Name}
			}
			return out, nil
		})
}

// Instructions is what a skill says to whoever uses it, with where its files
// are.
func Instructions(e Entry, b Bundle, workspace string) (string, error) {
	var s strings.Builder
	fmt.Fprintf(&s, "Skill %s\n\n%s", e.Name, b.Body)
	dir, err := Lay(b, workspace)
	if err != nil {
		return "", err
	}
	if dir != "" {
		fmt.Fprintf(&s, "\n\nIts files are in %s:", dir)
		for _, name := range e.Files {
			fmt.Fprintf(&s, "\n- %s", name)
		}
	}
	if len(e.AllowedTools) > 0 {
		fmt.Fprintf(&s, "\n\nFrom here on only these tools are at hand: %s.", strings.Join(e.AllowedTools, ", "))
	}
	return s.String(), nil
}

func (l *Library) listed() tool.Tool {
	return tool.New(ListTool, listUsage, mercury.Read, func(struct{}) []mercury.Access { return own("skills") },
		func(context.Context, tool.Call, struct{}) (tool.Output, error) {
			all, err := l.List()
			if err != nil {
				return tool.Output{}, err
			}
			var s strings.Builder
			out := tool.Output{}
			for _, e := range all {
				if e.Hidden {
					continue
				}
				if e.Origin == Workspace || e.Origin == Shared {
					out.Taint = append(out.Taint, "skill:"+e.Name)
				}
				fmt.Fprintf(&s, "%s (%s): %s", e.Name, e.Origin, oneLine(e.Description))
				if e.State != Ready {
					fmt.Fprintf(&s, " [cannot be used: %s]", e.Why)
				}
				s.WriteByte('\n')
			}
			if out.Text = strings.TrimSpace(s.String()); out.Text == "" {
				out.Text = "There are no skills."
			}
			return out, nil
		})
}

type installInput struct {
	Content string `json:"content" jsonschema:"the whole SKILL.md"`
}

func (l *Library) install() tool.Tool {
	read := func(in installInput) (Bundle, []Finding, error) {
		b, err := FromText(in.Content)
		if err != nil {
			return b, nil, err
		}
		found := Scan(b)
		if Severe(found) {
			return b, found, blocked(b, found)
		}
		return b, found, nil
	}
	return tool.Define(tool.Definition[installInput]{
		Name: InstallTool, Usage: installUsage, Effect: mercury.Read,
		Access: func(_ context.Context, _ tool.Call, in installInput) ([]mercury.Access, error) {
			b, _, err := read(in)
			if err != nil {
				return nil, err
			}
			return []mercury.Access{change(b)}, nil
		},
		Show: func(_ context.Context, _ tool.Call, in installInput) string {
			b, found, err := read(in)
			if err != nil {
				return ""
			}
			return Summary(b, "this conversation", found) + "\n\n" + string(b.Files[FileName].Text)
		},
		Run: func(_ context.Context, c tool.Call, in installInput) (tool.Output, error) {
			b, _, err := read(in)
			if err != nil {
				return tool.Output{}, err
			}
			if want := change(b); !slices.ContainsFunc(c.Granted, func(a mercury.Access) bool {
				return a.Kind == want.Kind && a.Target == want.Target && a.Detail == want.Detail
			}) {
				return tool.Output{}, wrapped(mercury.Denied, "", "installing the skill %s was not allowed", b.Name)
			}
			before := ""
			if _, err := os.Stat(filepath.Join(l.opts.Home, b.Name)); err == nil {
				before = "replaced"
			}
			if err := l.Install(b, "conversation "+c.ConversationID, string(c.Mandate.Actor.Role)); err != nil {
				return tool.Output{}, err
			}
			row := store.UndoRow{ID: mercury.NewID("un"), RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.ID, Tool: InstallTool,
				Act: UndoAct, Path: b.Name, Before: before, After: b.Hash()}
			return tool.Output{Text: fmt.Sprintf("The skill %s is installed. /skill %s uses it.", b.Name, b.Name),
				Commit: func(tx store.Tx) error {
					row.At = tx.Now()
					return tx.PutUndo(row)
				}}, nil
		},
	})
}

// change is what installing b touches: its hash makes a yes count for exactly
// what was shown.
func change(b Bundle) mercury.Access {
	return mercury.Access{Kind: mercury.Settings, Target: "the skill " + b.Name, Detail: b.Hash()}
}

// blocked words why a skill is kept out.
func blocked(b Bundle, found []Finding) error {
	var lines []string
	for _, f := range found {
		if f.Severe {
			lines = append(lines, f.String())
		}
	}
	return wrapped(mercury.Denied, "Its owner can look at it and install it all the same: mercury skills install SOURCE --anyway",
		"the skill %s was not installed; it looks hostile:\n%s", b.Name, strings.Join(lines, "\n"))
}

// Undo takes back an installation that a run made, or says what that would do.
// A skill that was changed since is left alone.
func (l *Library) Undo(_ context.Context, _ store.Tx, row store.UndoRow, apply bool) (can bool, text string, err error) {
	b, err := ReadFolder(filepath.Join(l.opts.Home, row.Path))
	if err != nil {
		return false, "the skill " + row.Path + " is not there any more", nil
	}
	if b.Hash() != row.After {
		return false, "the skill " + row.Path + " has changed since", nil
	}
	if row.Before != "" {
		if former, err := ReadFolder(l.Former(row.Path)); err == nil && former.Name == row.Path {
			if apply {
				err = l.Restore(row.Path)
			}
			return true, "the skill " + row.Path + " is as it was", err
		}
	}
	if apply {
		err = l.Remove(row.Path)
	}
	return true, "the skill " + row.Path + " is removed", err
}
