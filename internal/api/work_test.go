package api

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestASlipOfTheFingerIsNoAnswerToAnApproval(t *testing.T) {
	offered := []mercury.Choice{{Value: "once", Label: "Once"}, {Value: "no", Label: "No"}}
	for _, tt := range []struct {
		name, kind, said, want string
		choices                []mercury.Choice
		refused                bool
	}{
		{"the word", "approval", "once", "once", nil, false},
		{"in capitals, with blanks", "approval", " ALWAYS ", "always", nil, false},
		{"yes is once", "approval", "yes", "once", nil, false},
		{"no is no", "approval", "no", "no", offered, false},
		{"a label", "approval", "Once", "once", offered, false},
		{"a misspelt word", "approval", "onec", "", offered, true},
		{"another language", "approval", "si", "", nil, true},
		{"a text question takes any text", "text", "onec", "onec", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := meant(mercury.Question{Kind: tt.kind, Choices: tt.choices}, tt.said)
			if got != tt.want || (mercury.KindOf(err) == mercury.Invalid) != tt.refused {
				t.Errorf("meant(%q) = %q, %v", tt.said, got, err)
			}
		})
	}
}
