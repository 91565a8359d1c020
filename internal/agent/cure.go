package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// How a chat waits for a model that is out of reach.
const (
	firstWait   = 15 * time.Second
	longestWait = 15 * time.Minute
	patience    = 6 * time.Hour // then its person is asked
)

// attempts is how often work nobody waits for in a chat is tried.
const attempts = 3

// failure is a model call that failed for a reason that passes.
type failure struct {
	err    error
	since  time.Time // when the model was first found out of reach
	callID string    // of the question whether the answer is still wanted
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// waitable reports whether waiting mends a failure of this class.
func waitable(c llm.Class) bool {
	switch c {
	case llm.RateLimit, llm.Unavailable, llm.StreamCut, llm.Malformed, llm.TimeoutIdle, llm.TimeoutTotal:
		return true
	}
	return false
}

// Cure says what a turn's error means. Whoever waits in a chat is told once
// that the model is out of reach; the run is tried again, at growing
// distances, for six hours, and then asks whether its answer is still wanted.
// Other work is tried three times. What waiting does not mend goes to the dead
// list at once, with the provider's own words, and can be replayed.
func (a *Agent) Cure(run mercury.Run, err error) engine.Cure {
	class := llm.ClassOf(err)
	if class == "" {
		return cureOther(run, err)
	}
	code := "provider_" + string(class)
	e := llmError(err)
	if !waitable(class) && (class != llm.Quota || e.RetryAfter == 0 || e.RetryAfter > patience) {
		return engine.Cure{Do: engine.Dead, Code: code}
	}
	if run.Lane != mercury.Chat {
		if run.Attempts+1 >= attempts {
			return engine.Cure{Do: engine.Dead, Code: code}
		}
		return engine.Cure{Do: engine.Retry, After: e.RetryAfter, Code: code}
	}
	since, callID := a.opts.Now(), wantedID(0)
	if f := (*failure)(nil); errors.As(err, &f) {
		since, callID = f.since, f.callID
	}
	waited := a.opts.Now().Sub(since)
	if waited >= patience {
		q := wantedQuestion(run, callID, err)
		return engine.Cure{Do: engine.Requeue, Code: code, Ask: &q}
	}
	wait := max(min(max(waited/2, firstWait), longestWait), e.RetryAfter)
	return engine.Cure{Do: engine.Requeue, After: wait, Code: "provider_unreachable", Notice: sayUnreachable(err)}
}

// cureOther is for what did not come from a model.
func cureOther(run mercury.Run, err error) engine.Cure {
	switch mercury.KindOf(err) {
	case mercury.Transient, mercury.Unknown, mercury.Full:
		if run.Attempts+1 < attempts {
			return engine.Cure{Do: engine.Retry, Code: "internal"}
		}
		return engine.Cure{Do: engine.Dead, Code: "internal"}
	case mercury.Setup:
		return engine.Cure{Do: engine.Dead, Code: "setup"}
	}
	return engine.Cure{Do: engine.Fail, Code: "internal"}
}

// Failure words the end of a run that failed or went to the dead list.
func (a *Agent) Failure(_ mercury.Run, code string, err error) string {
	switch class := llm.ClassOf(err); {
	case class == "":
		// What went wrong inside is for the log; a person gets what they can
		// act on.
		text := "I could not finish this."
		if help := mercury.HelpOf(err); help != "" {
			text += " " + help
		}
		return fmt.Sprintf("%s [reason: %s]", text, code)
	case waitable(class):
		return fmt.Sprintf("%s [reason: %s]", sayGaveUp(err), code)
	}
	return fmt.Sprintf("%s [reason: %s]", sayRefused(err), code)
}

// llmError is the model's error in err's chain, or an empty one.
func llmError(err error) *llm.Error {
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	return &llm.Error{Err: err}
}

// Answers to whether a late answer is still wanted.
const (
	answerWanted  = "yes"
	answerDropped = "no"
)

const codeNotWanted = "not_wanted"

func wantedID(round int) string { return fmt.Sprintf("wanted-%d", round) }

func wantedQuestion(run mercury.Run, callID string, err error) mercury.Question {
	return mercury.Question{
		ID: mercury.NewID("qu"), RunID: run.ID, ConversationID: run.ConversationID, CallID: callID,
		Kind:  "choice",
		Title: sayStillWanted(err),
		Choices: []mercury.Choice{
			{Value: answerWanted, Label: "Yes, keep trying"},
			{Value: answerDropped, Label: "No, drop it"},
		},
		AskedBy: run.Actor,
		State:   mercury.QuestionOpen,
	}
}
