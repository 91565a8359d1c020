package longrun

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed end_run.md
var usage string

// EndRun is the name of the tool with which a long run says that it is done.
const EndRun = "end_run"

type endInput struct {
	Summary string `json:"summary"`
}

// Tool returns the tool end_run. It belongs to long runs alone.
func Tool() tool.Tool {
	return tool.New(EndRun, usage, mercury.Read,
		func(endInput) []mercury.Access {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "this run"}}
		},
		func(_ context.Context, _ tool.Call, in endInput) (tool.Output, error) {
			summary := strings.TrimSpace(in.Summary)
			if summary == "" {
				return tool.Output{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the summary is empty")}
			}
			return tool.Output{Text: "The run ends here.", Ends: &tool.End{Text: summary}}, nil
		})
}

// Shape makes the profile of a run in a fork what a long run needs.
func Shape(p *agent.Profile, r mercury.Run, c mercury.Conversation, now func() time.Time) {
	if c.Kind != "fork" || c.ParentID == "" {
		return
	}
	p.Said = func(tx *engine.Tx, _ mercury.Run, answer mercury.Entry) error { return said(tx, c.ParentID, answer) }
	if !r.Deadline.IsZero() {
		p.Next = func(r mercury.Run) string { return next(r, now()) }
	}
}

// said keeps an answer in the conversation that the run works for.
func said(tx *engine.Tx, conversation string, answer mercury.Entry) error {
	_, err := tx.Append(conversation, mercury.Entry{Kind: mercury.AssistantEntry, RunID: answer.RunID, Round: answer.Round,
		Text: answer.Text, Taint: answer.Taint})
	return err
}

// briefing is the first a long run hears.
func briefing(d time.Duration) string {
	return fmt.Sprintf("You work on this by yourself for %s. After each answer you are asked to go on until the time is over; "+
		"what people write meanwhile reaches you. When nothing useful is left to do, call %s.", Short(d), EndRun)
}

// next has a run go on, unless too little of its time is left.
func next(r mercury.Run, now time.Time) string {
	left := r.Deadline.Sub(now)
	if left < lastStretch {
		return ""
	}
	return fmt.Sprintf("Go on; %s left. Do not repeat what is done. When nothing useful is left to do, call %s.", Short(left), EndRun)
}

// Ended joins the commit in which a run ends: the conversation that a long run
// worked for is told, and is itself again.
func Ended(tx *engine.Tx, r mercury.Run) error {
	conversation := mercury.ChatOf(r.ConversationID)
	if r.Deadline.IsZero() || conversation == r.ConversationID {
		return nil
	}
	id, err := tx.MetaValue(factKey(conversation))
	if err != nil || id != r.ID {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	if err := tx.SetMeta(factKey(conversation), ""); err != nil {
		return err
	}
	text := farewell(r)
	if _, err := tx.Append(conversation, mercury.Entry{Kind: mercury.NoteEntry, RunID: r.ID, Text: text}); err != nil {
		return err
	}
	if r.State == mercury.RunFailed || r.State == mercury.RunDead || mercury.ChannelOf(conversation) == "local" {
		return nil // the failure is told by itself; on the local channel the note is what people read
	}
	_, _, err = tx.Emit(mercury.Delivery{Address: conversation, ConversationID: r.ConversationID, RunID: r.ID,
		RequestID: "longrun/" + r.ID, Kind: mercury.NoticeDelivery, Text: text})
	return err
}

// farewell says how a long run ended.
func farewell(r mercury.Run) string {
	took := Short(r.EndedAt.Sub(r.CreatedAt))
	switch {
	case r.State == mercury.RunStopped:
		return fmt.Sprintf("The run was stopped after %s.", took)
	case r.State != mercury.RunDone:
		return fmt.Sprintf("The run failed after %s: %s", took, r.Error)
	}
	var result agent.Result
	if len(r.Result) > 0 && json.Unmarshal(r.Result, &result) != nil {
		result = agent.Result{}
	}
	switch result.End {
	case agent.EndedByTools:
		return fmt.Sprintf("The run ended after %s: it says that it is done.", took)
	case agent.EndedRestful:
		return fmt.Sprintf("The run ended after %s: it only talked and did nothing more. /run begins another.", took)
	}
	return fmt.Sprintf("The run ended after %s: its time is over.", took)
}
