package memory

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Fact is a memory as it leaves and enters Mercury, in JSON.
type Fact struct {
	ID         string               `json:"id,omitempty"`
	Scope      string               `json:"scope,omitempty"`
	Kind       string               `json:"kind"`
	Summary    string               `json:"summary"`
	Detail     string               `json:"detail,omitempty"`
	Tier       string               `json:"tier,omitempty" doc:"active, durable or subconscious"`
	State      string               `json:"state,omitempty" doc:"live, superseded or forgotten"`
	Confidence float64              `json:"confidence,omitempty"`
	Importance float64              `json:"importance,omitempty"`
	Durability float64              `json:"durability,omitempty"`
	Evidence   int                  `json:"evidence,omitempty" doc:"observations that agree"`
	Learned    string               `json:"learned,omitempty" doc:"inferred, direct or manual"`
	Sources    []store.MemorySource `json:"sources,omitempty"`
	Taint      []string             `json:"taint,omitempty" doc:"outside sources it derives from"`
	Rival      string               `json:"rival,omitempty" doc:"the memory that contradicts it"`
	RunID      string               `json:"run_id,omitempty"`
	From       string               `json:"from,omitempty" doc:"who said it"`
	CreatedAt  time.Time            `json:"created_at,omitzero"`
	SeenAt     time.Time            `json:"seen_at,omitzero"`
}

// Shown is a memory as a Fact.
func Shown(m store.Memory) Fact {
	return Fact{ID: m.ID, Scope: m.Scope, Kind: m.Kind, Summary: m.Summary, Detail: m.Detail, Tier: m.Tier, State: m.State,
		Confidence: m.Confidence, Importance: m.Importance, Durability: m.Durability, Evidence: m.Evidence, Learned: m.Learned,
		Sources: m.Sources, Taint: m.Taint, Rival: m.Rival, RunID: m.RunID, From: m.Actor.Name, CreatedAt: m.CreatedAt, SeenAt: m.SeenAt}
}

// Candidate is what of a Fact is remembered anew: brought from elsewhere, it
// keeps its weights and wording, and counts as written by hand.
func (f Fact) Candidate(by mercury.Actor) Candidate {
	c := ByHand(f.Kind, f.Summary, f.Detail, Manual)
	if f.Confidence > 0 {
		c.Confidence, c.Importance, c.Durability = f.Confidence, f.Importance, f.Durability
	}
	if f.Learned == Inferred || f.Learned == Direct {
		c.Learned = f.Learned
	}
	c.Sources, c.Taint, c.Actor = f.Sources, f.Taint, by
	return c
}

// Markdown writes memories as a list that people edit and Import reads: a
// heading for each kind, a line for each memory.
func Markdown(w io.Writer, facts []Fact) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "# What Mercury remembers")
	for _, kind := range Kinds {
		begun := false
		for _, f := range facts {
			if f.Kind != kind || f.State != "" && f.State != store.MemoryLive || kind == Reflection {
				continue
			}
			if !begun {
				begun = true
				fmt.Fprintf(out, "\n## %s\n\n", kind)
			}
			fmt.Fprintf(out, "- %s\n", f.Summary)
			for line := range strings.Lines(f.Detail) {
				fmt.Fprintf(out, "  %s\n", strings.TrimRight(line, "\r\n"))
			}
		}
	}
	return out.Flush()
}

// importMax bounds what is imported at once, in bytes.
const importMax = 64 << 20

// ParseFacts reads memories from JSON, as an array or as the page that the API
// gives, or from Markdown as written by Markdown.
func ParseFacts(r io.Reader) ([]Fact, error) {
	b, err := io.ReadAll(io.LimitReader(r, importMax+1))
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	if len(b) > importMax {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("there are more than %d bytes", importMax)}
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff"))
	switch {
	case strings.HasPrefix(text, "["):
		var facts []Fact
		err = json.Unmarshal([]byte(text), &facts)
		return facts, badImport(err)
	case strings.HasPrefix(text, "{"):
		var page struct {
			Items []Fact `json:"items"`
		}
		err = json.Unmarshal([]byte(text), &page)
		return page.Items, badImport(err)
	}
	return markdownFacts(text)
}

func badImport(err error) error {
	if err == nil {
		return nil
	}
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read memories: %w", err), Help: "Give what `mercury memory export` wrote, as JSON or Markdown."}
}

func markdownFacts(text string) ([]Fact, error) {
	var facts []Fact
	kind := Preference
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "## "):
			kind = strings.ToLower(strings.TrimSpace(line[3:]))
			if !known(kind) {
				return nil, badImport(fmt.Errorf("there is no kind %q", kind))
			}
		case strings.HasPrefix(line, "- "):
			facts = append(facts, Fact{Kind: kind, Summary: strings.TrimSpace(line[2:])})
		case strings.HasPrefix(line, "  ") && len(facts) > 0:
			last := &facts[len(facts)-1]
			last.Detail = strings.TrimSpace(last.Detail + "\n" + strings.TrimSpace(line))
		}
	}
	if len(facts) == 0 && text != "" {
		return nil, badImport(errors.New("there is no list of memories in it"))
	}
	return facts, nil
}
