package intake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// undo shows what taking back the last run of this conversation would do, and
// does it once "yes" is said.
func (i *Intake) undo(tx *engine.Tx, call Call) (Reply, error) {
	if i.opts.Undo == nil {
		return Reply{}, &mercury.Error{Kind: mercury.Setup, Err: errors.New("nothing here keeps what it would take to undo")}
	}
	run, apply := "", false
	for _, word := range strings.Fields(call.Args) {
		switch {
		case strings.EqualFold(word, "yes"):
			apply = true
		case strings.HasPrefix(word, "run_") && run == "":
			run = word
		default:
			return Reply{}, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is neither yes nor a run", word), Help: "/runs lists the runs of this conversation."}
		}
	}
	u, err := i.opts.Undo(call.Context, tx, run, call.Conversation, apply, call.Actor)
	if err != nil {
		return Reply{}, err
	}
	text := UndoText(u)
	if !apply && len(u.Changes) > 0 {
		text += fmt.Sprintf("\n/undo yes %s does it.", u.RunID)
	}
	return Reply{Text: text, Visible: apply}, nil
}

// UndoText says what undoing a run would do, or did.
func UndoText(u mercury.Undone) string {
	var b strings.Builder
	head := "Undoing %s would do this:"
	if u.Applied {
		head = "Undoing %s did this:"
	}
	fmt.Fprintf(&b, head, u.RunID)
	if len(u.Changes) == 0 {
		b.WriteString("\nnothing; it changed no file.")
	}
	for _, c := range u.Changes {
		mark := "·"
		if c.Can {
			mark = "✓"
		}
		fmt.Fprintf(&b, "\n%s %s %s", mark, c.Path, c.Text)
	}
	for _, c := range u.Cannot {
		fmt.Fprintf(&b, "\n· %s", c)
	}
	return b.String()
}
