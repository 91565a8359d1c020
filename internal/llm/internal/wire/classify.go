package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/llm"
)

const (
	maxMessage = 600
	maxRaw     = 4 << 10
)

// codes are the words that providers put in code or type, and what they mean.
// A code decides before the status does, because several providers answer
// 400 or 429 for everything.
var codes = map[string]llm.Class{
	// OpenAI and those who copy it
	"context_length_exceeded":              llm.ContextLength,
	"string_above_max_length":              llm.ContextLength,
	"insufficient_quota":                   llm.Quota,
	"billing_hard_limit_reached":           llm.Quota,
	"billing_not_active":                   llm.Quota,
	"quota_exceeded":                       llm.Quota,
	"invalid_api_key":                      llm.Auth,
	"invalid_authentication":               llm.Auth,
	"incorrect_api_key":                    llm.Auth,
	"account_deactivated":                  llm.Auth,
	"unsupported_country_region_territory": llm.Auth,
	"model_not_found":                      llm.UnknownModel,
	"deploymentnotfound":                   llm.UnknownModel, // Azure
	"content_filter":                       llm.ContentFiltered,
	"content_policy_violation":             llm.ContentFiltered,
	"responsibleaipolicyviolation":         llm.ContentFiltered,
	"rate_limit_exceeded":                  llm.RateLimit,
	"too_many_requests":                    llm.RateLimit,
	"server_error":                         llm.Unavailable,
	"engine_overloaded":                    llm.Unavailable,
	"slow_down":                            llm.Unavailable,
	// Anthropic
	"authentication_error": llm.Auth,
	"permission_error":     llm.Auth,
	"billing_error":        llm.Quota,
	"not_found_error":      llm.UnknownModel,
	"request_too_large":    llm.ContextLength,
	"rate_limit_error":     llm.RateLimit,
	"api_error":            llm.Unavailable,
	"overloaded_error":     llm.Unavailable,
	"timeout_error":        llm.Unavailable,
	// Google
	"unauthenticated":    llm.Auth,
	"permission_denied":  llm.Auth,
	"resource_exhausted": llm.RateLimit,
	"unavailable":        llm.Unavailable,
	"deadline_exceeded":  llm.Unavailable,
	// llama.cpp, LiteLLM
	"exceed_context_size_error":    llm.ContextLength,
	"contextwindowexceedederror":   llm.ContextLength,
	"budget_exceeded":              llm.Quota,
	"exceeded_current_quota_error": llm.Quota,
}

// overflow are the sentences by which vendors say that a request is too long
// for a model, for those that give no code. A group catches the window.
var overflow = sync.OnceValue(func() []*regexp.Regexp {
	return compile(
		`(?i)maximum context length (?:is|of) (\d+)`,                                   // OpenAI, DeepSeek, vLLM
		`(?i)prompt is too long(?:: \d+ tokens > (\d+))?`,                              // Anthropic
		"(?i)input length and `?max_tokens`? exceed context limit.*?> (\\d+)",          // Anthropic
		`(?i)exceeds the context window`,                                               // OpenAI
		`(?i)context[_ ](?:length|window)[_ ]exceeded`,                                 // many
		`(?i)input token count.*exceeds the maximum number of tokens allowed \(?(\d+)`, // Google
		`(?i)reduce the length of the (?:messages|prompt|input)`,                       // Groq, OpenAI
		`(?i)maximum prompt length is (\d+)`,                                           // xAI
		`(?i)too large for model with (\d+) maximum context length`,                    // Mistral
		"(?i)`?inputs`? tokens \\+ `?max_new_tokens`? must be <= (\\d+)",               // Together
		`(?i)exceeds? the available context size(?: \((\d+))?`,                         // llama.cpp
		`(?i)context length of only (\d+) tokens`,                                      // LM Studio
		`(?i)(?:greater than|exceeds) the context length`,                              // LM Studio
		`(?i)context window exceeds limit`,                                             // MiniMax; the number behind it is its own error code
		`(?i)prompt exceeds max(?:imum)? length`,                                       // Z.ai
		`(?i)exceeded model token limit: (\d+)`,                                        // Moonshot
		`(?i)input is too long for requested model`,                                    // Bedrock
		`(?i)ContextWindowExceededError`,                                               // LiteLLM
	)
})

func compile(patterns ...string) []*regexp.Regexp {
	list := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		list[i] = regexp.MustCompile(p)
	}
	return list
}

// texts are sentences that stand for a class where a provider gives no code.
type sentence struct {
	says  *regexp.Regexp
	class llm.Class
}

var texts = sync.OnceValue(func() []sentence {
	return []sentence{
		{regexp.MustCompile(`(?i)credit balance is too low|insufficient (?:balance|credits)|exceeded your current quota`), llm.Quota},
		{regexp.MustCompile("(?i)invalid `?signature`? in `?thinking`?|thinking`? blocks.*cannot be modified|expected `?thinking`?|reasoning_content.*must be passed|missing `?reasoning_content|thought_signature"), llm.ForeignReasoning},
		{regexp.MustCompile(`(?i)api key not valid|(?:incorrect|invalid) api key`), llm.Auth}, // Google and xAI answer 400
	}
})

// problem is what a provider says of a failure.
type problem struct {
	code    string
	kind    string // the provider's type
	message string
	more    string // words of the provider behind a router
	reasons bool   // a moderation gave reasons
	delay   time.Duration
}

// shape is the union of the shapes in which providers say it. All is raw,
// since the same name is a text here, a number or an object there.
type shape struct {
	Error      json.RawMessage `json:"error"`
	Code       json.RawMessage `json:"code"`
	Type       json.RawMessage `json:"type"`
	Status     json.RawMessage `json:"status"`
	Message    json.RawMessage `json:"message"`
	Msg        json.RawMessage `json:"msg"`
	Detail     json.RawMessage `json:"detail"`
	Details    json.RawMessage `json:"details"`
	Metadata   json.RawMessage `json:"metadata"`
	InnerError json.RawMessage `json:"innererror"`
}

// parse finds the problem inside body: an object, the same in a list, under
// "error", or plain text.
func parse(body []byte) problem {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			return parse(list[0])
		}
	}
	var s shape
	if len(body) == 0 || body[0] != '{' || json.Unmarshal(body, &s) != nil {
		return problem{message: pageTitle(string(body))}
	}
	if len(s.Error) > 0 && s.Error[0] == '{' {
		inner := parse(s.Error)
		if inner.kind == "" {
			inner.kind = plain(s.Type)
		}
		if inner.code == "" {
			inner.code = plain(s.Code)
		}
		return inner
	}
	p := problem{kind: plain(s.Type), message: firstText(s.Message, s.Error, s.Detail, s.Msg)}
	if p.kind == "error" {
		p.kind = ""
	}
	var inner struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(s.InnerError, &inner)
	p.code = plain(s.Code)
	_, err := strconv.Atoi(p.code)
	if status := plain(s.Status); status != "" && (p.code == "" || err == nil) {
		if _, numeric := strconv.Atoi(status); numeric != nil {
			p.code = status // Google's word beside its number
		}
	}
	if inner.Code != "" {
		p.code = inner.Code
	}
	var meta struct {
		Raw     string          `json:"raw"`
		Reasons json.RawMessage `json:"reasons"`
	}
	_ = json.Unmarshal(s.Metadata, &meta)
	p.more, p.reasons = meta.Raw, len(meta.Reasons) > 0
	var details []struct {
		RetryDelay string `json:"retryDelay"`
	}
	_ = json.Unmarshal(s.Details, &details)
	for _, d := range details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
			p.delay = wait
		}
	}
	return p
}

// plain returns a JSON string or number as text, else "".
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// firstText returns the first that is a JSON string, else the first that is
// anything at all, as it stands.
func firstText(raws ...json.RawMessage) string {
	for _, raw := range raws {
		var s string
		if json.Unmarshal(raw, &s) == nil && s != "" {
			return s
		}
	}
	for _, raw := range raws {
		if len(raw) > 0 && string(raw) != "null" {
			return string(raw)
		}
	}
	return ""
}

var title = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)<title>(.*?)</title>`) })

// pageTitle shortens an HTML page, which gateways answer with, to its title.
func pageTitle(body string) string {
	if m := title().FindStringSubmatch(body); m != nil {
		return strings.TrimSpace(m[1])
	}
	return body
}

// Refused classes an answer with a failing status.
func (c *Call) Refused(status int, header http.Header, body []byte) *llm.Error {
	p := parse(body)
	e := c.Fail(c.class(status, p), p.words(status), body, nil)
	e.Status, e.Code = status, p.name()
	e.Limit = window(p)
	if e.Class == llm.RateLimit || e.Class == llm.Unavailable || e.Class == llm.Quota {
		e.RetryAfter = retryAfter(header, p)
	}
	return e
}

// Event classes an error that arrives inside a stream or a body with status
// 200. Its code may itself be a status.
func (c *Call) Event(body []byte) *llm.Error {
	p := parse(body)
	status, _ := strconv.Atoi(p.code)
	if status < 400 || status > 599 {
		status = 0
	}
	class := c.class(status, p)
	if class == "" {
		class = llm.Unavailable
	}
	e := c.Fail(class, p.words(status), body, nil)
	e.Code, e.Limit = p.name(), window(p)
	e.RetryAfter = retryAfter(nil, p)
	return e
}

// name is the provider's code, or its type where it gives none.
func (p problem) name() string {
	if p.code != "" {
		return p.code
	}
	return p.kind
}

func (p problem) words(status int) string {
	words := p.message
	if p.more != "" {
		words += ": " + p.more
	}
	if words = strings.TrimSpace(words); words == "" {
		words = http.StatusText(status)
	}
	if words == "" {
		words = "the provider reports an error and does not say which"
	}
	return words
}

// class decides: the provider's own table, then general codes, then sentences
// for statuses that stand for several things, then the status.
func (c *Call) class(status int, p problem) llm.Class {
	if class, ok := c.Table[p.code]; ok {
		return class
	}
	class, known := codes[strings.ToLower(p.code)]
	if !known {
		class, known = codes[strings.ToLower(p.kind)]
	}
	if status == http.StatusRequestEntityTooLarge {
		return llm.ContextLength // Groq calls it a rate limit; a shorter request passes
	}
	ambiguous := status == 0 || status == 400 || status == 403 || status == 422 || status == 429 || status >= 500
	if ambiguous && (!known || class == llm.RateLimit || class == llm.Unavailable || class == llm.Auth) {
		if isOverflow(p.message) || isOverflow(p.more) {
			return llm.ContextLength
		}
		for _, t := range texts() {
			if t.says.MatchString(p.message) || t.says.MatchString(p.more) {
				return t.class
			}
		}
	}
	if status == http.StatusForbidden && p.reasons {
		return llm.ContentFiltered // OpenRouter's moderation
	}
	// "api_error" and its like are also what small servers write over a 4xx.
	if known && !(class == llm.Unavailable && status >= 400 && status < 500 && status != 429) {
		return class
	}
	return byStatus(status, p)
}

func byStatus(status int, p problem) llm.Class {
	switch {
	case status == 0:
		return ""
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.Auth
	case status == http.StatusPaymentRequired:
		return llm.Quota
	case status == http.StatusNotFound && strings.Contains(strings.ToLower(p.message), "model"):
		return llm.UnknownModel
	case status == http.StatusTooManyRequests:
		return llm.RateLimit
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusConflict, status >= 500:
		return llm.Unavailable
	}
	return llm.BadRequest
}

func isOverflow(text string) bool {
	for _, re := range overflow() {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}

// window reads the size of the model's window out of an overflow message.
func window(p problem) int {
	for _, text := range []string{p.message, p.more} {
		for _, re := range overflow() {
			if m := re.FindStringSubmatch(text); len(m) > 1 && m[1] != "" {
				n, _ := strconv.Atoi(m[1])
				return n
			}
		}
	}
	return 0
}

// retryAfter reads how long to wait: retry-after-ms, Retry-After in seconds or
// as a date, or Google's retryDelay.
func retryAfter(h http.Header, p problem) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e7 {
			return time.Duration(s * float64(time.Second))
		}
		if t, err := http.ParseTime(v); err == nil {
			return max(0, time.Until(t))
		}
	}
	return p.delay
}

// keys are the shapes of secrets that providers repeat in their errors.
var keys = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:sk|pk|rk|gsk|xai|key|tgp|hf)[-_][A-Za-z0-9*._-]{8,}|\bAIza[A-Za-z0-9_-]{10,}|\bbearer\s+[A-Za-z0-9._~+/=-]{8,}`)
})

// Clean blanks secret and whatever has the shape of a key.
func Clean(text, secret string) string {
	if len(secret) >= 4 {
		text = strings.ReplaceAll(text, secret, "[key]")
	}
	return keys().ReplaceAllString(text, "[key]")
}

// Cap cuts text to at most n bytes at a character's border, and makes it
// valid UTF-8.
func Cap(text string, n int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
