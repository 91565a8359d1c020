package agent

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Everything a person reads about a turn that did not go well is worded here.

// sayUnreachable is told once while a model cannot be reached.
func sayUnreachable(err error) string {
	return "I cannot reach the model just now (" + reason(err) + "). Your message is kept; I answer when it is back."
}

// sayStillWanted asks after hours of waiting.
func sayStillWanted(err error) string {
	return "The model has been out of reach for six hours (" + reason(err) + "). Is the answer still wanted?"
}

// sayDropped ends a run whose answer is no longer wanted.
const sayDropped = "Dropped: the answer is no longer wanted."

// sayRefused is the provider's own words and how to mend it.
func sayRefused(err error) string {
	e := llmError(err)
	who := e.Provider
	if who == "" {
		who = "the provider"
	}
	said := e.Message
	if said == "" {
		said = string(e.Class)
	}
	text := fmt.Sprintf("%s refused: %s\n", who, said)
	switch e.Class {
	case llm.Auth:
		text += fmt.Sprintf("Check the key of %s in .env or mercury.yaml (`mercury setup` walks through it).", who)
	case llm.Quota:
		text += fmt.Sprintf("The account with %s has no credit left: top it up, or choose another model with `mercury setup`.", who)
	case llm.UnknownModel:
		text += "Choose a model it has: `mercury config set model PROVIDER/MODEL`."
	case llm.ContextLength:
		text = "This does not fit into the model's window, even with everything else left out."
		if e.Message != "" {
			text += " " + who + " says: " + e.Message
		}
		return text + "\nSend it as a file, or in parts."
	default:
		text += "Asking again would not help. `/new` starts afresh, `mercury setup` chooses another model."
		return text + " Your message is kept."
	}
	return text + " Your message is kept: `mercury runs replay` answers it afterwards."
}

// sayGaveUp ends a run nobody waits for in a chat.
func sayGaveUp(err error) string {
	return "The model did not answer after several attempts (" + reason(err) + ")."
}

// sayQuestion is a question as text, for faces without buttons.
func sayQuestion(q mercury.Question) string {
	text := q.Title
	if q.Body != "" && q.Body != q.Title {
		text += "\n\n" + q.Body
	}
	for i, c := range q.Choices {
		if i == 0 {
			text += "\n"
		}
		text += "\n- " + howToAnswer(q, c)
		if c.Label != "" && c.Label != c.Value {
			text += ": " + c.Label
		}
	}
	return text
}

// howToAnswer is what a person writes to choose c. Ordinary words never give
// an approval; the command does.
func howToAnswer(q mercury.Question, c mercury.Choice) string {
	if q.Kind != "approval" {
		return c.Value
	}
	switch c.Value {
	case mercury.AnswerOnce:
		return "/yes"
	case mercury.AnswerNo:
		return "/no"
	}
	return "/yes " + c.Value
}

// sayFallback says who answered in place of whom, and why.
func sayFallback(r llm.Response) string {
	var skipped []string
	for _, s := range r.Skipped {
		why := s.Reason
		if why == "" {
			why = string(s.Class)
		}
		skipped = append(skipped, fmt.Sprintf("%s/%s did not answer (%s)", s.Provider, s.Model, preview(why, 160)))
	}
	return fmt.Sprintf("%s. %s answered instead.", strings.Join(skipped, ", "), origin(r))
}

// sayCompacted tells how the shortening of a conversation has ended.
func sayCompacted(r CompactResult) string {
	switch r.Outcome {
	case Compacted:
		text := fmt.Sprintf("Shortened: about %d tokens of older messages are now %d. They stay stored and can be searched.", r.Before, r.After)
		if r.Mechanical {
			text += " The model could not sum them up, so I kept the beginnings of what you said last."
		}
		return text
	case CompactStale:
		return "Not shortened: the conversation was shortened or begun afresh meanwhile."
	case CompactFailed:
		return "Not shortened: the model could not sum it up. Nothing was changed."
	}
	return "Nothing to shorten: what I look at here is short already."
}

// sayUsed tells how much of a budget is used.
func sayUsed(s budget.State) string {
	if s.Percent() >= budget.Full {
		return "The budget is used up: " + s.Words() + ". I ask before I go on; /budget shows and changes it."
	}
	return fmt.Sprintf("%d%% of the budget is used: %s. Schedules and bots stop here, the rest is yours; /budget shows and changes it.", s.Percent(), s.Words())
}

// sayBudget ends a run that is not paid for, with nobody to ask.
func sayBudget(s budget.State, done string) string {
	return "I stopped for the budget: " + s.Words() + ". " + done + " /budget today lets work go on until midnight, `mercury runs replay` does this again."
}

// sayBudgetStopped ends a run at a person's word.
func sayBudgetStopped(s budget.State, done string) string {
	return "Stopped, as you said: " + s.Words() + ". " + done
}

// sayLimit ends a run that reached a limit with nobody to ask.
func sayLimit(l limitStep, done string) string {
	return "I stopped after " + l.Words + ", which is the limit of one turn. " + done
}

// sayStopped ends a run at a person's word.
func sayStopped(l limitStep, done string) string {
	return "Stopped after " + l.Words + ", as you said. " + done
}

// sayRepeated ends a run that goes in circles.
func sayRepeated(c doneCall, done string) string {
	how := "and it came back the same each time"
	if c.isError {
		how = "and it failed each time: " + preview(c.result, 200)
	}
	return fmt.Sprintf("I stopped: I called %s %d times with the same arguments, %s. %s", c.tool, maxRepeats, how, done)
}

// sayFiltered ends a turn whose answer the provider withheld.
func sayFiltered(who, said string) string {
	text := who + " declined to answer (content filter)."
	if said != "" {
		text += " " + said
	}
	return text + " Saying it in other words may help."
}

// sayEmpty ends a turn in which the model had nothing to say, twice.
func sayEmpty(who, done string) string {
	return who + " gave an empty answer, twice. " + done + " Ask again, or choose another model with `mercury setup`."
}

// sayCut marks an answer that hit the output limit for a second time.
const sayCut = "\n\n[cut off: the model's limit for one answer was reached]"

// What the model is told, as notes.
const (
	tellNudge    = "Your last answer was empty. Answer in words now: what was found or done, or why nothing can be said."
	tellContinue = "Your last answer was cut off at the output limit. Go on exactly where it stopped, without repeating anything."
	tellCutCall  = "Your last call was cut off at the output limit and did not run. Make it smaller, or do it in several calls."
	tellConcise  = "The budget is nearly used: answer briefly, and call no tool that is not needed."
	tellStubs    = "Older tool outputs were left out to make room."
	tellCut      = "Older messages were left out to make room; they can still be found in the conversation."
	tellNo       = "The owner said no. Find another way, or say what you would need."
	tellExpired  = "Nobody answered in time, which counts as no. Find another way, or say what you would need."
	tellNoAnswer = "Nobody answered in time. Go on without it as well as you can, or say what is missing."
)

// reason is err in a few words.
func reason(err error) string {
	e := llmError(err)
	switch e.Class {
	case llm.RateLimit:
		return "it asks for a pause"
	case llm.TimeoutIdle, llm.TimeoutTotal:
		return "no answer in time"
	case llm.StreamCut:
		return "the connection broke off"
	case llm.Malformed:
		return "its answer could not be read"
	case llm.Unavailable:
		if e.Status == 0 && e.Err != nil {
			return noConnection(e.Err)
		}
	}
	said := e.Message
	if said == "" && e.Err != nil {
		said = e.Err.Error()
	}
	if said == "" {
		said = string(e.Class)
	}
	return preview(said, 200)
}

// noConnection is why nothing was heard of a provider at all.
func noConnection(err error) string {
	var name *net.DNSError
	if errors.As(err, &name) {
		return "the name " + name.Name + " is not found; is this machine online?"
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return "nothing answers at its address"
	}
	return "there is no connection to it"
}
