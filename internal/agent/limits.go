package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Limits bound one turn, or one continuation of it. A zero field means its
// default, a negative one no limit.
type Limits struct {
	Steps  int           // calls of the model; default 50
	Tokens int64         // in and out, cached input counted a tenth; default 300,000
	Time   time.Duration // in hand; waiting for people does not count; default 20 min
}

func (l Limits) withDefaults() Limits {
	if l.Steps == 0 {
		l.Steps = 50
	}
	if l.Tokens == 0 {
		l.Tokens = 300_000
	}
	if l.Time == 0 {
		l.Time = 20 * time.Minute
	}
	return l
}

// The codes under which a run stops at a limit.
const (
	codeSteps    = "limit_steps"
	codeTokens   = "limit_tokens"
	codeTime     = "limit_time"
	codeRepeated = "repeated_call"
)

// spend is what a turn has used since it began or was last told to go on.
type spend struct {
	steps   int
	tokens  int64
	running time.Duration
}

// over names the first limit s has reached and says it in words, or returns
// nothing.
func (l Limits) over(s spend) (code, words string) {
	switch {
	case l.Steps > 0 && s.steps >= l.Steps:
		return codeSteps, fmt.Sprintf("%d steps", s.steps)
	case l.Tokens > 0 && s.tokens >= l.Tokens:
		return codeTokens, fmt.Sprintf("%d thousand tokens", s.tokens/1000)
	case l.Time > 0 && s.running >= l.Time:
		return codeTime, fmt.Sprintf("%d minutes of work", int(s.running.Minutes()))
	}
	return "", ""
}

// limitStep is the journal's memory of a limit that was reached: what had been
// used by then, so that a continuation counts from there.
type limitStep struct {
	Code    string        `json:"code"`
	Words   string        `json:"words"`
	Round   int           `json:"round"` // the last round that counted
	Running time.Duration `json:"running"`
}

// Answers to the question a limit asks.
const (
	answerGoOn  = "go_on"
	answerToday = "today"
	answerStop  = "stop"
)

func limitQuestion(run mercury.Run, callID string, l limitStep, done string) mercury.Question {
	return mercury.Question{
		ID: mercury.NewID("qu"), RunID: run.ID, ConversationID: run.ConversationID, CallID: callID,
		Kind:  "limit",
		Title: "I have used " + l.Words + " on this. Shall I go on?",
		Body:  done,
		Choices: []mercury.Choice{
			{Value: answerGoOn, Label: "Go on"},
			{Value: answerToday, Label: "No limit for the rest of today"},
			{Value: answerStop, Label: "Stop"},
		},
		AskedBy: run.Actor,
		State:   mercury.QuestionOpen,
	}
}

// endOfDay is the coming midnight in zone.
func endOfDay(t time.Time, zone *time.Location) time.Time {
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}

// doneCall is a call with its result, as far as repeating it goes.
type doneCall struct {
	tool, args, result string
	isError            bool
}

// key is what makes two calls the same: tool, arguments and result. A failure
// is the same failure whatever its wording.
func (c doneCall) key() string {
	if c.isError {
		return c.tool + "\x00" + c.args + "\x00error"
	}
	return c.tool + "\x00" + c.args + "\x00=" + c.result
}

// maxRepeats is how often one call may come back the same before the turn
// stops.
const maxRepeats = 3

// repeated finds the call that has come back the same maxRepeats times with
// nothing new in between. A call that never happened before, or one with
// another outcome, is something new: tests run again after an edit are work,
// two calls taking turns are a loop.
func repeated(calls []doneCall) (doneCall, bool) {
	seen, count := map[string]bool{}, map[string]int{}
	for _, c := range calls {
		k := c.key()
		if !seen[k] {
			seen[k] = true
			clear(count)
		}
		if count[k]++; count[k] >= maxRepeats {
			return c, true
		}
	}
	return doneCall{}, false
}

// canonical writes JSON arguments so that equal ones are equal bytes.
func canonical(args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(args)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(args)
	}
	return string(b)
}

// finished pairs the calls of a run after round with their results, in call
// order.
func finished(entries []mercury.Entry, run string, round int) []doneCall {
	results := map[string]resultData{}
	for _, e := range entries {
		if e.RunID == run && e.Kind == mercury.ToolResultEntry {
			results[e.CallID] = data[resultData](e)
		}
	}
	var calls []doneCall
	for _, e := range entries {
		if e.RunID != run || e.Kind != mercury.ToolCallEntry || e.Round <= round {
			continue
		}
		if r, ok := results[e.CallID]; ok {
			d := data[callData](e)
			calls = append(calls, doneCall{d.Tool, canonical(d.Args) + d.BadArgs, r.Result, r.IsError})
		}
	}
	return calls
}

// whatWasDone sums up a run's calls for a person: each tool with how often it
// ran, in the order of first use.
func whatWasDone(calls []doneCall) string {
	var order []string
	ok, failed := map[string]int{}, map[string]int{}
	for _, c := range calls {
		if ok[c.tool]+failed[c.tool] == 0 {
			order = append(order, c.tool)
		}
		if c.isError {
			failed[c.tool]++
		} else {
			ok[c.tool]++
		}
	}
	if len(order) == 0 {
		return "No tool has run yet."
	}
	parts := make([]string, len(order))
	for i, name := range order {
		parts[i] = fmt.Sprintf("%s %d×", name, ok[name]+failed[name])
		if failed[name] > 0 {
			parts[i] += fmt.Sprintf(" (%d failed)", failed[name])
		}
	}
	return "Done so far: " + strings.Join(parts, ", ") + "."
}

// harmless are the tools that a narrowed run keeps: they ask, look things up
// about Mercury itself, or end.
var harmless = []string{"ask_user", "budget_status", "end_run", "list_skills", tool.FindTools, "use_skill"}

// narrowed is what of the allowed tools (nil: all) is left to a run in a round,
// after what its earlier results have narrowed it to. It never adds one.
func narrowed(allowed []string, entries []mercury.Entry, run string, round int) []string {
	for _, e := range entries {
		if e.Kind != mercury.ToolResultEntry || e.RunID != run || e.Round >= round {
			continue
		}
		to := data[resultData](e).Narrows
		if len(to) == 0 {
			continue
		}
		left := []string{}
		for _, name := range slices.Concat(to, harmless) {
			if (allowed == nil || slices.Contains(allowed, name)) && !slices.Contains(left, name) {
				left = append(left, name)
			}
		}
		allowed = left
	}
	return allowed
}
