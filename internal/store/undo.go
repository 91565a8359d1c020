package store

import "time"

// UndoRow is one change of a path that a run made, with what it takes to take
// it back. A state is "" for nothing there, "folder", or the SHA-256 of a
// file's content in lower-case hex.
type UndoRow struct {
	ID             string
	RunID          string
	ConversationID string
	CallID         string
	Tool           string
	Act            string   // "write", "delete", "move"; others name what is no file
	Path           string   // absolute; of what is no file, its id
	Place          string   // move: where it went; delete: where the trash keeps it
	Before         string   // state of Path before
	BeforeRef      string   // blob of the content before, for a write
	BeforeMode     uint32   // permission bits before
	After          string   // state of Path after; for a move, of Place
	Taint          []string // outside sources in what was there before
	Note           string   // why it cannot be taken back; empty if it can
	At             time.Time
	UndoneAt       time.Time
}

// Undo keeps what runs changed.
type Undo interface {
	// PutUndo writes a row once; a second time with the same id does nothing.
	PutUndo(u UndoRow) error
	UndoRows(runID string) ([]UndoRow, error) // oldest first
	// LastUndoRun is the run of the newest change that was not taken back,
	// of one conversation or, with "", of all. Changes without a conversation
	// are taken back only by naming their run.
	LastUndoRun(conversationID string) (string, error)
	// MarkUndone says that a change was taken back; ErrStale if it was.
	MarkUndone(id string, at time.Time) error
	// UndoWants reports whether a blob is needed to take something back.
	UndoWants(ref string) (bool, error)
}

// FileTaints remembers which files hold text from outside.
type FileTaints interface {
	// TaintFile marks a path, or all below a folder; without sources the
	// mark goes.
	TaintFile(path string, sources []string, runID string) error
	// FileTaint is the union of the sources of the path, of the folders it
	// lies in and of what lies below it.
	FileTaint(path string) ([]string, error)
}

// The states of a job.
const (
	JobRunning = "running"
	JobDone    = "done"    // it ended by itself
	JobStopped = "stopped" // someone ended it; Reason says who or why
)

// Job is a command that runs in the background of a conversation.
type Job struct {
	ID             string
	ConversationID string
	RunID          string
	Node           string // home of the process that runs it
	Command        string
	Dir            string
	Output         string // path of what it prints
	State          string
	Reason         string
	ExitCode       int  // of a job that is done
	Detached       bool // a person said that it outlives its conversation
	StartedAt      time.Time
	EndedAt        time.Time
}

// Jobs keeps background commands.
type Jobs interface {
	InsertJob(j Job) error
	SaveJob(j Job) error // State, Reason, ExitCode, Detached, EndedAt
	Job(id string) (Job, error)
	Jobs(conversationID string) ([]Job, error) // newest first, at most 100; "": of all conversations
	RunningJobs(node string) ([]Job, error)
}
