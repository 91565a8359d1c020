// Package ask holds the tool with which a model asks a person. It only words
// the question: the run parks on it, and the answer becomes the result.
package ask

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed ask.md
var usage string

type input struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices,omitempty"`
}

// Limits of a question, in bytes and in choices; buttons hold no more.
const (
	questionMax = 4000
	choiceMax   = 200
	choicesMax  = 12
	titleMax    = 200
)

// User returns the tool ask_user.
func User() tool.Tool {
	return tool.Define(tool.Definition[input]{
		Name: "ask_user", Usage: usage, Effect: mercury.Read,
		Access: func(_ context.Context, _ tool.Call, in input) ([]mercury.Access, error) {
			if err := check(in); err != nil {
				return nil, err
			}
			return []mercury.Access{{Kind: mercury.AskPerson, Target: in.Question}}, nil
		},
		Run: func(_ context.Context, c tool.Call, in input) (tool.Output, error) {
			if err := check(in); err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Question: question(c, in)}, nil
		},
	})
}

func check(in input) error {
	invalid := func(text string) error { return &mercury.Error{Kind: mercury.Invalid, Err: errors.New(text)} }
	switch {
	case strings.TrimSpace(in.Question) == "":
		return invalid("the question is empty")
	case len(in.Question) > questionMax:
		return invalid(fmt.Sprintf("the question is longer than %d bytes", questionMax))
	case len(in.Choices) == 1:
		return invalid("one choice is none; offer two or more, or leave choices out")
	case len(in.Choices) > choicesMax:
		return invalid(fmt.Sprintf("there are %d choices; at most %d can be offered", len(in.Choices), choicesMax))
	}
	seen := map[string]bool{}
	for _, choice := range in.Choices {
		switch {
		case strings.TrimSpace(choice) == "":
			return invalid("a choice is empty")
		case len(choice) > choiceMax:
			return invalid(fmt.Sprintf("a choice is longer than %d bytes", choiceMax))
		case seen[choice]:
			return invalid(fmt.Sprintf("the choice %q stands twice", choice))
		}
		seen[choice] = true
	}
	return nil
}

func question(c tool.Call, in input) *mercury.Question {
	text := tool.Clean(in.Question)
	q := &mercury.Question{
		ID: mercury.NewID("qu"), RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.ID,
		Kind: "text", Title: title(text), Body: text,
		AskedBy: c.Mandate.Actor, State: mercury.QuestionOpen,
	}
	for _, choice := range in.Choices {
		q.Kind = "choice"
		label := tool.Clean(choice)
		q.Choices = append(q.Choices, mercury.Choice{Value: label, Label: label})
	}
	return q
}

// title is the first line of the question, as far as it fits.
func title(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) <= titleMax {
		return line
	}
	return strings.ToValidUTF8(line[:titleMax-len("…")], "") + "…"
}
