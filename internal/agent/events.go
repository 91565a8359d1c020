package agent

import "github.com/mercury-agent/mercury/internal/engine"

// Phase is the Data of a "phase" event: what a turn is at, for faces. Step is
// "thinking", "calling" (the model writes a call of the tool Name), "tool"
// (Name runs), "waiting" (for a person; Name says why) or "sending".
type Phase struct {
	Step string `json:"step"`
	Name string `json:"name,omitempty"`
}

// Delta is the Data of a "delta" event: text that was just streamed. Restart
// says that what was shown of this answer is void.
type Delta struct {
	Text    string `json:"text,omitempty"`
	Restart bool   `json:"restart,omitempty"`
}

// Progress is the Data of a "tool" event: a call begins, says a line, or has
// ended.
type Progress struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	State  string `json:"state"` // "running", "done", "failed"
	Line   string `json:"line,omitempty"`
}

func (t *turn) phase(step, name string) { t.publish("phase", Phase{Step: step, Name: name}) }

func (t *turn) publish(kind string, d any) {
	t.w.Publish(engine.Event{Type: kind, ConversationID: t.run.ConversationID, RunID: t.run.ID, Data: d})
}
