// Package llmtest is a scripted model server for tests. It speaks the OpenAI
// and the Anthropic wire, refuses every request that the strictest provider
// would refuse, answers by rules, and fails in every way a script asks for.
// It runs inside a test (Start) or as a program of its own (cmd/scriptedmodel)
// that outlives the process under test.
package llmtest

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"github.com/mercury-agent/mercury/internal/llm"
)

// Script says what the server answers. The first rule that matches and has
// times left answers.
type Script struct {
	Rules        []Rule `json:"rules"`
	Default      string `json:"default,omitempty"`       // text when no rule matches; "ok" when empty
	AfterDefault string `json:"after_default,omitempty"` // the same behind a tool result; "done" when empty

	Lax          bool   `json:"lax,omitempty"`           // accept requests a strict provider refuses
	Window       int    `json:"window,omitempty"`        // tokens by our own estimate; longer requests are refused
	Vendor       string `json:"vendor,omitempty"`        // in whose words, default "openai"; see Overflow
	MaxBytes     int    `json:"max_bytes,omitempty"`     // of a request's body; longer is refused with 413
	NeedsThought bool   `json:"needs_thought,omitempty"` // refuse calls that come back without the reasoning given with them
	Key          string `json:"key,omitempty"`           // the only key that is accepted; empty accepts all
}

// Rule is one answer and when it is given. Empty conditions hold always,
// except that a rule without After answers only what a person has just said,
// unless Any is set.
type Rule struct {
	Match string `json:"match,omitempty"`      // regular expression on the last user text, without case
	After string `json:"after_tool,omitempty"` // regular expression on the last tool results; "" matches none
	Any   bool   `json:"any,omitempty"`        // answers behind a tool result too
	Call  int    `json:"call,omitempty"`       // only the Nth request of all, from 1
	Model string `json:"model,omitempty"`      // regular expression on the model's name
	Times int    `json:"times,omitempty"`      // answers that often, then never; 0 is always

	// Reply is the text; {{user}} and {{tool}} in it stand for what was said
	// last and what the last tools returned.
	Reply     string `json:"reply,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Redacted  bool   `json:"redacted,omitempty"` // Anthropic: the reasoning comes encrypted
	Tools     []Call `json:"tools,omitempty"`
	Finish    string `json:"finish,omitempty"` // overrides the finish reason, in the wire's own word
	Usage     *Usage `json:"usage,omitempty"`  // overrides what is counted
	NoUsage   bool   `json:"no_usage,omitempty"`

	Fault      string  `json:"fault,omitempty"`
	Vendor     string  `json:"vendor,omitempty"`      // of fault "context"
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds, of fault 429 and 529; 0 sends no header
	Message    string  `json:"message,omitempty"`     // words of a failing status
	Code       string  `json:"code,omitempty"`        // code of a failing status

	DelayMS int     `json:"delay_ms,omitempty"` // before the headers
	FirstMS int     `json:"first_ms,omitempty"` // between headers and the first token
	TokenMS int     `json:"token_ms,omitempty"` // before each further token
	HangS   float64 `json:"hang_s,omitempty"`   // of fault "hang" and "silent"; default an hour

	// Do makes the answer while the request waits, for tests in the same
	// process. What it returns replaces the rule's own answer.
	Do func(n int, req llm.Request) Rule `json:"-"`
}

// Call is a tool call of an answer.
type Call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
	Raw  string          `json:"raw,omitempty"` // written as it stands, also when it is no JSON
}

// Usage overrides the counts of an answer, in OpenAI's names.
type Usage struct {
	Input  int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
	Cached int `json:"cached_tokens,omitempty"`
	Total  int `json:"total_tokens,omitempty"` // ignored; it is the sum
}

// The faults. Any number from 400 to 599 is a fault too: that status.
const (
	Hang          = "hang"           // no headers for HangS
	Silent        = "silent"         // headers, then nothing for HangS
	Reset         = "reset"          // TCP reset before the headers
	ResetMid      = "reset_mid"      // TCP reset in the middle of the text
	CutText       = "cut_text"       // clean end in the middle of the text
	CutArgs       = "cut_args"       // clean end inside a call's arguments
	Truncate      = "truncate"       // one of the two, whichever comes first
	NoFinish      = "no_finish"      // all of it, but no end marker
	NoDone        = "no_done"        // OpenAI: a finish reason but no [DONE]
	Empty         = "empty"          // an answer without any text
	ReasoningOnly = "reasoning_only" // thinking, and no text
	ContentFilter = "content_filter" // stopped by a filter, before any text
	ErrorEvent    = "error_event"    // an error inside a stream with status 200
	BadJSON       = "bad_json"       // an event that is no JSON
	Page          = "page"           // a web page with status 200
	Context       = "context"        // too long, in Vendor's words
	QuotaUsed     = "quota"          // 429 with code insufficient_quota
)

// Load reads a script from a JSON file. Unknown names are refused, since a
// misspelt condition would match everything.
func Load(path string) (Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	var s Script
	if err := d.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("read script %s: %w", path, err)
	}
	return s, s.check()
}

func (s Script) check() error {
	for i, r := range s.Rules {
		for _, pattern := range []string{"(?is)" + r.Match, "(?s)" + r.After, "(?i)" + r.Model} {
			if _, err := regexp.Compile(pattern); err != nil {
				return fmt.Errorf("rule %d: %w", i, err)
			}
		}
	}
	return nil
}

// Overflow is how vendors refuse a request that is too long: status and body.
func Overflow(vendor string) (int, string) {
	switch vendor {
	case "anthropic":
		return 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 212389 tokens > 200000 maximum"}}`
	case "gemini":
		return 400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`
	case "groq":
		return 413, `{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 12000, Requested 31000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`
	case "xai":
		return 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`
	case "mistral":
		return 400, `{"object":"error","message":"Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}`
	case "together":
		return 422, "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens\",\"type\":\"invalid_request_error\",\"code\":null}}"
	case "openrouter":
		return 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"This endpoint's maximum context length is 128000 tokens. However, you requested about 140000 tokens.","provider_name":"X"}}}`
	case "deepseek":
		return 400, `{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 140000 tokens. Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`
	case "llamacpp", "atomic":
		return 400, `{"error":{"code":400,"message":"the request exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`
	case "lmstudio":
		return 400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`
	case "litellm":
		return 400, `{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: too many tokens","type":null,"param":null,"code":"400"}}`
	case "minimax":
		return 400, `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"}}`
	case "zai":
		return 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`
	case "ollama":
		return 400, `{"error":{"message":"input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}`
	}
	return 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
}

// Vendors are the names that Overflow knows.
func Vendors() []string {
	return []string{"openai", "anthropic", "gemini", "groq", "xai", "mistral", "together", "openrouter", "deepseek", "llamacpp", "lmstudio", "litellm", "minimax", "zai", "ollama"}
}
