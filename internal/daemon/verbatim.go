package daemon

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// How many fetches of a run may follow addresses that were found and not
// written by the owner. Each tells its reader a little of what is wanted, so
// they are few; those that a page names are fewer than those of a search.
const (
	foundFetches = 10
	pageFetches  = 4
	recent       = 200 // entries of a conversation that are looked through
)

// verbatim are the addresses that stand word for word in what the owner or a
// schedule said, and a few that a search or a page of this run found. A tainted
// request may fetch them unasked: nothing can have been put into them.
func (g *gate) verbatim(ctx context.Context, r tool.Request) []string {
	e := g.engine.Load()
	fetch := slices.ContainsFunc(r.Accesses, func(a mercury.Access) bool { return a.Kind == mercury.FetchURL })
	if e == nil || !fetch || len(r.Taint) == 0 {
		return nil
	}
	var entries []mercury.Entry
	err := e.View(ctx, func(tx store.Tx) (err error) {
		entries, err = tx.EntriesBefore(r.ConversationID, 0, recent)
		return err
	})
	if err != nil {
		return nil // then it is asked
	}
	return wordForWord(entries, r.RunID)
}

// wordForWord finds the addresses in the entries of a conversation.
func wordForWord(entries []mercury.Entry, run string) []string {
	var said, found, linked []string
	fetches := 0
	for _, e := range entries {
		switch e.Kind {
		case mercury.UserEntry:
			if (e.Actor.Trusted() || e.Actor.Role == mercury.Schedule) && len(e.Taint) == 0 {
				said = append(said, addresses(e.Text)...)
			}
		case mercury.ToolResultEntry:
			var result struct{ Tool, Result string }
			if e.RunID != run || json.Unmarshal(e.Data, &result) != nil {
				continue
			}
			switch result.Tool {
			case "web_search":
				found = append(found, addresses(result.Result)...)
			case "fetch_url":
				fetches++
				linked = append(linked, addresses(result.Result)...)
			}
		}
	}
	if fetches < foundFetches {
		said = append(said, found...)
	}
	if fetches < pageFetches {
		said = append(said, linked...)
	}
	return said
}

var address = regexp.MustCompile(`https?://[^\s<>"'\x60|\\^{}\[\]]+`)

// addresses are the URLs in a text, without the punctuation around them.
func addresses(text string) []string {
	var out []string
	for _, a := range address.FindAllString(text, 1000) {
		a = strings.TrimRight(a, ".,;:!?*_")
		for strings.HasSuffix(a, ")") && strings.Count(a, "(") < strings.Count(a, ")") {
			a = strings.TrimRight(strings.TrimSuffix(a, ")"), ".,;:!?")
		}
		out = append(out, a)
	}
	return out
}
