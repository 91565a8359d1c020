package anthropic

import (
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/internal/wire"
)

// finish makes the Response out of what has arrived, and says whether that is
// an answer. failed is what read returned.
func (d *decoder) finish(req llm.Request, failed error) (llm.Response, error) {
	res := llm.Response{Model: req.Model, Provider: d.call.Provider}
	res.Parts = d.parts(failed != nil)
	res.Usage = d.spent(req, res.Parts, failed != nil)
	if failed != nil {
		return res, failed
	}
	calls := len(res.Calls()) > 0
	said := strings.TrimSpace(res.Text()) != ""
	res.Finish = meaning(d.stop)
	switch {
	case calls && (res.Finish == llm.Stop || res.Finish == llm.OtherFinish):
		res.Finish = llm.ToolCalls
	case !calls && res.Finish == llm.ToolCalls:
		res.Finish = llm.Stop
	}
	if calls || said {
		res.Parts = closed(res.Parts)
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

// spent is what the provider reported. A cut stream has told its input and
// not yet its output, which is estimated then.
func (d *decoder) spent(req llm.Request, parts []llm.Part, failed bool) llm.Usage {
	if !d.counted {
		return llm.Usage{Input: llm.EstimateRequest(req), Output: llm.EstimateParts(parts), Estimated: true}
	}
	u := d.usage()
	if failed {
		u.Output, u.Estimated = max(u.Output, llm.EstimateParts(parts)), true
	}
	return u
}

// parts in the order they came. Of a failed stream a call counts as whole
// only if its block was closed, and even then it is not run.
func (d *decoder) parts(failed bool) []llm.Part {
	var parts []llm.Part
	seen := map[string]bool{}
	for _, c := range d.open {
		if c == nil {
			continue
		}
		text := c.text.String()
		switch c.Type {
		case "text":
			if strings.TrimSpace(text) != "" {
				parts = append(parts, llm.Part{Kind: llm.Text, Text: text})
			}
		case "thinking":
			if text != "" || c.signature.Len() > 0 {
				parts = append(parts, llm.Part{Kind: llm.Reasoning, Text: text, Signature: c.signature.String(), Origin: d.origin})
			}
		case "redacted_thinking":
			parts = append(parts, llm.Part{Kind: llm.Reasoning, Raw: c.Data, Origin: d.origin})
		case "tool_use":
			if seen[c.ID] {
				continue
			}
			seen[c.ID] = true
			p := llm.Part{Kind: llm.ToolCall, ID: c.ID, Name: llm.CleanName(c.Name), Cut: failed}
			p.Args, p.BadArgs = wire.Args(text)
			parts = append(parts, p)
		}
	}
	return parts
}

// closed drops thinking behind the last word or call: this wire refuses a
// message that ends in thinking.
func closed(parts []llm.Part) []llm.Part {
	for parts[len(parts)-1].Kind == llm.Reasoning {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// meaning maps the stop reasons.
func meaning(reason string) llm.Finish {
	switch reason {
	case "end_turn", "stop_sequence", "":
		return llm.Stop
	case "max_tokens", "model_context_window_exceeded":
		return llm.Length
	case "tool_use":
		return llm.ToolCalls
	case "refusal":
		return llm.ContentFilter
	}
	return llm.OtherFinish
}
