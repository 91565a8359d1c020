package openai

import (
	"encoding/json"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// finish makes the Response out of what has arrived, and says whether that is
// an answer. failed is what read returned.
func (d *decoder) finish(req llm.Request, failed error) (llm.Response, error) {
	d.flush()
	res := llm.Response{Model: req.Model, Provider: d.call.Provider, Usage: d.usage}
	res.Parts = d.parts(failed != nil)
	if !d.counted {
		res.Usage = llm.Usage{Input: llm.EstimateRequest(req), Output: llm.EstimateParts(res.Parts), Estimated: true}
	}
	if failed != nil {
		return res, failed
	}
	calls := len(res.Calls()) > 0
	said := strings.TrimSpace(d.text.String()) != ""
	var broken bool
	res.Finish, broken = meaning(d.end)
	switch {
	case broken:
		for i := range res.Parts {
			res.Parts[i].Cut = res.Parts[i].Kind == llm.ToolCall
		}
		res.Finish = ""
		return res, d.call.Fail(llm.Unavailable, "the provider stopped with "+d.end, nil, nil)
	case calls && (res.Finish == llm.Stop || res.Finish == llm.OtherFinish):
		res.Finish = llm.ToolCalls
	case !calls && res.Finish == llm.ToolCalls:
		res.Finish = llm.Stop
	}
	if calls || said {
		return res, nil
	}
	switch res.Finish {
	case llm.ContentFilter:
		return res, d.call.Fail(llm.ContentFiltered, "the provider declined to answer", nil, nil)
	case llm.Length:
		return res, d.call.Fail(llm.Empty, "the limit of output tokens was reached before any text", nil, nil)
	}
	return res, d.call.Fail(llm.Empty, "the answer has no text", nil, nil)
}

// parts in the order reasoning, text, calls. Of a failed stream no call
// counts as whole, since nothing says where its arguments end.
func (d *decoder) parts(failed bool) []llm.Part {
	var parts []llm.Part
	if raw := d.details.raw(); d.reasoning.Len() > 0 || raw != "" {
		parts = append(parts, llm.Part{Kind: llm.Reasoning, Text: d.reasoning.String(), Raw: raw, Origin: d.origin})
	}
	if text := d.text.String(); strings.TrimSpace(text) != "" {
		parts = append(parts, llm.Part{Kind: llm.Text, Text: text})
	}
	for _, c := range d.calls {
		if c.name == "" && c.args.Len() == 0 {
			continue
		}
		p := llm.Part{Kind: llm.ToolCall, ID: c.id, Name: llm.CleanName(c.name), Cut: failed}
		p.Args, p.BadArgs = wire.Args(c.args.String())
		if c.extra != "" {
			p.Raw, p.Origin = c.extra, d.origin
		}
		parts = append(parts, p)
	}
	return parts
}

// meaning maps the finish reasons of all providers. The second result says
// that the provider broke down.
func meaning(reason string) (llm.Finish, bool) {
	switch strings.ToLower(reason) {
	case "stop", "eos", "end_turn", "stop_sequence", "":
		return llm.Stop, false
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return llm.Length, false
	case "tool_calls", "tool_use", "function_call", "tool_call":
		return llm.ToolCalls, false
	case "content_filter", "sensitive", "safety", "recitation", "blocklist", "prohibited_content", "refusal":
		return llm.ContentFilter, false
	case "error", "network_error", "insufficient_system_resource", "abort":
		return "", true
	}
	return llm.OtherFinish, false
}

// usage is the union of the names under which providers count tokens.
type usage struct {
	Prompt       int `json:"prompt_tokens"`
	Completion   int `json:"completion_tokens"`
	Total        int `json:"total_tokens"`
	CacheHit     int `json:"prompt_cache_hit_tokens"`     // DeepSeek
	Cached       int `json:"cached_tokens"`               // Moonshot, Together
	CacheRead    int `json:"cache_read_input_tokens"`     // LiteLLM
	CacheCreated int `json:"cache_creation_input_tokens"` // LiteLLM
	Reasoning    int `json:"reasoning_tokens"`
	PromptParts  struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"` // OpenRouter
	} `json:"prompt_tokens_details"`
	CompletionParts struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// count takes in a usage object. Where the total exceeds the sum, reasoning
// was counted beside the completion (xAI, Gemini); it is output all the same.
func (d *decoder) count(raw json.RawMessage) {
	if !isSet(raw) {
		return
	}
	var u usage
	_ = json.Unmarshal(raw, &u) // a field of another type leaves the others
	if u.Prompt == 0 && u.Completion == 0 {
		return
	}
	d.counted = true
	d.usage = llm.Usage{
		Input:      u.Prompt,
		Output:     max(u.Completion, u.Total-u.Prompt),
		Cached:     max(u.PromptParts.Cached, u.CacheHit, u.Cached, u.CacheRead),
		CacheWrite: max(u.PromptParts.Written, u.CacheCreated),
		Reasoning:  max(u.CompletionParts.Reasoning, u.Reasoning, u.Total-u.Prompt-u.Completion),
	}
	d.show(llm.Event{Kind: llm.UsageNews, Usage: d.usage})
}
