package agent

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAQuestionInTextSaysHowItIsAnswered(t *testing.T) {
	choices := func(values ...string) (cs []mercury.Choice) {
		for _, v := range values {
			cs = append(cs, mercury.Choice{Value: v, Label: "Label of " + v})
		}
		return cs
	}
	for _, tt := range []struct {
		name        string
		q           mercury.Question
		want, never string
	}{
		{"an approval with all rights", mercury.Question{Kind: "approval", Title: "run x", Body: "x\n", Always: "run:=x",
			Choices: choices("once", "run", "hour", "always", "no")},
			"run x\n\nx\n\n/yes – this once\n/yes run – for this run\n/yes hour – for one hour\n/yes always – from now on: run:=x\n/no – refuse", "Label"},
		{"an approval that lasts for once only", mercury.Question{Kind: "approval", Title: "run x", Choices: choices("once", "no")},
			"/yes – this once\n/no – refuse", "always"},
		{"an approval without choices", mercury.Question{Kind: "approval", Title: "run x"}, "/yes allows it, /no refuses.", "always"},
		{"a choice", mercury.Question{Kind: "choice", Title: "Which?", Choices: choices("a", "b")},
			"Which?\n\n1. Label of a\n2. Label of b\n\nAnswer with a number.", "/yes"},
		{"a text", mercury.Question{Kind: "text", Title: "Your name?"}, "Your name?", "number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := sayQuestion(tt.q)
			if !strings.HasSuffix(got, tt.want) || strings.Contains(got, tt.never) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}
