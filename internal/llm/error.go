package llm

import (
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Class says what went wrong with a call of a model, and so what can be done.
type Class string

const (
	ContextLength    Class = "context_length" // the request is too long: compact it
	RateLimit        Class = "rate_limit"     // wait, RetryAfter if it is known
	Quota            Class = "quota"          // paid for no more: another model, or a person
	Auth             Class = "auth"           // the key was refused: a person must act
	BadRequest       Class = "bad_request"    // refused as it stands; never repeat it
	Unavailable      Class = "unavailable"    // overloaded, broken or out of reach
	StreamCut        Class = "stream_cut"     // ended without its end marker
	Malformed        Class = "malformed"      // an answer that cannot be read
	TimeoutIdle      Class = "timeout_idle"   // silence, before or between bytes
	TimeoutTotal     Class = "timeout_total"  // the caller's deadline passed
	Empty            Class = "empty"          // a finished answer without text or call
	Canceled         Class = "canceled"       // the caller went away
	ContentFiltered  Class = "content_filter" // the provider declined to answer
	UnknownModel     Class = "unknown_model"  // the provider has no such model
	ForeignReasoning Class = "reasoning"      // signature or thinking refused: send again without it
)

// Error is a failed call. Its text is fit for a person: the provider's own
// words, capped and without secrets.
type Error struct {
	Class      Class
	Status     int           // HTTP status, 0 when none was seen
	Code       string        // the provider's code or type
	RetryAfter time.Duration // 0 when the provider did not say
	Provider   string
	Model      string
	Message    string // the provider's words, capped at 600 bytes, secrets blanked
	Raw        string // body or event as received, capped at 4 KB, secrets blanked
	Limit      int    // for ContextLength: the window in tokens, if it was named
	Err        error  // what lies beneath, if anything
}

func (e *Error) Error() string {
	who := e.Provider
	if who == "" {
		who = "model"
	}
	if e.Model != "" {
		who += "/" + e.Model
	}
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.Status != 0 {
		return fmt.Sprintf("ask %s: %s (%s, HTTP %d)", who, text, e.Class, e.Status)
	}
	return fmt.Sprintf("ask %s: %s (%s)", who, text, e.Class)
}

func (e *Error) Unwrap() error { return e.Err }

// Kind says in the words of the house what can be done about e.
func (e *Error) Kind() mercury.Kind {
	switch e.Class {
	case RateLimit, Unavailable, StreamCut, Malformed, TimeoutIdle, TimeoutTotal, Empty:
		return mercury.Transient
	case ContextLength, BadRequest, UnknownModel, ForeignReasoning:
		return mercury.Invalid
	case Auth, Quota:
		return mercury.Setup
	case ContentFiltered:
		return mercury.Denied
	}
	return mercury.Unknown
}

// ClassOf returns the class of the first Error in err's chain, else "".
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// As lets mercury.KindOf and mercury.HelpOf read e as an error of the house.
func (e *Error) As(target any) bool {
	t, ok := target.(**mercury.Error)
	if !ok {
		return false
	}
	// Err is e's text rather than e, so that a walk down the chain ends.
	*t = &mercury.Error{Kind: e.Kind(), After: e.RetryAfter, Help: e.Help(), Err: errors.New(e.Error())}
	return true
}

// Help says in one sentence what a person can do, "" when it passes by itself
// or nothing can be done.
func (e *Error) Help() string {
	who := e.Provider
	if who == "" {
		who = "the provider"
	}
	switch e.Class {
	case Auth:
		return "Check the key of " + who + " and what its account may use."
	case Quota:
		return "Add credit at " + who + ", or choose another model."
	case UnknownModel:
		return "Choose a model that " + who + " offers; it names " + e.Model + " as unknown."
	case ContextLength:
		return "Start a new conversation, or choose a model with a larger window."
	case ContentFiltered:
		return "Say it differently, or choose another model."
	}
	return ""
}
