package tool

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// bodyMax bounds what an approval shows; a person reads no more than that.
const bodyMax = 12 << 10

// question puts a call before a person: what it is in one line, the exact
// thing, and what may be answered. It expires and is stored elsewhere.
func question(ctx context.Context, t Tool, c Call, p Prepared) *mercury.Question {
	return &mercury.Question{
		ID: mercury.NewID("qu"), RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.ID,
		Kind:     "approval",
		Title:    title(c, p),
		Body:     body(ctx, t, c, p.Accesses),
		Choices:  choices(p.Judgement),
		Accesses: p.Accesses,
		Hash:     p.Judgement.Hash,
		Rule:     p.Judgement.Rule,
		Always:   p.Judgement.Always,
		AskedBy:  c.Mandate.Actor,
		State:    mercury.QuestionOpen,
	}
}

// title is one line: what would happen, and why that is asked.
func title(c Call, p Prepared) string {
	what := c.Name
	if len(p.Accesses) > 0 {
		what = Phrase(near(p.Accesses[0], c.Mandate.Workspace))
		if more := len(p.Accesses) - 1; more > 0 {
			what += fmt.Sprintf(" and %d more", more)
		}
	}
	if why := strings.TrimSpace(p.Judgement.Why); why != "" {
		if folder := c.Mandate.Workspace; folder != "" {
			why = strings.ReplaceAll(why, folder+string(filepath.Separator), "")
		}
		what += " (" + strings.TrimRight(why, ".") + ")"
	}
	return oneLine(what, 200)
}

// near is an access whose path, if it lies in the workspace, is told from
// there: a title is one line. The body has it whole.
func near(a mercury.Access, workspace string) mercury.Access {
	switch a.Kind {
	case mercury.ReadPath, mercury.WritePath, mercury.DeletePath:
		if rel, err := filepath.Rel(workspace, a.Target); err == nil && filepath.IsLocal(rel) && rel != "." {
			a.Target = rel
		}
	}
	return a
}

// body is the exact thing. A tool that can show its call does; else the
// accesses speak for it.
func body(ctx context.Context, t Tool, c Call, accesses []mercury.Access) string {
	var text string
	if s, ok := t.(Shower); ok {
		text = s.Show(ctx, c)
	}
	if text == "" {
		lines := make([]string, len(accesses))
		for i, a := range accesses {
			lines[i] = Phrase(a)
		}
		text = strings.Join(lines, "\n")
	}
	text = visible(text)
	if len(text) > bodyMax {
		rest := len(text) - bodyMax
		text = fmt.Sprintf("%s\n… and %d bytes more", cut(text, bodyMax), rest)
	}
	return text
}

func choices(j mercury.Judgement) []mercury.Choice {
	cs := []mercury.Choice{
		{Value: mercury.AnswerOnce, Label: "Once"},
		{Value: mercury.AnswerRun, Label: "For this run"},
		{Value: mercury.AnswerHour, Label: "For one hour"},
	}
	if j.Always != "" {
		cs = append(cs, mercury.Choice{Value: mercury.AnswerAlways, Label: "Always: " + j.Always})
	}
	return append(cs, mercury.Choice{Value: mercury.AnswerNo, Label: "No"})
}

// Phrase says an access in a person's words, with its detail.
func Phrase(a mercury.Access) string {
	verbs := map[mercury.AccessKind]string{
		mercury.ReadPath: "read ", mercury.WritePath: "write ", mercury.DeletePath: "delete ",
		mercury.RunCommand: "run ", mercury.FetchURL: "fetch ", mercury.SendTo: "send to ",
		mercury.Spend: "spend ", mercury.Settings: "change ", mercury.AskPerson: "ask ",
		mercury.OwnState: "use ", mercury.Foreign: "call ",
	}
	verb, ok := verbs[a.Kind]
	if !ok {
		verb = string(a.Kind) + " "
	}
	what := a.Target
	if what == "" {
		what = strings.Join(a.Argv, " ")
	}
	if a.Detail != "" && what != "" {
		what += " (" + a.Detail + ")"
	}
	return verb + what
}
