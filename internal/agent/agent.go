// Package agent does one turn: it builds a request from a conversation's
// entries, asks the model, runs the tools it calls, takes what people said
// meanwhile, and asks again, until there is an answer or a limit is reached.
//
// Everything a turn knows stands in the entries and in the run's journal, so a
// turn that was cut off at any point, by a crash, a restart or another version
// of this program, goes on from its last finished step. A person's answer is
// waited for by parking the run, never by a goroutine.
//
// The package knows no channel, no memory and no bot. Who answers, with which
// prompt, model and tools, is a Profile it asks for; whether a call may happen
// is decided by the tool.Set of that profile.
package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Profile is who answers a run.
type Profile struct {
	Name   string   // shown in the ledger
	System []string // prompt sections; the same bytes from turn to turn, or no cache holds

	// Tail is what changes from request to request and stands behind
	// everything that can be cached. Nil means the package's own Tail: the
	// time, and what became of the last answers.
	Tail func(ctx context.Context, tx store.Tx, c mercury.Conversation) (string, error)

	// Outside names the outside sources of what System and Tail say, as of the
	// last call of Tail. Nil: none.
	Outside func() []string

	// Aside words what stands under an answer by the program's own hand, given
	// the tools whose calls succeeded in its run. Nil: nothing.
	Aside func(answer string, used []string) string

	Model     llm.Client // one model, or a chain that falls back
	ModelName string     // provider/model of the one that leads
	Window    int        // tokens it reads and writes together; default 128,000
	MaxOutput int        // tokens of one answer; default 8,192

	Tools   *tool.Set // nil: none
	Outputs string    // folder where large tool outputs go; empty: nowhere
	Limits  Limits
	Budget  *budget.Book // what a day and a month may cost; nil: whatever it costs

	// Answerers may answer a run's questions besides the owner.
	Answerers []mercury.Role

	// Patience is how long a question of the run waits for its answer; zero:
	// as long as the engine lets it. Hush says until when nobody is told of a
	// question asked at t; nil: they are told at once.
	Patience time.Duration
	Hush     func(t time.Time) time.Time

	// Silent says of an answer that it is kept and shown to nobody. Nil: each
	// is shown.
	Silent func(text string) bool

	// Next is asked in the commit of an answer whether the run goes on all the
	// same: what it returns is said to the model, and the limits count anew.
	// Empty, or nil: it ends.
	Next func(mercury.Run) string

	// Said joins the commit in which an answer is said. Nil: nothing does.
	Said func(*engine.Tx, mercury.Run, mercury.Entry) error

	// Image reads a picture that came with a message, fit for the model, with
	// its media type. Nil, or an error: it is only named.
	Image func(mercury.File) (b []byte, media string, err error)

	// Addresses says where answers and questions go. Nil: to the mandate's
	// destination, else to the conversation itself where people read it.
	Addresses func(mercury.Conversation) []string
}

func (p Profile) withDefaults() Profile {
	if p.Window <= 0 {
		p.Window = 128_000
	}
	if p.MaxOutput <= 0 {
		p.MaxOutput = min(8_192, p.Window/4)
	}
	if len(p.System) == 0 {
		p.System = []string{System("Mercury", "")}
	}
	if p.Tail == nil {
		p.Tail = Tail
	}
	p.Limits = p.Limits.withDefaults()
	return p
}

// Profiles finds the profile of a run.
type Profiles interface {
	Profile(ctx context.Context, run mercury.Run, c mercury.Conversation) (Profile, error)
}

// Options tune an Agent. A zero field means its default.
type Options struct {
	Zone *time.Location   // where "the rest of today" ends; default the machine's
	Now  func() time.Time // default time.Now
	Log  *slog.Logger     // default discards
}

// An Agent takes turns. It may be used by many runs at once.
type Agent struct {
	profiles  Profiles
	opts      Options
	estimator llm.Estimator
}

// New returns an agent that answers as the profiles say.
func New(p Profiles, o Options) *Agent {
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Agent{profiles: p, opts: o}
}
