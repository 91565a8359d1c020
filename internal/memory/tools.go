package memory

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// The names of the tools.
const (
	SaveTool    = "save_memory"
	SearchTool  = "search_memory"
	HistoryTool = "search_history"
)

//go:embed save_memory.md
var saveUsage string

//go:embed search_memory.md
var searchUsage string

//go:embed search_history.md
var historyUsage string

// Shelf is through which tools reach what is kept. Both are required.
type Shelf struct {
	View   func(ctx context.Context, fn func(store.Tx) error) error
	Update func(ctx context.Context, fn func(store.Tx) error) error
	// Scope says whose memories a call is about; default ScopeOf its mandate's
	// actor and its conversation.
	Scope func(c tool.Call) string
}

func (s Shelf) scope(c tool.Call) string {
	if s.Scope != nil {
		return s.Scope(c)
	}
	return ScopeOf(c.Mandate.Actor, c.ConversationID)
}

type saveInput struct {
	Text   string `json:"text" jsonschema:"one sentence in the third person"`
	Type   string `json:"type,omitempty" jsonschema:"identity, preference (default), goal, project, habit, decision, constraint, relationship or episode"`
	Detail string `json:"detail,omitempty"`
}

// ByHand is a candidate with the weights of what somebody asked to be kept.
func ByHand(kind, text, detail, learned string) Candidate {
	if kind = strings.ToLower(strings.TrimSpace(kind)); kind == "" {
		kind = Preference
	}
	c := Candidate{Kind: kind, Summary: text, Detail: detail, Learned: learned, Confidence: 0.9, Importance: 0.7, Durability: 0.8}
	switch kind {
	case Identity, Constraint:
		c.Importance, c.Durability = 0.85, 0.95
	case Relationship:
		c.Importance, c.Durability = 0.8, 0.9
	case Episode, Decision:
		c.Durability = 0.5
	}
	return c
}

func (in saveInput) candidate(c tool.Call) Candidate {
	n := ByHand(in.Type, in.Text, in.Detail, Direct)
	n.Taint, n.Actor = c.Taint, c.Mandate.Actor
	n.RunID, n.ConversationID, n.CallID, n.Tool = c.RunID, c.ConversationID, c.ID, SaveTool
	return n
}

// Save returns the tool with which a model keeps something. What it keeps is
// written with the step of the call.
func (s Shelf) Save() tool.Tool {
	return tool.Define(tool.Definition[saveInput]{
		Name: SaveTool, Usage: saveUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in saveInput) ([]mercury.Access, error) {
			if len(c.Taint) > 0 && Instructs(in.Text+" "+in.Detail) {
				return []mercury.Access{{Kind: mercury.Settings, Target: "a memory that says what to do: " + in.Text}}, nil
			}
			return []mercury.Access{{Kind: mercury.OwnState, Target: "memory"}}, nil
		},
		Show: func(_ context.Context, _ tool.Call, in saveInput) string {
			return strings.TrimSpace("To be remembered:\n\n" + in.Text + "\n" + in.Detail)
		},
		Run: func(ctx context.Context, c tool.Call, in saveInput) (tool.Output, error) {
			scope, candidate := s.scope(c), in.candidate(c)
			var r Result
			err := s.View(ctx, func(tx store.Tx) error {
				paused, err := Paused(tx, scope)
				if err != nil {
					return err
				}
				if paused {
					return &mercury.Error{Kind: mercury.Denied, Err: errors.New("nothing was saved: learning is paused"), Help: "The person can go on with it by /memory resume."}
				}
				r, _, err = decide(tx, scope, candidate)
				return err
			})
			if err != nil {
				return tool.Output{}, err
			}
			if r.Outcome == Refused {
				return tool.Output{}, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("nothing was saved: %s", r.Reason),
					Help: "The types are " + strings.Join(Kinds[:len(Kinds)-1], ", ") + "."}
			}
			return tool.Output{Text: says(r), Commit: func(tx store.Tx) error {
				_, err := Remember(tx, scope, candidate)
				return err
			}}, nil
		},
	})
}

// says tells what became of a candidate.
func says(r Result) string {
	switch r.Outcome {
	case Merged:
		return "Known already; noted once more: " + r.Memory.Summary
	case Won:
		return fmt.Sprintf("Saved: %s\nIt takes the place of: %s", r.Memory.Summary, r.Rival.Summary)
	case Lost:
		return fmt.Sprintf("Kept, but not used: %s\nIt contradicts what is surer: %s", r.Memory.Summary, r.Rival.Summary)
	}
	return "Saved: " + r.Memory.Summary
}

type searchInput struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty" jsonschema:"default 10, at most 50"`
}

// Search returns the tool with which a model looks through memories.
func (s Shelf) Search() tool.Tool {
	return tool.Define(tool.Definition[searchInput]{
		Name: SearchTool, Usage: searchUsage, Effect: mercury.Read,
		Access: func(context.Context, tool.Call, searchInput) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "memory"}}, nil
		},
		Run: func(ctx context.Context, c tool.Call, in searchInput) (tool.Output, error) {
			var found []Recalled
			err := s.View(ctx, func(tx store.Tx) (err error) {
				found, err = Find(tx, s.scope(c), in.Query, bound(in.Limit, 10, 50))
				return err
			})
			if err != nil {
				return tool.Output{}, err
			}
			if len(found) == 0 {
				return tool.Output{Text: "Nothing is remembered of that."}, nil
			}
			var out tool.Output
			for _, r := range found {
				out.Text += line(r.Memory) + "\n"
				if r.Detail != "" {
					out.Text += "  " + strings.Join(strings.Fields(r.Detail), " ") + "\n"
				}
				out.Taint = union(out.Taint, r.Taint)
			}
			return out, nil
		},
	})
}

type historyInput struct {
	Query string `json:"query"`
	Here  bool   `json:"here,omitempty" jsonschema:"only in this conversation"`
	Limit int    `json:"limit,omitempty" jsonschema:"default 10, at most 50"`
}

// entryShown is how much of an entry a model is shown, in characters.
const entryShown = 400

// History returns the tool with which a model looks through what was said.
func (s Shelf) History() tool.Tool {
	return tool.Define(tool.Definition[historyInput]{
		Name: HistoryTool, Usage: historyUsage, Effect: mercury.Read,
		Access: func(context.Context, tool.Call, historyInput) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "history"}}, nil
		},
		Run: func(ctx context.Context, c tool.Call, in historyInput) (tool.Output, error) {
			if c.Mandate.Actor.Role == mercury.BotRole || c.Mandate.Actor.Role == mercury.HelperRole {
				in.Here = true
			}
			conversation := ""
			if in.Here {
				conversation = c.ConversationID
			}
			if err := s.Index(ctx); err != nil {
				return tool.Output{}, err
			}
			var found []mercury.Entry
			err := s.View(ctx, func(tx store.Tx) (err error) {
				found, err = History(tx, Reader{c.Mandate.Actor, c.ConversationID}, in.Query, conversation, bound(in.Limit, 10, 50))
				return err
			})
			if err != nil {
				return tool.Output{}, err
			}
			if len(found) == 0 {
				return tool.Output{Text: "Nothing like that was said."}, nil
			}
			var out tool.Output
			for _, e := range found {
				who := "you"
				if e.Kind == mercury.UserEntry {
					who = orElse(e.Actor.Name, string(e.Actor.Role))
				}
				out.Text += fmt.Sprintf("%s %s, %s: %s\n", e.At.Local().Format("2006-01-02 15:04"), e.ConversationID, who,
					cut(strings.Join(strings.Fields(e.Text), " "), entryShown))
				out.Taint = union(out.Taint, e.Taint)
				if e.Kind == mercury.UserEntry && e.Actor.Below(c.Mandate.Actor) {
					out.Taint = union(out.Taint, []string{e.Actor.Source()})
				}
			}
			return out, nil
		},
	})
}

// Index makes all entries findable that are not yet.
func (s Shelf) Index(ctx context.Context) error {
	for more := true; more; {
		err := s.Update(ctx, func(tx store.Tx) (err error) {
			more, err = tx.IndexEntries(IndexBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("make what was said findable: %w", err)
		}
	}
	return nil
}

func bound(n, usual, most int) int {
	if n <= 0 {
		return usual
	}
	return min(n, most)
}

// claims are the words by which an answer says that something was remembered
// or will be.
var claims = lazy(`(?i)\bI('ll| will)( now| also| always)? (remember|keep (that|this|it) in mind|make a note|note (that|this|it)|memori[sz]e)\b|` +
	`\bI('ve| have)?( just| now| also)? (noted|memori[sz]ed|made a note|saved (that|this|it) (to|in|for))\b|\b(noted|saved|stored) (that |this |it )?(in|to|for) (my )?(memory|later|future)\b|` +
	`\b(merke|notiere) (ich )?(es )?mir\b|\bich (merke|habe) mir .*(gemerkt|notiert|gespeichert|merken)\b|\bich merke mir\b|\bgemerkt\b|` +
	`我(会|已经?|将)?(记住|记下|记得)|已(记住|记下|保存)|(سأتذكر|لقد حفظت|تم الحفظ|سأحفظ|سجلت ذلك|حفظت)`)

// Unsaved says what to show under an answer that speaks of remembering though
// nothing was saved in its run; empty when all is well.
func Unsaved(answer string, saved bool) string {
	if saved || !claims().MatchString(answer) {
		return ""
	}
	return "Not saved: nothing was written to memory in this turn."
}
