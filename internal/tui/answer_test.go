package tui

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestEnterAloneIsNoAndOnlyAnAnswerIsOne(t *testing.T) {
	approval := api.Question{Kind: "approval"}
	choice := api.Question{Kind: "choice", Choices: []mercury.Choice{{Value: "go_on", Label: "Go on"}, {Value: "stop", Label: "Stop"}}}
	for _, tt := range []struct {
		q      api.Question
		line   string
		answer string
		ok     bool
	}{
		{approval, "\n", mercury.AnswerNo, true},
		{approval, "  \r\n", mercury.AnswerNo, true},
		{approval, "n", mercury.AnswerNo, true},
		{approval, "Yes", mercury.AnswerOnce, true},
		{approval, "always", mercury.AnswerAlways, true},
		{approval, "yes please do it", "", false},
		{approval, "what would it do?", "", false},
		{choice, "2", "stop", true},
		{choice, "go on", "go_on", true},
		{choice, "", "", false},
	} {
		answer, ok := AnswerTo(tt.q, tt.line)
		if ok != tt.ok || ok && answer != tt.answer {
			t.Errorf("AnswerTo(%s, %q) = %q, %v", tt.q.Kind, tt.line, answer, ok)
		}
	}
}
