package mercury

import "time"

// AccessKind is a verb: what a call would do to what it names.
type AccessKind string

const (
	ReadPath   AccessKind = "read"
	WritePath  AccessKind = "write"
	DeletePath AccessKind = "delete"
	RunCommand AccessKind = "run"      // a shell string, or an argv
	FetchURL   AccessKind = "fetch"    // an outgoing request to Target
	SendTo     AccessKind = "send"     // a message to the address Target
	Spend      AccessKind = "spend"    // costs beyond the model's own tokens
	Settings   AccessKind = "settings" // changes Mercury itself
	AskPerson  AccessKind = "ask"      // shows a person a question
	OwnState   AccessKind = "own"      // the conversation's own notes and plan; always allowed
	Foreign    AccessKind = "foreign"  // a call into an MCP server: Target is server/tool
)

// Access is one thing a tool call would touch. A tool states its accesses and
// knows no permission; the gate judges them.
type Access struct {
	Kind   AccessKind `json:"kind"`
	Target string     `json:"target"`         // path, command, URL, address
	Argv   []string   `json:"argv,omitempty"` // RunCommand, when the tool has no shell string
	Dir    string     `json:"dir,omitempty"`  // RunCommand: working directory
	Detail string     `json:"detail,omitempty"`
	// Unfenced says that a RunCommand needs what no fence grants: the network,
	// or files outside the workspace.
	Unfenced bool `json:"unfenced,omitempty"`
	// Background says that a RunCommand outlives its call.
	Background bool `json:"background,omitempty"`
}

// Verdict is what the gate says. The zero value denies.
type Verdict int

const (
	Deny Verdict = iota
	Ask
	Allow
)

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Judgement is a verdict with the rule that decided and the reason in a
// person's words.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`
	Why     string  `json:"why,omitempty"`
	// Always is the narrowest rule that would let this pass next time, as
	// shown to the person; empty when no lasting rule is offered.
	Always string `json:"always,omitempty"`
	// Hash binds an approval to exactly what was judged.
	Hash string `json:"hash,omitempty"`
}

// Mandate is the frozen rights of a run: who acts, with which tools, where,
// and how much it may spend. It is a value passed down; a child's is a subset
// of its parent's.
type Mandate struct {
	Actor       Actor     `json:"actor"`
	Mode        string    `json:"mode"`                  // "ask", "guided", "allow-all"
	ModeUntil   time.Time `json:"mode_until,omitzero"`   // zero: as long as the run; after it, the configured mode
	Interactive bool      `json:"interactive,omitempty"` // a person can be asked
	Tools       []string  `json:"tools,omitempty"`       // nil: every tool of the profile
	Scopes      []Scope   `json:"scopes,omitempty"`
	Workspace   string    `json:"workspace,omitempty"` // where relative paths begin
	Destination string    `json:"destination,omitempty"`
}

// Scope is a folder with what may be done in it.
type Scope struct {
	Path   string `json:"path"`
	Read   bool   `json:"read,omitempty"`
	Write  bool   `json:"write,omitempty"`
	Delete bool   `json:"delete,omitempty"`
}
