// Package tool is what a model may do: the contract of a tool, and the Set
// that stands between a model and all of them.
//
// A tool says what a call would touch and does its work; it knows no
// permission. The Set checks the arguments, asks the gate, and only then hands
// out something that can be run: there is no other way from a model to the
// world. What comes back is bounded and harmless to print: 50 KB or 2,000
// lines, valid UTF-8, the rest in a file the model can read.
//
// Tools sit in folders below, or with what they work on. Whether a call is
// allowed, whom to ask and when to run it again is decided elsewhere.
package tool

import (
	"context"
	"encoding/json"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
)

// Spec is what a model is told about a tool. Its bytes never change while the
// program runs, so that a provider's prompt cache holds.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments, an object
}

// A Tool is one thing a model may ask for. Its methods may be called from
// several goroutines.
type Tool interface {
	Spec() Spec

	// Effect says whether a call may happen twice.
	Effect() mercury.Effect

	// Accesses states everything that Run would touch, with paths resolved
	// to what they really are. It touches nothing itself beyond looking
	// names up. An error means the call cannot be made; its text is for the
	// model.
	Accesses(ctx context.Context, c Call) ([]mercury.Access, error)

	// Run does the call. It touches what c.Granted names and nothing else. A
	// failure the model can act on may be an error or an Output with
	// IsError; when ctx ended, Run returns its error, and nothing it started
	// is still running.
	Run(ctx context.Context, c Call) (Output, error)
}

// A Shower is a tool that can show a person exactly what a call would do, for
// an approval. Without it the accesses are shown.
type Shower interface {
	Show(ctx context.Context, c Call) string
}

// A Prober is a Once tool that can find out whether an interrupted call
// happened. It returns the output if it did, notDone if it surely did not, and
// neither if nobody can know.
type Prober interface {
	Probe(ctx context.Context, c Call) (done *Output, notDone bool, err error)
}

// Call is one call of a tool.
type Call struct {
	ID             string // unique within the run
	RunID          string
	ConversationID string
	Name           string
	Args           json.RawMessage
	Mandate        mercury.Mandate
	Taint          []string // sources of outside text in the request that made the call

	// Dir is where relative paths and commands begin, when the conversation
	// went somewhere else than its workspace.
	Dir string

	// Progress, if not nil, is told lines as they come. They are for people
	// who watch; losing them loses nothing.
	Progress func(line string)

	// Outputs is a folder of this conversation alone where large outputs go,
	// made when needed. The model may read what is in it. Empty: what does
	// not fit is dropped, and the result says so.
	Outputs string

	// Approved, if set, is the hash of the accesses a person said yes to for
	// this very call: an ask about exactly these counts as allowed. A denial
	// stands.
	Approved string

	// Mask, if not nil, takes secrets out of a text. The Set fills it in; a
	// Capture uses it.
	Mask func(text string) string

	// Granted is what the gate allowed: the accesses the call stated. The Set
	// fills it in; a tool touches nothing else.
	Granted []mercury.Access

	// Exec, if not nil, is the resolved command that runs in place of a
	// shell. The Set fills it in from the gate.
	Exec *Command
}

// Folder is where relative paths and commands of the call begin.
func (c Call) Folder() string {
	if c.Dir != "" {
		return c.Dir
	}
	return c.Mandate.Workspace
}

// FolderKey is the name of the fact in the store that says where a
// conversation went.
func FolderKey(conversation string) string { return "folder/" + conversation }

// Command is a command resolved by the gate: run exactly this, by execve, with
// no shell and no search along PATH.
type Command struct {
	Path string   // absolute path of the binary
	Args []string // argv, the name included
	Env  []string // whole environment, but for a mark the tool adds; nil: the tool's own minimal one
	Dir  string   // working directory; empty: the call's workspace
	Why  string   // how it runs, for the log: "argv", "sandbox"

	// Fence, if not nil, is what the command is held to; where that cannot
	// be done it does not run.
	Fence *sandbox.Policy
}

// Output is what a call brought.
type Output struct {
	Text    string         // for the model
	IsError bool           // the call failed, and Text says why
	Diff    string         // unified diff of what changed, for people
	Fence   string         // the fence a command ran in, "none" without one, for people
	Files   []mercury.File // files that go to the person

	// Question is one for a person; the run parks on it, and the answer
	// becomes the result.
	Question *mercury.Question

	// Ends asks that the turn ends here, without another request. It does when
	// every call of the round asks for it and nobody has written meanwhile.
	Ends *End

	// Commit, if not nil, joins the transaction that stores this result: a
	// change of our own state is made exactly when the call is done.
	Commit func(store.Tx) error

	// Loads names tools that a model is told about from now on.
	Loads []string

	// Narrows names the tools that the run is held to from the next round on,
	// beside those that do no harm. Empty: it stays as it is.
	Narrows []string

	Taint     []string // outside sources in Text
	Truncated string   // path of the whole text, when Text is only part of it
}

// An End is how a tool ends a turn.
type End struct {
	Text   string `json:"text"`             // the answer
	Afresh bool   `json:"afresh,omitempty"` // the work is handed over: what stands here is no longer shown to the model
}

// Error returns an output that tells the model what went wrong.
func Error(text string) Output { return Output{Text: text, IsError: true} }

// Gate decides whether a call may happen.
type Gate interface {
	Judge(ctx context.Context, r Request) mercury.Judgement
}

// A CommandGate is a Gate that also resolves the command of a call that runs
// one. The command is nil when the call runs as the tool would by itself.
type CommandGate interface {
	Gate
	JudgeCommand(ctx context.Context, r Request) (mercury.Judgement, *Command)
}

// A Masker is a Gate that also takes secrets out of what tools bring, before
// anyone sees it or it is kept.
type Masker interface {
	Gate
	// Mask returns text without the secrets in it.
	Mask(text string) string
	// Masked is told that the output of c held secrets.
	Masked(ctx context.Context, c Call)
}

// Request asks a gate about one call. Hash names its accesses: an approval for
// one hash is no approval for another.
type Request struct {
	Mandate        mercury.Mandate
	Tool           string
	Effect         mercury.Effect
	RunID          string
	ConversationID string
	CallID         string
	Accesses       []mercury.Access
	Hash           string
	Taint          []string
	Dir            string // where relative paths and commands begin
}
