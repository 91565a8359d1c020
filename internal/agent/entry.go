package agent

import (
	"encoding/json"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// What an entry's Data holds, by kind. These shapes are on disk for as long as
// a conversation lives: fields are added, never renamed.

// userData comes with a user entry. The text of a message is the entry's Text.
type userData struct {
	Files []mercury.File `json:"files,omitempty"`
}

// assistantData is an answer as the model gave it. Its calls stand in Parts by
// id alone; what they asked for is in the tool_call entries, so that it is
// kept once.
type assistantData struct {
	Parts   []llm.Part `json:"parts,omitempty"`
	Model   string     `json:"model,omitempty"` // provider/model
	Finish  llm.Finish `json:"finish,omitempty"`
	Aborted bool       `json:"aborted,omitempty"` // what had been streamed when the answer was broken off
}

// callData is a tool_call entry: what the model asked for.
type callData struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	BadArgs string          `json:"bad_args,omitempty"` // what it wrote when that was no JSON object
}

// resultData is a tool_result entry: what the model sees, and what only people
// see.
type resultData struct {
	Tool    string         `json:"tool"`
	Result  string         `json:"result"`
	IsError bool           `json:"is_error,omitempty"`
	Diff    string         `json:"diff,omitempty"`
	Fence   string         `json:"fence,omitempty"` // the fence a command ran in
	Files   []mercury.File `json:"files,omitempty"`
	Whole   string         `json:"whole,omitempty"` // path of the output before it was cut
	Loads   []string       `json:"loads,omitempty"` // tools the model is told about from here on
	Narrows []string       `json:"narrows,omitempty"`
	Ends    *tool.End      `json:"ends,omitempty"` // it asks that the turn ends
}

// The kinds of note the agent itself writes.
const (
	noteNudge    = "nudge"    // asks the model again after an empty answer
	noteContinue = "continue" // asks it to go on after the output limit
	noteFallback = "fallback" // says that another model answered
	noteClean    = "clean"    // outside text up to Through is replaced by references
	noteAside    = "aside"    // stands under an answer by the program's own hand
	noteNext     = "next"     // has a run go on after an answer; limits count anew from here
	noteStubs    = "stubs"    // tool outputs up to Through are shortened in requests
)

// noteData marks the agent's own notes, and summaries.
type noteData struct {
	Kind    string  `json:"kind,omitempty"`
	Through int64   `json:"through,omitempty"` // stubs, summary: the last entry it stands for
	Max     int     `json:"max,omitempty"`     // stubs: bytes an output keeps; 0 replaces it whole
	Model   string  `json:"model,omitempty"`   // fallback: who answered
	Keep    []int64 `json:"keep,omitempty"`    // summary: user entries before Through that stay as they are

	Running time.Duration `json:"running,omitempty"` // next: how long the run had been in hand
}

// data decodes an entry's Data. A line nobody can read is an empty one: one
// bad row must not make a conversation unusable.
func data[T any](e mercury.Entry) T {
	var v T
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &v) != nil {
		var zero T
		return zero
	}
	return v
}

// encode is json.Marshal for values of our own types, which always succeeds.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("agent: encode: " + err.Error())
	}
	return b
}

// note is an entry the model sees and nobody answers.
func note(run, kind, text string) mercury.Entry {
	return mercury.Entry{Kind: mercury.NoteEntry, RunID: run, Text: text, Data: encode(noteData{Kind: kind})}
}

// resultEntry is the entry of a finished call.
func resultEntry(run string, round int, callID string, r resultData, taint []string) mercury.Entry {
	return mercury.Entry{Kind: mercury.ToolResultEntry, RunID: run, Round: round, CallID: callID,
		Data: encode(r), Taint: taint}
}
