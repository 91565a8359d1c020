package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// CleanNote is the entry after which a model sees references in place of the
// text from outside, and of what was made from it, up to the entry through.
// The entries themselves stay as they are.
func CleanNote(through int64) mercury.Entry {
	e := note("", noteClean, "Text from outside, and what was made from it, was put away up to here.")
	e.Data = encode(noteData{Kind: noteClean, Through: through})
	return e
}

// Cleanable counts the entries that a CleanNote would put away.
func Cleanable(entries []mercury.Entry) int {
	shown, _ := visible(entries)
	n := 0
	for _, e := range shown {
		if outside(e) {
			n++
		}
	}
	return n
}

// outside reports whether an entry holds, or was made from, text of others
// than those whom Mercury works for.
func outside(e mercury.Entry) bool {
	return len(e.Taint) > 0 || e.Kind == mercury.UserEntry && e.Actor.Role != "" && !e.Actor.Trusted()
}

// cleaned puts references in place of outside text up to the newest mark.
func cleaned(shown []mercury.Entry) []mercury.Entry {
	through := int64(0)
	for _, e := range shown {
		if e.Kind == mercury.NoteEntry {
			if d := data[noteData](e); d.Kind == noteClean {
				through = max(through, d.Through)
			}
		}
	}
	if through == 0 {
		return shown
	}
	shown = slices.Clone(shown)
	for i, e := range shown {
		if e.Seq <= through && outside(e) {
			shown[i] = reference(e)
		}
	}
	return shown
}

// reference is what stands for an entry with outside text.
func reference(e mercury.Entry) mercury.Entry {
	from := strings.Join(e.Taint, ", ")
	if from == "" {
		from = "another person"
	}
	text := fmt.Sprintf("(entry %d, with text from %s, was put away)", e.Seq, preview(from, 200))
	e.Taint = nil
	switch e.Kind {
	case mercury.ToolResultEntry:
		d := data[resultData](e)
		d.Result, d.Diff, d.Files, d.Whole = text, "", nil, ""
		e.Data = encode(d)
	case mercury.ToolCallEntry:
		d := data[callData](e)
		d.Args, d.BadArgs = object(nil), ""
		e.Data = encode(d)
	case mercury.AssistantEntry:
		d := data[assistantData](e)
		parts := []llm.Part{{Kind: llm.Text, Text: text}}
		for _, p := range d.Parts {
			if p.Kind == llm.ToolCall {
				parts = append(parts, llm.Part{Kind: p.Kind, ID: p.ID})
			}
		}
		d.Parts = parts
		e.Text, e.Data = text, encode(d)
	case mercury.UserEntry:
		e.Text, e.Data, e.Actor = text, nil, mercury.Actor{}
	default:
		e.Text = text
	}
	return e
}
