package tool

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mercury-agent/mercury/internal/mercury"
)

//go:embed find.md
var findUsage string

// FindTools is the name of the tool that finds the others.
const FindTools = "find_tools"

const (
	foundMax  = 6   // tools that one search loads
	namesMax  = 240 // bytes of names that find_tools itself tells of
	firstMost = 160 // bytes of a description in a list of what was found
)

type findInput struct {
	Query string `json:"query" jsonschema:"words, or names of tools"`
}

// finder is the tool find_tools over the given ones. Its description names as
// many of them as fit, so that a model knows what to look for.
func finder(more []Spec) Tool {
	usage, named := strings.TrimSpace(findUsage), []string{}
	for _, s := range more {
		if len(strings.Join(append(named, s.Name), ", ")) > namesMax {
			named = append(named, "…")
			break
		}
		named = append(named, s.Name)
	}
	usage += " There are: " + strings.Join(named, ", ")
	return New(FindTools, usage, mercury.Read,
		func(findInput) []mercury.Access {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "tools"}}
		},
		func(_ context.Context, c Call, in findInput) (Output, error) {
			if strings.TrimSpace(in.Query) == "" {
				return Output{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the query is empty")}
			}
			return found(more, c.Mandate.Tools, in.Query), nil
		})
}

// found is the answer to a search: what fits best, loaded; or what there is.
func found(more []Spec, allowed []string, query string) Output {
	type hit struct {
		Spec
		score int
	}
	var hits []hit
	var names []string
	for _, s := range more {
		if allowed != nil && !slices.Contains(allowed, s.Name) {
			continue
		}
		names = append(names, s.Name)
		if n := score(s, query); n > 0 {
			hits = append(hits, hit{s, n})
		}
	}
	if len(names) == 0 {
		return Output{Text: "There are no more tools here."}
	}
	if len(hits) == 0 {
		return Output{Text: "Nothing fits these words. There are: " + strings.Join(names, ", ") + "."}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:min(len(hits), foundMax)]
	var out Output
	var b strings.Builder
	b.WriteString("You can call these now:")
	for _, h := range hits {
		out.Loads = append(out.Loads, h.Name)
		fmt.Fprintf(&b, "\n%s: %s", h.Name, oneLine(h.Description, firstMost))
	}
	out.Text = b.String()
	return out
}

// Words of a query weigh by where they are found.
const (
	inName        = 4
	inDescription = 1
	wholeName     = 100
)

// score says how well a tool fits a query: its name as a word of the query,
// else words of its name and description that begin alike.
func score(s Spec, query string) int {
	total := 0
	name, description := terms(s.Name), terms(s.Description)
	for _, word := range strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
		if word == strings.ToLower(s.Name) {
			total += wholeName
		}
	}
	for _, q := range terms(query) {
		switch alikeQ := func(w string) bool { return alike(q, w) }; {
		case slices.ContainsFunc(name, alikeQ):
			total += inName
		case slices.ContainsFunc(description, alikeQ):
			total += inDescription
		}
	}
	return total
}

// small are words that say nothing about a tool.
var small = map[string]bool{"a": true, "an": true, "the": true, "to": true, "of": true, "in": true, "for": true,
	"and": true, "or": true, "it": true, "is": true, "with": true, "on": true, "tool": true, "tools": true}

func terms(s string) []string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(w string) bool { return small[w] })
}

// alike reports whether one word begins with the other, short ones aside.
func alike(a, b string) bool {
	return a == b || len(a) >= 4 && strings.HasPrefix(b, a) || len(b) >= 4 && strings.HasPrefix(a, b)
}
