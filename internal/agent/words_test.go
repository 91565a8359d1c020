package agent

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestWhyAModelIsOutOfReachIsSaidInAPersonsWords(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	for _, tt := range []struct {
		err  *llm.Error
		want string
	}{
		{&llm.Error{Class: llm.Unavailable, Message: "out of reach: dial tcp 127.0.0.1:1: connect: connection refused", Err: dial}, "nothing answers at its address"},
		{&llm.Error{Class: llm.Unavailable, Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.example.com"}}},
			"the name api.example.com is not found; is this machine online?"},
		{&llm.Error{Class: llm.Unavailable, Err: io.ErrUnexpectedEOF}, "there is no connection to it"},
		{&llm.Error{Class: llm.Unavailable, Status: 503, Message: "Overloaded", Err: io.EOF}, "Overloaded"},
		{&llm.Error{Class: llm.StreamCut, Message: "the connection broke"}, "the connection broke off"},
		{&llm.Error{Class: llm.TimeoutIdle}, "no answer in time"},
	} {
		if got := reason(tt.err); got != tt.want {
			t.Errorf("reason of %v is %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestAQuestionInTextSaysHowItIsAnswered(t *testing.T) {
	approval := mercury.Question{Kind: "approval", Title: "run make", Body: "make", Choices: []mercury.Choice{
		{Value: mercury.AnswerOnce, Label: "Once"}, {Value: mercury.AnswerRun, Label: "For this run"}, {Value: mercury.AnswerNo, Label: "No"}}}
	if got, want := sayQuestion(approval), "run make\n\nmake\n\n- /yes: Once\n- /yes run: For this run\n- /no: No"; got != want {
		t.Errorf("an approval: %q, want %q", got, want)
	}
	choice := mercury.Question{Kind: "choice", Title: "Which?", Choices: []mercury.Choice{{Value: "red"}, {Value: "blue", Label: "Blue"}}}
	if got, want := sayQuestion(choice), "Which?\n\n- red\n- blue: Blue"; got != want {
		t.Errorf("a choice: %q, want %q", got, want)
	}
}
