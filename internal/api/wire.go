package api

import (
	"encoding/json"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Conversation is a conversation on the wire.
type Conversation struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Title     string    `json:"title,omitempty"`
	LastSeq   int64     `json:"last_seq"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	RunID     string    `json:"run_id,omitempty" doc:"its live run, if any; given by the route of one conversation"`
	Waiting   int       `json:"waiting,omitempty" doc:"messages that wait their turn; given by the route of one conversation"`
}

func conversation(c mercury.Conversation) Conversation {
	return Conversation{ID: c.ID, Kind: c.Kind, Title: c.Title, LastSeq: c.LastSeq, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt}
}

// Entry is one line of a conversation on the wire.
type Entry struct {
	ID      string          `json:"id"`
	Seq     int64           `json:"seq"`
	Kind    string          `json:"kind" doc:"user, assistant, tool_call, tool_result, note, summary or reset"`
	Text    string          `json:"text"`
	RunID   string          `json:"run_id,omitempty"`
	At      time.Time       `json:"at"`
	From    string          `json:"from,omitempty" doc:"who wrote it"`
	InputID string          `json:"input_id,omitempty" doc:"user: the message it was"`
	CallID  string          `json:"call_id,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Result  string          `json:"result,omitempty"`
	Diff    string          `json:"diff,omitempty"`
	Failed  bool            `json:"failed,omitempty" doc:"the tool said it failed"`
	Hidden  bool            `json:"hidden,omitempty" doc:"not part of what the model sees"`
}

func entry(e mercury.Entry) Entry {
	w := Entry{ID: e.ID, Seq: e.Seq, Kind: string(e.Kind), Text: e.Text, RunID: e.RunID, At: e.At,
		From: e.Actor.Name, CallID: e.CallID, Hidden: e.Hidden}
	if e.Kind == mercury.UserEntry || e.Kind == mercury.NoteEntry {
		var d engine.InputData
		if json.Unmarshal(e.Data, &d) == nil {
			w.InputID = d.InputID
		}
	}
	if e.Kind == mercury.ToolCallEntry || e.Kind == mercury.ToolResultEntry {
		var d struct {
			Tool    string          `json:"tool"`
			Args    json.RawMessage `json:"args"`
			Result  string          `json:"result"`
			Diff    string          `json:"diff"`
			IsError bool            `json:"is_error"`
		}
		if json.Unmarshal(e.Data, &d) == nil {
			w.Tool, w.Args, w.Result, w.Diff, w.Failed = d.Tool, d.Args, d.Result, d.Diff, d.IsError
		}
		if w.Result == "" && e.Kind == mercury.ToolResultEntry {
			w.Result = e.Text
		}
	}
	return w
}

// Run is a run on the wire.
type Run struct {
	ID             string        `json:"id"`
	State          string        `json:"state" doc:"queued, running, waiting, done, failed, stopped or dead"`
	Kind           string        `json:"kind"`
	Lane           string        `json:"lane"`
	ConversationID string        `json:"conversation_id,omitempty"`
	ParentID       string        `json:"parent_id,omitempty"`
	ReplayOf       string        `json:"replay_of,omitempty"`
	Attempts       int           `json:"attempts,omitempty"`
	Waiting        string        `json:"waiting,omitempty" doc:"why it is parked"`
	CreatedAt      time.Time     `json:"created_at"`
	NotBefore      *time.Time    `json:"not_before,omitempty"`
	StartedAt      *time.Time    `json:"started_at"`
	EndedAt        *time.Time    `json:"ended_at"`
	Usage          mercury.Usage `json:"usage"`
	Code           string        `json:"code,omitempty" doc:"reason code of a run that did not end well"`
	Error          string        `json:"error"`
	Steps          []Step        `json:"steps,omitempty" doc:"given by the route of one run"`
}

func run(r mercury.Run) Run {
	w := Run{ID: r.ID, State: string(r.State), Kind: r.Kind, Lane: string(r.Lane), ConversationID: r.ConversationID,
		ParentID: r.ParentID, ReplayOf: r.ReplayOf, Attempts: r.Attempts, CreatedAt: r.CreatedAt,
		StartedAt: when(r.StartedAt), EndedAt: when(r.EndedAt), Usage: r.Usage, Code: r.ErrorCode, Error: r.Error}
	if r.State == mercury.RunQueued {
		w.NotBefore = when(r.NotBefore)
	}
	if r.State == mercury.RunWaiting && r.Wait != nil {
		w.Waiting = r.Wait.Reason
	}
	return w
}

// Step is one journaled step of a run on the wire.
type Step struct {
	Round     int        `json:"round"`
	CallID    string     `json:"call_id"`
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	Effect    string     `json:"effect"`
	State     string     `json:"state" doc:"started, done, failed or unknown"`
	Error     string     `json:"error,omitempty"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

func step(s mercury.Step) Step {
	return Step{Round: s.Round, CallID: s.CallID, Kind: s.Kind, Name: s.Name, Effect: string(s.Effect),
		State: string(s.State), Error: s.Error, StartedAt: s.StartedAt, EndedAt: when(s.EndedAt)}
}

// Delivery is a delivery on the wire.
type Delivery struct {
	ID             string     `json:"id"`
	Address        string     `json:"address"`
	State          string     `json:"state" doc:"pending, held, sending, sent, unknown, refused, superseded or cancelled"`
	Kind           string     `json:"kind"`
	Text           string     `json:"text"`
	Receipt        string     `json:"receipt"`
	Reason         string     `json:"reason,omitempty"`
	SupersededBy   string     `json:"superseded_by,omitempty"`
	ConversationID string     `json:"conversation_id,omitempty"`
	RunID          string     `json:"run_id,omitempty"`
	CreatedAt      time.Time  `json:"created_at"`
	SettledAt      *time.Time `json:"settled_at"`
	Parts          []Part     `json:"parts,omitempty"`
}

// Part is one message of a delivery on the wire.
type Part struct {
	N       int    `json:"n"`
	State   string `json:"state"`
	Receipt string `json:"receipt,omitempty"`
	Error   string `json:"error,omitempty"`
}

func delivery(d mercury.Delivery) Delivery {
	return Delivery{ID: d.ID, Address: d.Address, State: string(d.State), Kind: string(d.Kind), Text: d.Text,
		Receipt: d.Receipt, Reason: d.Reason, SupersededBy: d.SupersededBy, ConversationID: d.ConversationID,
		RunID: d.RunID, CreatedAt: d.CreatedAt, SettledAt: when(d.SettledAt),
		Parts: mapSlice(d.Parts, func(p mercury.Part) Part {
			return Part{N: p.N, State: string(p.State), Receipt: p.Receipt, Error: p.Error}
		})}
}

// Question is a question on the wire.
type Question struct {
	ID             string           `json:"id"`
	State          string           `json:"state" doc:"open, answered, expired or withdrawn"`
	Kind           string           `json:"kind" doc:"approval, choice, text or limit"`
	Title          string           `json:"title" doc:"what and why, in one line"`
	Body           string           `json:"body,omitempty" doc:"the exact thing"`
	Choices        []mercury.Choice `json:"choices,omitempty"`
	Always         string           `json:"always,omitempty" doc:"the rule that the answer always would store"`
	ConversationID string           `json:"conversation_id,omitempty"`
	RunID          string           `json:"run_id,omitempty"`
	AskedBy        string           `json:"asked_by,omitempty"`
	CreatedAt      time.Time        `json:"created_at"`
	ExpiresAt      *time.Time       `json:"expires_at"`
	Answer         string           `json:"answer,omitempty"`
	AnsweredBy     string           `json:"answered_by,omitempty"`
	AnsweredVia    string           `json:"answered_via,omitempty"`
	AnsweredAt     *time.Time       `json:"answered_at,omitempty"`
}

func question(q mercury.Question) Question {
	return Question{ID: q.ID, State: string(q.State), Kind: q.Kind, Title: q.Title, Body: q.Body, Choices: q.Choices,
		Always: q.Always, ConversationID: q.ConversationID, RunID: q.RunID, AskedBy: string(q.AskedBy.Role),
		CreatedAt: q.CreatedAt, ExpiresAt: when(q.ExpiresAt), Answer: q.Answer, AnsweredBy: person(q.AnsweredBy),
		AnsweredVia: q.AnsweredVia, AnsweredAt: when(q.AnsweredAt)}
}

func person(a mercury.Actor) string {
	if a.Name != "" {
		return a.Name
	}
	return string(a.Role)
}

// when is a time that may be missing.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
