// Package supervise keeps a program running: it starts it again when it
// crashes, more slowly each time, and gives up with a reason when it does
// nothing but crash.
package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/atomicfile"
)

// How crashes are answered.
const (
	firstWait = time.Second      // before the first new start; doubled with each crash
	longest   = time.Minute      // at most that
	steady    = 10 * time.Minute // a life of this length forgets the crashes before it
	tooMany   = 5                // crashes in a row after which nothing is started any more
	keptTail  = 2000             // bytes of the last words that are kept
)

// An Ending is how one life of the program ended.
type Ending struct {
	Code int    // exit code; -1 when a signal ended it
	How  string // for a person, such as "exit status 1" or "signal: killed"
	Last string // what it said to its supervisor, in the end why it left
}

// Crash is one of the crashes that are remembered.
type Crash struct {
	At   time.Time `json:"at"`
	How  string    `json:"how"`
	Last string    `json:"last,omitempty"`
}

// State is what is known of a supervised program; it outlives the supervisor.
type State struct {
	Crashes []Crash   `json:"crashes,omitempty"` // those in a row, oldest first
	Parked  time.Time `json:"parked,omitzero"`   // since when nothing is started any more
}

// Why says in a sentence why nothing is started any more; empty when that is
// not so.
func (s State) Why() string {
	if s.Parked.IsZero() || len(s.Crashes) == 0 {
		return ""
	}
	last := s.Crashes[len(s.Crashes)-1]
	text := fmt.Sprintf("it crashed %d times in a row, the last time at %s (%s), and is not started again by itself",
		len(s.Crashes), last.At.Local().Format("2006-01-02 15:04"), last.How)
	if last.Last != "" {
		text += ". Its last words: " + last.Last
	}
	return text
}

// Options say what is kept running.
type Options struct {
	// Live runs the program once and returns how it ended. It ends the program
	// in order when ctx ends. An error means that it could not be started.
	Live func(ctx context.Context) (Ending, error)
	// Final are the exit codes after which a new start would not help.
	Final []int
	// File keeps the State; empty: it is not kept.
	File string
	// Say is told what happens, a line each.
	Say func(line string)
}

// latest returns what still counts of a state that an earlier supervisor left:
// a program that was started again at once by somebody else has not calmed down.
func (s State) latest(now time.Time) State {
	s.Crashes = slices.DeleteFunc(s.Crashes, func(c Crash) bool { return now.Sub(c.At) >= steady })
	if len(s.Crashes) == 0 {
		return State{}
	}
	return s
}

// ErrParked says that the program did nothing but crash.
var ErrParked = errors.New("it crashed too often and is not started again by itself")

// Run keeps the program running until ctx ends or it ends by itself in order or
// with a final code, which it returns.
func Run(ctx context.Context, o Options) (code int, err error) {
	state := State{}
	if o.File != "" {
		if state, err = Read(o.File); err != nil {
			o.Say("what is known of earlier crashes could not be read: " + err.Error())
		}
		state = state.latest(time.Now())
	}
	if !state.Parked.IsZero() {
		return 1, fmt.Errorf("%w: %s", ErrParked, state.Why())
	}
	o.keep(state)
	for {
		began := time.Now()
		end, err := o.Live(ctx)
		if err != nil {
			return 1, err
		}
		if ctx.Err() != nil || end.Code == 0 || slices.Contains(o.Final, end.Code) {
			return end.Code, nil
		}
		if time.Since(began) >= steady {
			state = State{}
		}
		state.Crashes = append(state.Crashes, Crash{At: time.Now().UTC(), How: end.How, Last: strings.TrimSpace(end.Last)})
		if len(state.Crashes) >= tooMany {
			state.Parked = time.Now().UTC()
			o.keep(state)
			return end.Code, fmt.Errorf("%w: %s", ErrParked, state.Why())
		}
		o.keep(state)
		wait := min(firstWait<<(len(state.Crashes)-1), longest)
		o.Say(fmt.Sprintf("it ended unasked (%s); started again in %s", end.How, wait))
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(wait):
		}
	}
}

func (o Options) keep(s State) {
	if o.File == "" {
		return
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = atomicfile.Write(o.File, append(b, '\n'), 0o600)
	}
	if err != nil {
		o.Say("what is known of its crashes could not be kept: " + err.Error())
	}
}

// Forget lets the next supervisor begin as if nothing had crashed, because a
// person starts the program.
func Forget(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget earlier crashes: %w", err)
	}
	return nil
}

// Read returns what a supervisor has kept; nothing where there is none.
func Read(file string) (State, error) {
	var s State
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("read what is known of crashes: %w", err)
	}
	return s, nil
}
