// Package doctor says what is wrong with a home, and what cures it.
//
// It reads only: a home can be examined while Mercury runs in it, while it does
// not, and while it cannot. It asks no model unless it is told to. What it
// mends on request is what can be mended without a decision: permissions of
// files, missing folders, what a kill left behind.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
)

// Level says how much a finding matters.
type Level string

// The levels. Warnings and faults are something to do.
const (
	Fine    Level = "ok"
	Note    Level = "note" // worth knowing, nothing to do
	Warning Level = "warning"
	Fault   Level = "error"
)

// Finding is one thing that was looked at.
type Finding struct {
	Area   string `json:"area"`
	Level  Level  `json:"level"`
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"`     // what to do, for a person
	CanFix bool   `json:"can_fix,omitempty"` // --fix does it
	Fixed  bool   `json:"fixed,omitempty"`

	repair func() error
}

// Todo reports whether a person has something to do about it.
func (f Finding) Todo() bool { return !f.Fixed && (f.Level == Warning || f.Level == Fault) }

// Report is everything that was found, the worst first.
type Report struct {
	Version  string    `json:"version"`
	Home     string    `json:"home"`
	Running  bool      `json:"running"`
	At       time.Time `json:"at"`
	Todo     int       `json:"todo"` // how many findings want something done
	Findings []Finding `json:"findings"`
}

// Check looks at one area on behalf of another room.
type Check func(ctx context.Context) []Finding

// Options say how a home is examined. Home and Version are required.
type Options struct {
	Home    config.Home
	Version string
	Getenv  func(string) string // default: the process's environment
	// Fix mends what can be mended without a decision.
	Fix bool
	// Runtime asks the Mercury that runs in the home; an error: none answers.
	Runtime func(ctx context.Context) (api.Status, error)
	// Live asks a model, which costs something. Nil: nobody is asked.
	Live func(ctx context.Context, c *config.Config) error
	// Fence finds out what holds commands. Nil: only a running Mercury says.
	Fence func(ctx context.Context) sandbox.Report
	// More are the checks of other rooms, such as services and schedules.
	More []Check

	// Tests: what the system says of a disk that is closed or full.
	access func(dir string) error
	room   func(dir string) (free, all uint64, err error)
}

// exam is one examination.
type exam struct {
	Options
	found  []Finding
	config *config.Config // nil: there is none that could be used
	status *api.Status    // nil: none answers
}

func (e *exam) add(area string, level Level, text, fix string) {
	e.found = append(e.found, Finding{Area: area, Level: level, Text: text, Fix: fix})
}

// mendable adds a finding that --fix can mend.
func (e *exam) mendable(area string, level Level, text, fix string, repair func() error) {
	e.found = append(e.found, Finding{Area: area, Level: level, Text: text, Fix: fix, CanFix: true, repair: repair})
}

// Examine looks at everything. It has no error: what cannot be looked at is a
// finding.
func Examine(ctx context.Context, o Options) Report {
	if o.access == nil {
		o.access = writable
	}
	if o.room == nil {
		o.room = room
	}
	e := &exam{Options: o}
	if e.ownHome() {
		e.files()
		e.configuration()
		e.runtime(ctx)
		e.leftovers()
		e.providers(ctx)
		e.machine()
		e.fence(ctx)
		e.database(ctx)
		e.backups()
		for _, check := range o.More {
			e.found = append(e.found, check(ctx)...)
		}
	}
	if o.Fix {
		e.mend()
	}
	return e.report()
}

func (e *exam) mend() {
	for i := range e.found {
		f := &e.found[i]
		if f.repair == nil {
			continue
		}
		if err := f.repair(); err != nil {
			f.Fix = "It could not be mended: " + err.Error() + ". " + f.Fix
			continue
		}
		f.Fixed = true
	}
}

func (e *exam) report() Report {
	r := Report{Version: e.Version, Home: e.Home.Dir(), Running: e.status != nil, At: time.Now().UTC().Truncate(time.Second), Findings: e.found}
	for _, f := range r.Findings {
		if f.Todo() {
			r.Todo++
		}
	}
	rank := map[Level]int{Fault: 0, Warning: 1, Note: 2, Fine: 3}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank[a.Level], rank[b.Level]) })
	return r
}

// some is a number of things in words.
func some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// long is a length of time in words.
func long(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return "a moment"
	case d < 2*time.Hour:
		return some(int(d.Minutes()), "minute", "minutes")
	case d < 48*time.Hour:
		return some(int(d.Hours()), "hour", "hours")
	}
	return some(int(d.Hours()/24), "day", "days")
}

// cure is what an error says can be done about it, or else the usual.
func cure(err error, usual string) string { return cmp.Or(mercury.HelpOf(err), usual) }
