package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/move"
	"github.com/mercury-agent/mercury/internal/soul"
)

// remembers keeps memories that are taken over. Their weights come along; they
// count as written by hand.
type remembers struct{ client *client.Client }

// Remember counts as new what was neither known nor refused.
func (r remembers) Remember(ctx context.Context, list []move.Memory) (added int, err error) {
	facts := make([]memory.Fact, len(list))
	for i, m := range list {
		facts[i] = memory.Fact{Kind: m.Type, Summary: m.Summary, Detail: m.Detail, Confidence: m.Confidence, Importance: m.Importance,
			Durability: m.Durability, Evidence: m.Evidence, CreatedAt: m.At}
	}
	done, err := r.client.ImportMemories(ctx, "owner", facts)
	return done.Added, err
}

// shipped is what a file of soul/ says before anybody edits it.
func shipped(path string) []byte {
	name, ok := strings.CutPrefix(path, "soul/")
	if !ok {
		return nil
	}
	return []byte(soul.Default(strings.TrimSuffix(name, ".md")))
}

// exportMemories writes what is remembered of the owner.
func exportMemories(ctx context.Context, r *client.Client, box *move.Box) error {
	var all []memory.Fact
	for after := ""; ; {
		page, err := r.Memories(ctx, url.Values{"after": {after}, "limit": {"200"}})
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	var text strings.Builder
	if err := memory.Markdown(&text, all); err != nil {
		return err
	}
	box.Note("- memories.md and memories.json: %s; `mercury memory import` reads both.", mercury.Count(len(all), "memory", "memories"))
	if err := box.Text("memories.md", text.String()); err != nil {
		return err
	}
	return box.JSON("memories.json", map[string]any{"items": all})
}
