package mercury

import (
	"encoding/json"
	"time"
)

// RunState is where a run stands.
type RunState string

const (
	RunQueued  RunState = "queued"
	RunRunning RunState = "running"
	RunWaiting RunState = "waiting" // parked; holds no slot and no goroutine
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"  // its person was told; not replayable
	RunStopped RunState = "stopped" // by a person; replayable
	RunDead    RunState = "dead"    // gave up; on the dead list, replayable
)

// Live reports whether a run in state s still holds its conversation.
func (s RunState) Live() bool { return s == RunQueued || s == RunRunning || s == RunWaiting }

// Run is the work from placed inputs to a final answer, or another kind of
// durable work. One row for life.
type Run struct {
	ID             string
	Kind           string // names the handler: "turn", "compact", "learn", "occurrence", …
	Lane           Lane
	Key            string // runs of one key go one at a time
	ConversationID string // empty: needs none
	ParentID       string
	ReplayOf       string
	State          RunState
	Priority       int // higher first within a lane
	NotBefore      time.Time
	Deadline       time.Time // zero: none
	Owner          string    // process that has it in hand
	Epoch          int64     // rises with every claim; writes under an older one are refused
	Attempts       int       // failures, not takeovers
	Takeovers      int       // owners that died with it in hand
	Cancel         string    // reason, once someone asked for its end
	Detached       bool      // outlives its parent's cancellation
	Woken          bool      // was parked; goes before new runs
	Node           string    // process home it is pinned to; empty: any
	Actor          Actor
	Mandate        Mandate
	Input          json.RawMessage // arguments of its kind
	Wait           *Wait           // why it is parked
	Result         json.RawMessage
	ErrorCode      string // e.g. "provider_auth", "limit_steps"
	Error          string // for a person
	Usage          Usage
	Running        time.Duration // time in hand, waiting not counted
	CreatedAt      time.Time
	StartedAt      time.Time
	EndedAt        time.Time
}

// Wait is what a parked run waits for. It wakes when every question is
// settled, every child has ended, or Until has come.
type Wait struct {
	Questions []string  `json:"questions,omitempty"`
	Children  []string  `json:"children,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	Reason    string    `json:"reason,omitempty"` // shown to people
}

// Usage counts tokens as providers reported them.
type Usage struct {
	Input      int64 `json:"input_tokens"` // uncached ones included
	Output     int64 `json:"output_tokens"`
	Cached     int64 `json:"cached_tokens,omitempty"` // part of Input read from a cache
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
	Reasoning  int64 `json:"reasoning_tokens,omitempty"`
	Estimated  bool  `json:"estimated,omitempty"` // some of it was not reported
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Cached + v.Cached,
		u.CacheWrite + v.CacheWrite, u.Reasoning + v.Reasoning, u.Estimated || v.Estimated}
}

// Weight is what u counts against a limit or a budget: a token in or out is
// one, a token read from a cache a tenth.
func (u Usage) Weight() int64 { return u.Input - u.Cached + u.Cached/10 + u.Output }

// StepState is where a step stands.
type StepState string

const (
	StepStarted StepState = "started" // a Once step's mark before it happens
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
	StepUnknown StepState = "unknown" // started, and nobody knows whether it happened
)

// Step is one journaled model call, tool call, question or wait of a run,
// keyed by run, round and call id.
type Step struct {
	RunID     string
	Round     int
	CallID    string
	Kind      string // "model", "tool", …
	Name      string // tool or model
	Effect    Effect
	ArgsHash  string // a resumed call with other arguments is an error, never a guess
	State     StepState
	Output    json.RawMessage
	OutputRef string // blob that holds Output when it is larger than 256 KB
	Error     string
	Epoch     int64 // the claim under which it was written
	StartedAt time.Time
	EndedAt   time.Time
}

// QuestionState is where a question stands.
type QuestionState string

const (
	QuestionOpen      QuestionState = "open"
	QuestionAnswered  QuestionState = "answered"
	QuestionExpired   QuestionState = "expired" // counts as no
	QuestionWithdrawn QuestionState = "withdrawn"
)

// Question is a stored ask that parks a run until a person answers anywhere.
// One compare-and-set settles it; whoever comes second sees who answered.
type Question struct {
	ID             string
	RunID          string
	ConversationID string
	CallID         string
	Kind           string // "approval", "choice", "text", "limit"
	Title          string // what and why, one line
	Body           string // the exact thing
	Choices        []Choice
	Accesses       []Access // approval: what it would touch
	Hash           string   // approval: of the resolved accesses
	Rule           string   // approval: the rule that asked
	Always         string   // approval: the rule "always" would store, as shown
	AskedBy        Actor    // whose run asks
	Answerers      []Role   // who may settle it; empty: owner
	State          QuestionState
	Answer         string // value of the choice, or the text
	AnsweredBy     Actor
	AnsweredVia    string // channel
	CreatedAt      time.Time
	ExpiresAt      time.Time
	AnsweredAt     time.Time
}

// Choice is one offered answer.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// Answers to an approval. Anything else counts as No.
const (
	AnswerOnce   = "once"
	AnswerRun    = "run"
	AnswerHour   = "hour"
	AnswerAlways = "always"
	AnswerNo     = "no"
)
