package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Piece is a part of a request, with what it weighs.
type Piece struct {
	Kind   string `json:"kind" doc:"instructions, tool, summary, message, tool output or status"`
	Name   string `json:"name,omitempty" doc:"of a tool; the first words of instructions"`
	Count  int    `json:"count"`
	Bytes  int    `json:"bytes"`
	Tokens int    `json:"tokens" doc:"by estimate"`
	Stable bool   `json:"stable" doc:"the same from turn to turn, so that a provider's cache can hold it"`
}

// Anatomy is what the next request of a conversation consists of.
type Anatomy struct {
	Model  string  `json:"model"`
	Window int     `json:"window" doc:"tokens"`
	Full   int     `json:"full_from" doc:"tokens from which a request is shortened"`
	Tokens int     `json:"tokens" doc:"of the whole, by estimate"`
	Prefix int     `json:"prefix" doc:"of the part that stays the same"`
	Pieces []Piece `json:"pieces"`
}

// Anatomy takes the next request of a conversation apart, as its owner would
// send it. It asks no model.
func (a *Agent) Anatomy(ctx context.Context, view func(context.Context, func(store.Tx) error) error, conversation string) (Anatomy, error) {
	var c mercury.Conversation
	var entries []mercury.Entry
	var learned int
	run := mercury.Run{Kind: "turn", Lane: mercury.Chat, ConversationID: conversation, Actor: mercury.Actor{Role: mercury.Owner, Channel: "local"}}
	err := view(ctx, func(tx store.Tx) (err error) {
		if c, err = tx.Conversation(conversation); err != nil {
			return err
		}
		entries, err = tx.Entries(conversation, max(c.Head-1, 0), 0)
		return err
	})
	if err != nil {
		return Anatomy{}, fmt.Errorf("read conversation: %w", err)
	}
	p, err := a.profiles.Profile(ctx, run, c)
	if err != nil {
		return Anatomy{}, fmt.Errorf("find profile: %w", err)
	}
	p = p.withDefaults()
	tail := ""
	err = view(ctx, func(tx store.Tx) (err error) {
		if learned, err = learnedWindow(tx, p.ModelName); err != nil {
			return err
		}
		tail, err = Tail(ctx, tx, c)
		return err
	})
	if err != nil {
		return Anatomy{}, err
	}
	if learned > 0 {
		p.Window = min(p.Window, learned)
	}
	return dissect(build(entries, p, tail, nil, nil), p), nil
}

func dissect(r llm.Request, p Profile) Anatomy {
	a := Anatomy{Model: p.ModelName, Window: p.Window, Full: p.Window * fullFrom / 100}
	add := func(kind, name, text string, stable bool) {
		tokens := llm.EstimateText(text)
		if a.Tokens += tokens; stable {
			a.Prefix += tokens
		}
		for i, have := range a.Pieces {
			if have.Kind == kind && have.Name == name {
				a.Pieces[i].Count, a.Pieces[i].Bytes, a.Pieces[i].Tokens = have.Count+1, have.Bytes+len(text), have.Tokens+tokens
				return
			}
		}
		a.Pieces = append(a.Pieces, Piece{Kind: kind, Name: name, Count: 1, Bytes: len(text), Tokens: tokens, Stable: stable})
	}
	for _, t := range r.Tools {
		b, err := json.Marshal(t)
		if err != nil {
			continue // it would not be sent either
		}
		add("tool", t.Name, string(b), true)
	}
	for _, s := range r.System {
		add("instructions", preview(s, 40), s, true)
	}
	for _, m := range r.Messages {
		for _, part := range m.Parts {
			switch {
			case part.Kind == llm.ToolResult:
				add("tool output", "", part.Text, false)
			case strings.HasPrefix(part.Text, summaryMark):
				add("summary", "", part.Text, false)
			case part.Kind == llm.ToolCall:
				add("message", "", part.Name+string(part.Args), false)
			default:
				add("message", "", part.Text, false)
			}
		}
	}
	if r.Tail != "" {
		add("status", "", r.Tail, false)
	}
	return a
}

// Words describe a in lines, the heaviest kinds summed up.
func (a Anatomy) Words() string {
	kinds := []string{"instructions", "tool", "summary", "message", "tool output", "status"}
	var b strings.Builder
	fmt.Fprintf(&b, "The next request here is about %d tokens, %d%% of the window of %s (%d).", a.Tokens, a.Tokens*100/max(a.Window, 1), a.Model, a.Window)
	for _, kind := range kinds {
		count, tokens := 0, 0
		for _, p := range a.Pieces {
			if p.Kind == kind {
				count, tokens = count+p.Count, tokens+p.Tokens
			}
		}
		if count > 0 {
			fmt.Fprintf(&b, "\n%7d  %s (%d)", tokens, kind, count)
		}
	}
	fmt.Fprintf(&b, "\n%d of them stay the same from turn to turn. From %d on older parts are summed up; /compact does it now.", a.Prefix, a.Full)
	return b.String()
}
