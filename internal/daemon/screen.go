package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/permission"
)

// screen is a model that is never told a secret and never tells one: requests,
// answers as they stream, and errors pass through the vault.
type screen struct {
	llm.Client
	secrets secrets
}

func (s screen) Stream(ctx context.Context, req llm.Request, show func(llm.Event)) (llm.Response, error) {
	streams := map[string]*permission.Stream{}
	flush := func() {
		for key, st := range streams {
			if text := st.Flush(); text != "" && show != nil {
				ev := llm.Event{Text: text}
				switch key {
				case "text":
				case "thought":
					ev.Kind = llm.ReasoningDelta
				default:
					ev.Kind, ev.ID = llm.ToolDelta, key[len("call "):]
				}
				show(ev)
			}
		}
		clear(streams)
	}
	watch := show
	if show != nil {
		watch = func(ev llm.Event) {
			key := ""
			switch ev.Kind {
			case llm.TextDelta:
				key = "text"
			case llm.ReasoningDelta:
				key = "thought"
			case llm.ToolDelta:
				key = "call " + ev.ID
			case llm.Restart: // what was held back is void with the rest
				clear(streams)
				ev.Text = s.secrets.Hide(ev.Text)
				show(ev)
				return
			default:
				show(ev)
				return
			}
			if streams[key] == nil {
				flush()
				streams[key] = s.secrets.Stream()
			}
			if ev.Text = streams[key].Write(ev.Text); ev.Text != "" {
				show(ev)
			}
		}
	}
	res, err := s.Client.Stream(ctx, s.request(req), watch)
	flush()
	res.Parts = s.parts(res.Parts)
	for i := range res.Skipped {
		res.Skipped[i].Reason = s.secrets.Hide(res.Skipped[i].Reason)
	}
	return res, s.failure(err)
}

// request hides what a request says. Where there is nothing to hide, which is
// nearly always, its bytes stay what they were.
func (s screen) request(req llm.Request) llm.Request {
	req.System = slices.Clone(req.System)
	for i, text := range req.System {
		req.System[i] = s.secrets.Hide(text)
	}
	req.Tail = s.secrets.Hide(req.Tail)
	req.Messages = slices.Clone(req.Messages)
	for i, m := range req.Messages {
		req.Messages[i].Parts = s.parts(m.Parts)
	}
	return req
}

func (s screen) parts(parts []llm.Part) []llm.Part {
	out := parts
	for i, p := range parts {
		clean := p
		clean.Text, clean.BadArgs = s.secrets.Hide(p.Text), s.secrets.Hide(p.BadArgs)
		clean.Args = s.secrets.hideJSON(p.Args)
		if clean.Text == p.Text && clean.BadArgs == p.BadArgs && string(clean.Args) == string(p.Args) {
			continue
		}
		if clean.Kind == llm.Reasoning { // the provider's own bytes no longer fit
			clean.Raw, clean.Signature = "", ""
		}
		if &out[0] == &parts[0] {
			out = slices.Clone(parts)
		}
		out[i] = clean
	}
	return out
}

// failure hides what an error repeats, and keeps its class.
func (s screen) failure(err error) error {
	var e *llm.Error
	if !errors.As(err, &e) {
		return s.secrets.hideIn(err)
	}
	clean := *e
	clean.Message, clean.Raw, clean.Err = s.secrets.Hide(e.Message), s.secrets.Hide(e.Raw), s.secrets.hideIn(e.Err)
	if clean.Message == e.Message && clean.Raw == e.Raw && clean.Err == e.Err {
		return err
	}
	return &clean
}

// hideJSON hides secrets inside the texts of a JSON value.
func (s secrets) hideJSON(b json.RawMessage) json.RawMessage {
	text := string(b)
	hidden := s.Hide(text)
	if hidden == text {
		return b
	}
	if json.Valid([]byte(hidden)) {
		return json.RawMessage(hidden)
	}
	// A secret of digits stood where a number was.
	quoted, err := json.Marshal(hidden)
	if err != nil {
		return nil
	}
	return quoted
}
