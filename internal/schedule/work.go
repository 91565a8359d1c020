package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// result is what a run leaves for the row of its occurrence.
type result struct {
	Skipped string `json:"skipped,omitempty"` // why it did nothing, on purpose
}

// occurrence is the handler of an occurrence's run: first its precheck, then
// its command, then the turn.
func (s *Schedules) occurrence(ctx context.Context, w *engine.Work) error {
	var in work
	run := w.Run()
	if err := json.Unmarshal(run.Input, &in); err != nil {
		return fmt.Errorf("read the work of an occurrence: %w", err)
	}
	var sch store.Schedule
	var began bool
	err := w.View(ctx, func(tx store.Tx) (err error) {
		if sch, err = tx.Schedule(in.Schedule); err != nil {
			return err
		}
		c, err := tx.Conversation(run.ConversationID)
		if err != nil {
			return err
		}
		entries, err := tx.Entries(c.ID, max(c.Head-1, 0), 0)
		began = slices.ContainsFunc(entries, func(e mercury.Entry) bool { return e.RunID == run.ID && e.Kind == mercury.UserEntry })
		return err
	})
	if err != nil {
		return fmt.Errorf("read schedule %s: %w", in.Schedule, err)
	}
	if began {
		return s.turn(ctx, w)
	}
	var output []string
	var taint []string
	if in.Precheck != "" {
		r, err := s.command(ctx, w, sch, "precheck", in.Precheck)
		switch {
		case err != nil:
			return err
		case r.Failed != "":
			return s.fail(ctx, w, r.code(), r.why("precheck"))
		case r.Exit != 0:
			return s.settleSkipped(ctx, w, "the precheck said no"+reasonOf(r.Text))
		}
		output, taint = append(output, r.Text), append(taint, r.Taint...)
	}
	if in.Watch != "" {
		r, err := s.look(ctx, w, sch, in.Watch)
		switch {
		case err != nil:
			return err
		case r.Failed != "":
			return s.fail(ctx, w, "watch", in.Watch+" could not be looked at"+reasonOf(r.Failed))
		case r.Text == "":
			return s.settleSkipped(ctx, w, "nothing has changed")
		}
		output, taint = append(output, "What changed in "+in.Watch+":\n"+r.Text), append(taint, r.Taint...)
	}
	if in.Action == ActionCommand {
		r, err := s.command(ctx, w, sch, "command", in.Command)
		switch {
		case err != nil:
			return err
		case r.Failed != "":
			return s.fail(ctx, w, r.code(), r.why("command"))
		case r.Exit != 0:
			return s.fail(ctx, w, "command", fmt.Sprintf("The command ended with exit code %d%s", r.Exit, reasonOf(r.Text)))
		case strings.TrimSpace(r.Text) == "":
			return s.settleSkipped(ctx, w, "the command printed nothing")
		}
		taint = append(taint, r.Taint...)
		if in.Text == "" {
			return s.send(ctx, w, sch, r.Text, taint)
		}
		output = append(output, r.Text)
	}
	err = w.Update(ctx, "schedule.prompt", func(tx *engine.Tx) error {
		_, err := tx.Append(run.ConversationID, prompt(sch, run.ID, in, strings.TrimSpace(strings.Join(output, "\n")), taint))
		return err
	})
	if err != nil {
		return err
	}
	return s.turn(ctx, w)
}

func (s *Schedules) turn(ctx context.Context, w *engine.Work) error {
	if s.opts.Turn == nil {
		return &mercury.Error{Kind: mercury.Setup, Err: errors.New("take the turn of an occurrence: no model is configured")}
	}
	return s.opts.Turn(ctx, w)
}

func reasonOf(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	line := []rune(lines[len(lines)-1])
	return ": " + string(line[:min(len(line), 200)])
}

// send makes a command's output the answer.
func (s *Schedules) send(ctx context.Context, w *engine.Work, sch store.Schedule, text string, taint []string) error {
	run := w.Run()
	err := w.Settle(ctx, engine.Outcome{
		Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, RunID: run.ID, Round: 1, Text: text, Taint: taint,
			Data: mustJSON(map[string]any{"parts": []any{}})}},
		Answer: []mercury.Delivery{{Address: sch.Destination, Text: text, Kind: mercury.DirectDelivery, RequestID: "scheduled:" + run.ID}},
	}, nil)
	if errors.Is(err, engine.ErrMore) {
		return s.turn(ctx, w)
	}
	return err
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values of our own
	}
	return b
}

func (s *Schedules) settleSkipped(ctx context.Context, w *engine.Work, why string) error {
	return w.Settle(ctx, engine.Outcome{Result: mustJSON(result{Skipped: why})}, nil)
}

func (s *Schedules) fail(ctx context.Context, w *engine.Work, code, text string) error {
	return w.Settle(ctx, engine.Outcome{State: mercury.RunFailed, Code: code, Error: text}, nil)
}

// ran is what the journal keeps of a command.
type ran struct {
	Text   string   `json:"text,omitempty"`
	Exit   int      `json:"exit,omitempty"`
	Failed string   `json:"failed,omitempty"` // why it did not run, or nobody knows
	Taint  []string `json:"taint,omitempty"`

	unknown bool                   // it was cut off: what it did is not known
	commit  func(*engine.Tx) error // joins the commit that journals it
}

// codeInterrupted is the code of a run whose command was cut off.
const codeInterrupted = "interrupted"

func (r ran) code() string {
	if r.unknown {
		return codeInterrupted
	}
	return "command"
}

func (r ran) why(what string) string {
	if r.unknown {
		return "The " + what + " was cut off: " + r.Failed
	}
	return "The " + what + " did not run: " + r.Failed
}

// command runs one command of an occurrence through the gate, once.
func (s *Schedules) command(ctx context.Context, w *engine.Work, sch store.Schedule, callID, command string) (ran, error) {
	return s.call(ctx, w, sch, callID, "run_command", map[string]any{"command": command}, plain)
}

// call makes one call of a tool through the gate. What needs a person's word
// waits for it. read makes of the output what the journal keeps.
func (s *Schedules) call(ctx context.Context, w *engine.Work, sch store.Schedule, callID, name string, input map[string]any, read func(tool.Output) ran) (ran, error) {
	if s.opts.Tools == nil {
		return ran{Failed: "there are no tools here"}, nil
	}
	tools, err := s.opts.Tools(ctx)
	if err != nil {
		return ran{}, err
	}
	run := w.Run()
	args := mustJSON(input)
	step := engine.StepCall{CallID: callID, Kind: "tool", Name: name, Effect: mercury.Once, Args: args}
	for _, old := range w.Journal() {
		if old.CallID == callID && old.State != mercury.StepStarted {
			return recall(old), nil
		}
	}
	asked, err := w.Questions(ctx)
	if err != nil {
		return ran{}, err
	}
	call := tool.Call{ID: callID, RunID: run.ID, ConversationID: run.ConversationID, Name: name, Args: args, Mandate: run.Mandate, Taint: sch.Taint}
	for _, q := range asked {
		if q.CallID != callID {
			continue
		}
		switch {
		case q.State == mercury.QuestionAnswered && slices.Contains([]string{mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour, mercury.AnswerAlways}, q.Answer):
			call.Approved = q.Hash
		case q.State != mercury.QuestionOpen:
			return ran{Failed: "it was not allowed"}, nil
		}
	}
	p := tools.Prepare(ctx, call)
	switch {
	case p.Output != nil:
		return ran{Failed: p.Output.Text}, nil
	case p.Question != nil:
		return ran{}, s.ask(ctx, w, sch, *p.Question)
	}
	if p.Effect == mercury.Read || p.Judgement.Rule == tool.RuleReads {
		step.Effect = mercury.Read
	}
	done, err := w.Do(ctx, step, func(ctx context.Context) (engine.StepResult, error) {
		out, err := p.Run(ctx)
		if err != nil {
			return engine.StepResult{}, err
		}
		if err := w.View(ctx, func(tx store.Tx) error {
			sources, err := tool.Marks(tx, p.Accesses)
			out.Taint = slices.Concat(out.Taint, sources)
			return err
		}); err != nil {
			return engine.StepResult{}, err
		}
		r := read(out)
		return engine.StepResult{Output: mustJSON(r), Commit: func(tx *engine.Tx) error {
			if r.commit != nil {
				if err := r.commit(tx); err != nil {
					return err
				}
			}
			if err := tool.Mark(tx, name, run.ID, p, slices.Concat(out.Taint, sch.Taint), out.IsError); err != nil {
				return err
			}
			return tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: run.Actor, Act: "judge", Subject: run.ID + "/" + callID,
				Verdict: p.Judgement.Verdict.String(), Rule: p.Judgement.Rule, Detail: name + " " + string(args)})
		}}, nil
	})
	if err != nil {
		return ran{}, err
	}
	return recall(done), nil
}

func recall(s mercury.Step) ran {
	var r ran
	if s.State != mercury.StepDone {
		return ran{Failed: s.Error, unknown: s.State == mercury.StepUnknown}
	}
	if err := json.Unmarshal(s.Output, &r); err != nil {
		return ran{Failed: "what it printed cannot be read"}
	}
	return r
}

// ask parks the run on a question for the owner.
func (s *Schedules) ask(ctx context.Context, w *engine.Work, sch store.Schedule, q mercury.Question) error {
	q.ExpiresAt = s.opts.Clock.Now().Add(QuestionLife)
	return w.Park(ctx, engine.Park{Questions: []mercury.Question{q}, Reason: "waiting for your decision"}, func(tx *engine.Tx) error {
		d := mercury.Delivery{Address: sch.Destination, ConversationID: Conversation(sch.ID), RequestID: "question/" + q.ID, QuestionID: q.ID,
			Kind: mercury.QuestionDelivery, Text: sch.Name + " asks: " + q.Title + "\n" + q.Body + "\n/yes or /no"}
		if s.opts.Hush != nil {
			d.NotBefore = s.opts.Hush(s.opts.Clock.Now())
		}
		_, _, err := tx.Emit(d)
		return err
	})
}

// how are the remarks that run_command puts behind what a command printed.
var how = regexp.MustCompile(`\[(exit code (\d+)|stopped: |ended by |processes it left |it ran fenced|nothing new can be made )[^\n]*\]$`)

// plain takes the remarks off an output and keeps what they say.
func plain(out tool.Output) ran {
	r := ran{Text: strings.TrimRight(out.Text, "\n"), Taint: out.Taint}
	known := false
	for {
		m := how.FindStringSubmatchIndex(r.Text)
		if m == nil || m[0] > 0 && r.Text[m[0]-1] != '\n' {
			break
		}
		remark := r.Text[m[0]+1 : m[1]-1]
		if m[4] >= 0 {
			known = true
			if _, err := fmt.Sscan(r.Text[m[4]:m[5]], &r.Exit); err != nil {
				r.Exit = 1
			}
		} else if strings.HasPrefix(remark, "stopped: ") || strings.HasPrefix(remark, "ended by ") {
			r.Failed = remark
		}
		r.Text = strings.TrimRight(r.Text[:m[0]], "\n")
		if known {
			break
		}
	}
	if out.IsError && r.Exit == 0 && r.Failed == "" {
		r.Failed = r.Text
	}
	return r
}
