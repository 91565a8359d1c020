package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// A Heartbeat lets the owner's agent look around by itself, by the words of a
// file of theirs. It is a schedule like any other, made by the house: it can be
// paused, sent elsewhere and removed. A model is asked only when something has
// changed since it last looked.
type Heartbeat struct {
	Every time.Duration          // 0: never
	Words func() (string, error) // of heartbeat.md; blank: never
}

const (
	heartbeatID   = "sch_heartbeat"
	heartbeatLook = "heartbeat" // what it watches
	heartbeatRuns = 20          // the newest runs it looks at
)

const heartbeatPrompt = `This is a heartbeat: nobody has written. Below is what the owner wants looked after, and what has changed since the last one. If it asks for something at this moment, do it. If nothing needs the owner, answer HEARTBEAT_OK and nothing else.`

// pulse makes the heartbeat's schedule fit what the house is configured for.
func (s *Schedules) pulse(ctx context.Context) error {
	if s.opts.Heartbeat.Words == nil {
		return nil
	}
	words, err := s.opts.Heartbeat.Words()
	if err != nil {
		return fmt.Errorf("read the heartbeat: %w", err)
	}
	wanted := s.opts.Heartbeat.Every >= time.Minute && saysSomething(words)
	err = s.engine.Update(ctx, "schedule.pulse", func(tx *engine.Tx) error {
		sch, err := tx.LockSchedule(heartbeatID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if !wanted {
				return nil
			}
			return s.firstPulse(tx)
		case err != nil:
			return err
		}
		spec := "every " + short(s.opts.Heartbeat.Every)
		switch {
		case !wanted && sch.State == store.ScheduleActive:
			_, err = s.Pause(tx, sch.ID, reasonQuiet)
		case wanted && sch.State == store.SchedulePaused && sch.Reason == reasonQuiet:
			_, err = s.Resume(tx, sch.ID)
		case wanted && sch.State == store.ScheduleActive && sch.Spec != spec:
			_, err = s.Edit(tx, sch.ID, Draft{When: spec})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("set the heartbeat: %w", err)
	}
	return nil
}

const reasonQuiet = "it is switched off, or heartbeat.md is empty"

func (s *Schedules) firstPulse(tx *engine.Tx) error {
	d := Draft{Name: "heartbeat", When: "every " + short(s.opts.Heartbeat.Every), Prompt: heartbeatPrompt, Watch: heartbeatLook, Missed: MissedSkip}
	sch, err := s.New(d, mercury.Actor{Role: mercury.Owner}, mercury.LocalConversation("default"))
	if err != nil {
		return err
	}
	sch.ID = heartbeatID
	return s.Add(tx, sch)
}

// saysSomething reports whether a text has a line that is neither blank, a
// heading nor a comment.
func saysSomething(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "<!--") {
			return true
		}
	}
	return false
}

// around is what a heartbeat looks at: the owner's words, and what became of
// the work of late.
func (s *Schedules) around(tx store.Tx) (string, error) {
	words, err := s.opts.Heartbeat.Words()
	if err != nil {
		return "", fmt.Errorf("read the heartbeat: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(words))
	runs, _, err := tx.Runs(store.RunFilter{Kind: "turn", Page: store.Page{Limit: heartbeatRuns}})
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.State.Live() {
			continue // what became of it is seen next time
		}
		fmt.Fprintf(&b, "%s in %s: %s %s\n", r.ID, r.ConversationID, r.State, r.Error)
	}
	all, _, err := tx.Schedules(store.Page{Limit: 1000})
	if err != nil {
		return "", err
	}
	for _, sch := range all {
		if sch.Fails > 0 && sch.ID != heartbeatID {
			fmt.Fprintf(&b, "the schedule %s failed %s in a row\n", sch.Name, mercury.Count(sch.Fails, "time", "times"))
		}
	}
	counts, err := tx.CountDeliveries()
	if n := counts[mercury.DeliveryUnknown]; n > 0 {
		b.WriteString(mercury.Count(n, "message", "messages") + " may or may not have arrived\n")
	}
	return b.String(), err
}

// lookAround is look for a heartbeat. It shows the owner's words whenever
// anything changed.
func (s *Schedules) lookAround(ctx context.Context, w *engine.Work) (ran, error) {
	step := engine.StepCall{CallID: "watch", Kind: "tool", Name: heartbeatLook, Effect: mercury.Read}
	done, err := w.Do(ctx, step, func(ctx context.Context) (engine.StepResult, error) {
		var now, before string
		err := w.View(ctx, func(tx store.Tx) (err error) {
			if now, err = s.around(tx); err != nil {
				return err
			}
			before, err = tx.MetaValue(seenKey(heartbeatID))
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return engine.StepResult{}, err
		}
		var r ran
		if now != before {
			words, _, _ := strings.Cut(now, "\n\n")
			r.Text = words + "\n\n" + difference(before, now)
		}
		return engine.StepResult{Output: mustJSON(r), Commit: func(tx *engine.Tx) error { return tx.SetMeta(seenKey(heartbeatID), now) }}, nil
	})
	if err != nil {
		return ran{}, err
	}
	return recall(done), nil
}
