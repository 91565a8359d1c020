package engine

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Options tune an Engine. A zero field means its default.
type Options struct {
	Node    string // identity of this home; runs may be pinned to it
	Version string
	Name    string // host and pid, for people
	Digest  string // of configuration, soul, skills and bots

	// Lanes are caps per process. Defaults: chat 8 (one slot of them only for
	// owners and admins), bot and cron max(2, CPUs-1), helper
	// max(1, min(CPUs-1, available RAM in GB / 2)), out 8, quiet 1.
	Lanes map[mercury.Lane]int
	// InboxCap is how many inputs may wait in one conversation; default 100.
	InboxCap int
	// Backlog is how many runs of one key may be queued; default 100.
	Backlog int
	// Only restricts this process to the runs of one conversation and of what
	// descends from it.
	Only string

	// Plan says which run an input starts. It is pure. Default: a run of kind
	// "turn" in lane chat, keyed by its conversation.
	Plan func(mercury.Conversation, mercury.Input) (NewRun, error)
	// Cure says what a handler's error means. Default: by mercury.KindOf.
	Cure func(mercury.Run, error) Cure
	// Split cuts a delivery into parts the platform takes. Default: the text,
	// then each file.
	Split func(mercury.Delivery) []mercury.Part
	// Failure words a failure for the person who waits for an answer.
	Failure func(run mercury.Run, code string, err error) string
	// Addresses says where the notices of a run go. Default: the mandate's
	// destination, else the conversation itself where people read it.
	Addresses func(mercury.Conversation, mercury.Run) []string

	// Ended joins the commit that ends a run, of any kind; nil: nothing does.
	// It must be cheap: somebody waits for the answer in that commit.
	Ended func(t *Tx, r mercury.Run) error

	// Spool is a folder for the text of answers that are still streaming, so
	// that a killed process leaves what it had; empty: it is not kept.
	Spool string
	// Idle is called when the last run in hand is done. It must not block.
	Idle func()
	Log  *slog.Logger // default discards
}

// NewRun describes a run to be queued.
type NewRun struct {
	ID             string // made before the transaction; empty: made here
	Kind           string // names the handler
	Lane           mercury.Lane
	Key            string // runs of one key go one at a time; empty: the conversation, else none
	ConversationID string
	ParentID       string
	Priority       int
	NotBefore      time.Time
	Deadline       time.Time // kept for the handler; the engine stops nothing by it
	Detached       bool      // outlives its parent's cancellation
	Node           string
	Actor          mercury.Actor
	Mandate        mercury.Mandate
	Input          json.RawMessage
}

func (o Options) withDefaults() Options {
	cpus := runtime.NumCPU()
	lanes := map[mercury.Lane]int{
		mercury.Chat:   8,
		mercury.Bot:    max(2, cpus-1),
		mercury.Cron:   max(2, cpus-1),
		mercury.Helper: max(1, min(cpus-1, availableGB()/2)),
		mercury.Out:    8,
		mercury.Quiet:  1,
	}
	for lane, n := range o.Lanes {
		if n > 0 {
			lanes[lane] = n
		}
	}
	o.Lanes = lanes
	if o.InboxCap == 0 {
		o.InboxCap = 100
	}
	if o.Backlog == 0 {
		o.Backlog = 100
	}
	if o.Plan == nil {
		o.Plan = planTurn
	}
	if o.Cure == nil {
		o.Cure = cureByKind
	}
	if o.Split == nil {
		o.Split = splitWhole
	}
	if o.Failure == nil {
		o.Failure = plainFailure
	}
	if o.Addresses == nil {
		o.Addresses = ownAddress
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func planTurn(c mercury.Conversation, in mercury.Input) (NewRun, error) {
	return NewRun{Kind: "turn", Lane: mercury.Chat, Mandate: mercury.Mandate{Actor: in.Actor}}, nil
}

func splitWhole(d mercury.Delivery) []mercury.Part {
	var parts []mercury.Part
	if d.Text != "" {
		parts = append(parts, mercury.Part{Text: d.Text})
	}
	for _, f := range d.Files {
		parts = append(parts, mercury.Part{File: &f})
	}
	return parts
}

// plainFailure says as much as a person can use: the advice if there is any,
// and the code to look up; never an error's own text.
func plainFailure(_ mercury.Run, code string, err error) string {
	text := "I could not finish this."
	if help := mercury.HelpOf(err); help != "" {
		text += " " + help
	}
	return text + " [reason: " + code + "]"
}

// ownAddress is where people read the conversation. A child's outcome goes to
// its parent, and the threads of bots and helpers are read where they stand.
func ownAddress(c mercury.Conversation, r mercury.Run) []string {
	switch {
	case r.ParentID != "" && !r.Detached:
		return nil
	case r.Mandate.Destination != "":
		return []string{r.Mandate.Destination}
	case c.Kind == "fork" && c.ParentID != "":
		return []string{c.ParentID}
	case c.ID == "" || c.Kind == "bot" || c.Kind == "helper" || c.Kind == "fork":
		return nil
	}
	return []string{c.ID}
}

// availableGB is the memory the system could give now, where it says so
// (Linux, Android); elsewhere a modest guess.
func availableGB() int {
	const guess = 8
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return guess
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 || string(f[0]) != "MemAvailable:" {
			continue
		}
		if kb, err := strconv.Atoi(string(f[1])); err == nil {
			return kb >> 20
		}
	}
	return guess
}
