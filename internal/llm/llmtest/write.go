package llmtest

import (
	"encoding/json"
	"net/http"

	"github.com/mercury-agent/mercury/internal/llm"
)

type obj = map[string]any

// openai answers in Chat Completions.
func (t *talk) openai() {
	r := t.rule
	finish := "stop"
	switch {
	case r.Finish != "":
		finish = r.Finish
	case r.Fault == ContentFilter:
		finish = "content_filter"
	case len(r.Tools) > 0:
		finish = "tool_calls"
	}
	if !t.stream {
		t.openaiWhole(finish)
		return
	}
	if !t.begin() {
		return
	}
	delta := func(d obj, finish any) bool {
		return t.send("", encode(obj{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": t.req.Model,
			"choices": []obj{{"index": 0, "delta": d, "finish_reason": finish}}}))
	}
	delta(obj{"role": "assistant", "content": ""}, nil)
	if !t.thoughts(r.Reasoning, func(s string) bool { return delta(obj{"reasoning_content": s}, nil) }) {
		return
	}
	if !t.each(r.Reply, func(s string) bool { return delta(obj{"content": s}, nil) }) {
		return
	}
	for i, c := range r.Tools {
		delta(obj{"tool_calls": []obj{{"index": i, "id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": ""}}}}, nil)
		if !t.args(c.text(), func(s string) bool {
			return delta(obj{"tool_calls": []obj{{"index": i, "function": obj{"arguments": s}}}}, nil)
		}) {
			return
		}
	}
	if t.late() {
		return
	}
	delta(obj{}, finish)
	if t.usage && !r.NoUsage {
		t.send("", encode(obj{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": t.req.Model, "choices": []obj{}, "usage": t.openaiUsage()}))
	}
	if r.Fault != NoDone {
		t.send("", "[DONE]")
	}
}

// thoughts is each for reasoning, which no fault cuts.
func (t *talk) thoughts(text string, put func(string) bool) bool {
	for _, w := range pieces(text) {
		if !put(w) {
			return false
		}
	}
	return true
}

// late plays faults that had no text to happen in, and reports whether the
// answer ends here.
func (t *talk) late() bool {
	switch t.rule.Fault {
	case NoFinish, CutText, CutArgs, Truncate:
		return true
	case ResetMid:
		t.reset()
		return true
	case ErrorEvent:
		t.errorEvent()
		return true
	case BadJSON:
		t.send("", `{"choices":`+"\x01")
		return true
	}
	return false
}

func (t *talk) openaiUsage() obj {
	u := t.counts()
	return obj{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": obj{"cached_tokens": u.Cached}}
}

func (t *talk) openaiWhole(finish string) {
	r := t.rule
	m := obj{"role": "assistant", "content": r.Reply}
	if r.Reply == "" {
		m["content"] = nil
	}
	if r.Reasoning != "" {
		m["reasoning_content"] = r.Reasoning
	}
	if len(r.Tools) > 0 {
		var calls []obj
		for _, c := range r.Tools {
			calls = append(calls, obj{"id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": c.text()}})
		}
		m["tool_calls"] = calls
	}
	answer := obj{"id": "c", "object": "chat.completion", "created": 1, "model": t.req.Model,
		"choices": []obj{{"index": 0, "message": m, "finish_reason": finish}}}
	if !r.NoUsage {
		answer["usage"] = t.openaiUsage()
	}
	t.deliver(encode(answer), `{"error":{"message":"Provider returned error","code":502}}`)
}

// deliver sends a whole answer with the faults that can befall one.
func (t *talk) deliver(body, failure string) {
	switch t.rule.Fault {
	case CutText, CutArgs, Truncate, NoFinish:
		t.plain(200, body[:len(body)*2/3])
	case ResetMid:
		t.w.Header().Set("Content-Type", "application/json")
		t.w.Write([]byte(body[:len(body)/2]))
		http.NewResponseController(t.w).Flush()
		t.reset()
	case Silent:
		t.begin()
	case ErrorEvent:
		t.plain(200, failure)
	case BadJSON:
		t.plain(200, `{"choices":`+"\x01"+`}`)
	default:
		t.plain(200, body)
	}
}

// anthropic answers in Messages.
func (t *talk) anthropic() {
	r := t.rule
	stop := "end_turn"
	switch {
	case r.Finish != "":
		stop = r.Finish
	case r.Fault == ContentFilter:
		stop = "refusal"
	case len(r.Tools) > 0:
		stop = "tool_use"
	}
	u := t.counts()
	usage := obj{"input_tokens": u.Input - u.Cached, "output_tokens": u.Output, "cache_creation_input_tokens": 0, "cache_read_input_tokens": u.Cached}
	if r.NoUsage {
		usage = obj{}
	}
	if !t.stream {
		t.anthropicWhole(stop, usage)
		return
	}
	if !t.begin() {
		return
	}
	started := obj{"input_tokens": usage["input_tokens"], "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": usage["cache_read_input_tokens"]}
	if r.NoUsage {
		started = obj{}
	}
	t.event("message_start", obj{"message": obj{"id": "msg", "type": "message", "role": "assistant", "model": t.req.Model, "content": []obj{}, "stop_reason": nil, "usage": started}})
	t.event("ping", obj{})
	i := 0
	if r.Reasoning != "" {
		t.thinking(i)
		i++
	}
	if r.Reply != "" {
		t.event("content_block_start", obj{"index": i, "content_block": obj{"type": "text", "text": ""}})
		if !t.each(r.Reply, func(s string) bool {
			return t.event("content_block_delta", obj{"index": i, "delta": obj{"type": "text_delta", "text": s}})
		}) {
			return
		}
		t.event("content_block_stop", obj{"index": i})
		i++
	}
	for _, c := range r.Tools {
		t.event("content_block_start", obj{"index": i, "content_block": obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": obj{}}})
		if !t.args(c.text(), func(s string) bool {
			return t.event("content_block_delta", obj{"index": i, "delta": obj{"type": "input_json_delta", "partial_json": s}})
		}) {
			return
		}
		t.event("content_block_stop", obj{"index": i})
		i++
	}
	if t.late() {
		return
	}
	last := obj{"output_tokens": u.Output}
	if r.NoUsage {
		last = obj{}
	}
	t.event("message_delta", obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": last})
	t.event("message_stop", obj{})
}

func (t *talk) event(kind string, fields obj) bool {
	fields["type"] = kind
	return t.send(kind, encode(fields))
}

func (t *talk) thinking(i int) {
	text := t.rule.Reasoning
	if t.rule.Redacted {
		t.event("content_block_start", obj{"index": i, "content_block": obj{"type": "redacted_thinking", "data": seal(t.req.Model, text)}})
		t.event("content_block_stop", obj{"index": i})
		return
	}
	t.event("content_block_start", obj{"index": i, "content_block": obj{"type": "thinking", "thinking": "", "signature": ""}})
	t.thoughts(text, func(s string) bool {
		return t.event("content_block_delta", obj{"index": i, "delta": obj{"type": "thinking_delta", "thinking": s}})
	})
	t.event("content_block_delta", obj{"index": i, "delta": obj{"type": "signature_delta", "signature": sign(t.req.Model, text)}})
	t.event("content_block_stop", obj{"index": i})
}

func (t *talk) anthropicWhole(stop string, usage obj) {
	r := t.rule
	content := []obj{}
	switch {
	case r.Reasoning != "" && r.Redacted:
		content = append(content, obj{"type": "redacted_thinking", "data": seal(t.req.Model, r.Reasoning)})
	case r.Reasoning != "":
		content = append(content, obj{"type": "thinking", "thinking": r.Reasoning, "signature": sign(t.req.Model, r.Reasoning)})
	}
	if r.Reply != "" {
		content = append(content, obj{"type": "text", "text": r.Reply})
	}
	for _, c := range r.Tools {
		var input any = json.RawMessage(c.text())
		if !llm.IsObject([]byte(c.text())) {
			input = c.text()
		}
		content = append(content, obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input})
	}
	t.deliver(encode(obj{"id": "msg", "type": "message", "role": "assistant", "model": t.req.Model, "content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage}),
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
}
