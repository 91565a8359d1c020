// Package llm is how Mercury asks a model. It holds the words of that talk
// (requests, parts, events, responses, error classes), the rules of each wire
// as one validator, and the chain that retries and falls back. The drivers in
// openai and anthropic turn these words into bytes; llmtest is a scripted
// server as strict as the strictest provider.
//
// Drivers classify failures and never retry; only the chain does. Building a
// request from a conversation's entries is the caller's work.
package llm

import (
	"context"
	"encoding/json"
)

// A Client asks one model, or an ordered chain of them.
type Client interface {
	// Stream asks once and hands what arrives to show, in order, from the
	// calling goroutine; show may be nil. On error the Response still carries
	// what had arrived, so that it can be kept and marked as partial; a tool
	// call that was cut has Cut set and must not be run. Every error that
	// leaves a Client is an *Error or wraps one.
	Stream(ctx context.Context, req Request, show func(Event)) (Response, error)
}

// Request is one step's question. The stable parts come first, so that a
// provider's prompt cache can hold them: System, Tools, then Messages, and
// Tail last.
type Request struct {
	Model     string    `json:"model,omitempty"` // as the provider names it; a Chain fills it in
	System    []string  `json:"system,omitempty"`
	Tail      string    `json:"tail,omitempty"` // what changes between steps: time, status; sent behind everything that can be cached
	Tools     []Tool    `json:"tools,omitempty"`
	Messages  []Message `json:"messages"`
	MaxTokens int       `json:"max_tokens,omitempty"` // of the answer; 0 is the provider's own limit
	Effort    string    `json:"effort,omitempty"`     // reasoning effort: "", none, minimal, low, medium, high
	Choice    string    `json:"choice,omitempty"`     // tool choice: "" or auto, none, required

	// Temperature is sent only when set; several reasoning models refuse it.
	Temperature *float64 `json:"temperature,omitempty"`

	// Whole asks for one body rather than a stream. The answer still arrives
	// as a Response, and show is called with the whole of each part.
	Whole bool `json:"whole,omitempty"`

	// Key names the conversation to providers that route by it so that their
	// cache is hit (OpenAI's prompt_cache_key). It must not identify a person.
	Key string `json:"key,omitempty"`

	// Insist asks even a provider that a Breaker has paused: a person is
	// waiting, who may have mended the account meanwhile. Background work and
	// automatic retries leave it false.
	Insist bool `json:"-"`
}

// Tool is something the model may call. Name matches ^[a-zA-Z0-9_-]{1,64}$.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, an object
}

// Role says whose words a message holds.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	// ToolRole messages hold the results of the calls of the assistant message
	// directly before, one part each, in any order.
	ToolRole Role = "tool"
)

// Message is one turn of a request.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind says what a Part is and which of its fields count.
type PartKind string

const (
	Text       PartKind = "text"        // Text
	Reasoning  PartKind = "reasoning"   // Text, Signature, Raw, Origin
	ToolCall   PartKind = "tool_call"   // ID, Name, Args, BadArgs, Cut
	ToolResult PartKind = "tool_result" // ID, Name, Text, IsError
	Image      PartKind = "image"       // Media, Data
)

// Part is one piece of a message. It round-trips through encoding/json,
// because conversations keep it.
type Part struct {
	Kind PartKind `json:"kind"`

	// Text is what is said, thought (as far as it may be shown) or, of a
	// ToolResult, returned.
	Text string `json:"text,omitempty"`

	ID   string          `json:"id,omitempty"`   // of the call, also in its result
	Name string          `json:"name,omitempty"` // of the tool
	Args json.RawMessage `json:"args,omitempty"` // always a valid JSON object

	// BadArgs holds what the model wrote when it was not a JSON object; Args
	// is {} then. Do not run such a call: tell the model in its result.
	BadArgs string `json:"bad_args,omitempty"`

	// Cut says the stream ended inside this call. Never run it, never send it
	// back: leave it and its result out of the next request.
	Cut bool `json:"cut,omitempty"`

	IsError bool `json:"is_error,omitempty"` // of a ToolResult

	// Signature and Raw are the provider's own bytes, replayed unchanged to
	// the Origin that made them ("provider/model") and left out for any other.
	// Raw is kept as text inside JSON, so no encoder can reformat it.
	Signature string `json:"signature,omitempty"`
	Raw       string `json:"raw,omitempty"`
	Origin    string `json:"origin,omitempty"`

	Media string `json:"media,omitempty"` // image/png, image/jpeg, image/gif, image/webp
	Data  []byte `json:"data,omitempty"`
}

// EventKind says what an Event brings.
type EventKind int

const (
	TextDelta EventKind = iota
	ReasoningDelta
	ToolStart // ID and Name of a call that has begun
	ToolDelta // Text is the next piece of its arguments
	KeepAlive // the provider is alive and has nothing to say
	UsageNews // Usage as far as it is known
	// Restart says an attempt failed and another begins: what was shown of
	// this step is void. Text says why, Model who is asked now.
	Restart
)

// Event is a piece of an answer while it arrives.
type Event struct {
	Kind  EventKind
	Text  string
	ID    string
	Name  string
	Usage Usage
	Model string
}

// Finish says why a model stopped.
type Finish string

const (
	Stop          Finish = "stop"
	Length        Finish = "length"
	ToolCalls     Finish = "tool_calls"
	ContentFilter Finish = "content_filter"
	OtherFinish   Finish = "other"
)

// Response is a finished answer or, beside an error, what arrived of one.
type Response struct {
	Parts    []Part `json:"parts,omitempty"`
	Finish   Finish `json:"finish,omitempty"` // empty when the end was never seen
	Usage    Usage  `json:"usage"`
	Model    string `json:"model,omitempty"`    // the one that was asked
	Provider string `json:"provider,omitempty"` // its name in the configuration

	// Fallback says that not the first model of the chain answered; Skipped
	// names those before it and why.
	Fallback bool   `json:"fallback,omitempty"`
	Skipped  []Skip `json:"skipped,omitempty"`
	Attempts int    `json:"attempts,omitempty"` // calls made, over all models

	// Failed lists the attempts before the one that Usage is about, with what
	// each has cost, so that a ledger can hold every call.
	Failed []Attempt `json:"failed,omitempty"`
}

// Attempt is a call that failed and what it used.
type Attempt struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Class    Class  `json:"class"`
	Usage    Usage  `json:"usage"`
}

// Skip is a model of the chain that did not answer.
type Skip struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Class    Class  `json:"class"`
	Reason   string `json:"reason"` // the provider's own words, capped and redacted
}

// Usage counts tokens. Input includes Cached and CacheWrite; Output includes
// Reasoning. Estimated is set when the provider reported none.
type Usage struct {
	Input      int  `json:"input"`
	Output     int  `json:"output"`
	Cached     int  `json:"cached,omitempty"`
	CacheWrite int  `json:"cache_write,omitempty"`
	Reasoning  int  `json:"reasoning,omitempty"`
	Estimated  bool `json:"estimated,omitempty"`
}

// TailOpen and TailClose stand around a request's Tail on the wire. Drivers
// append it to the last message, so that it costs no cached byte and no
// provider sees an extra turn.
const (
	TailOpen  = "\n\n<status>\n"
	TailClose = "\n</status>"
)

// Text joins the text parts of the answer.
func (r Response) Text() string { return TextOf(r.Parts) }

// Calls returns the tool calls of the answer that arrived whole.
func (r Response) Calls() []Part {
	var calls []Part
	for _, p := range r.Parts {
		if p.Kind == ToolCall && !p.Cut {
			calls = append(calls, p)
		}
	}
	return calls
}

// TextOf joins the text parts among parts.
func TextOf(parts []Part) string {
	text := ""
	for _, p := range parts {
		if p.Kind == Text {
			text += p.Text
		}
	}
	return text
}
