package agent

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

//go:embed compact.md
var compactText string

// Limits of a summary.
const (
	summaryOutput  = 2_000           // tokens of it
	summaryPieces  = 12              // calls of the model for one; what is older is left out
	summaryLine    = 4_000           // characters of one message a model is shown
	summaryTool    = 600             // characters of one tool output
	summaryTries   = 3               // times a piece is halved because it is too long
	summaryTimeout = 3 * time.Minute // of one call
)

// purposeCompact stands in the ledger.
const purposeCompact = "compact"

// A summariser has a stretch of a conversation told again in few words, piece
// by piece where it does not fit into one request. Each piece is a step of the
// run in hand, so that a crash repeats one piece at most.
type summariser struct {
	agent        *Agent
	w            *engine.Work
	profile      Profile
	conversation string
	round        int
	focus        string // what the person wants kept above all; may be empty
}

// piece is what the journal keeps of one: the summary so far, and how many
// lines stand in it.
type piece struct {
	Text  string        `json:"text"`
	Lines int           `json:"lines"`
	Usage mercury.Usage `json:"usage"`
}

// errNoSummary says that a model gave nothing that can stand for a talk.
var errNoSummary = errors.New("the model wrote no summary")

// summarise returns what stands for entries, which is shorter than they are.
func (s summariser) summarise(ctx context.Context, entries []mercury.Entry) (string, error) {
	lines := transcript(entries)
	size := 0
	for _, l := range lines {
		size += llm.EstimateText(l)
	}
	budget := max(s.profile.Window/2-summaryOutput*2, s.profile.Window/4)
	text, at := "", 0
	for skipped := 0; at < len(lines) && size-skipped > budget*summaryPieces; at++ {
		skipped += llm.EstimateText(lines[at])
		text = "(The beginning is left out.)"
	}
	for n, tries := 0, 0; at < len(lines); {
		end := fill(lines, at, budget)
		p, err := s.piece(ctx, n, text, lines, at, end)
		switch {
		case llm.ClassOf(err) == llm.ContextLength && tries < summaryTries && ctx.Err() == nil:
			tries, budget = tries+1, budget/2
			continue
		case err != nil:
			return "", err
		}
		text, at, n = p.Text, p.Lines, n+1
	}
	if llm.EstimateText(text) >= size {
		return "", fmt.Errorf("%w that is shorter than the talk", errNoSummary)
	}
	return text, nil
}

// fill returns up to which line a piece goes: as many as fit, one at least.
func fill(lines []string, at, budget int) int {
	spent, end := 0, at
	for end < len(lines) {
		if spent += llm.EstimateText(lines[end]); spent > budget && end > at {
			break
		}
		end++
	}
	return end
}

// piece makes the summary of what came before and of lines at to end.
func (s summariser) piece(ctx context.Context, n int, before string, lines []string, at, end int) (piece, error) {
	req := s.request(before, lines[at:end])
	reserved := reservation(s.w.Run(), s.conversation, s.profile, purposeCompact, s.agent.estimator.Request(req), req.MaxTokens, s.agent.opts.Now())
	var failed []llm.Attempt
	step, err := s.w.Do(ctx, engine.StepCall{Round: s.round, CallID: fmt.Sprintf("summary-%d", n), Kind: stepSummary,
		Name: s.profile.ModelName, Effect: mercury.Read, Reserve: &reserved},
		func(ctx context.Context) (engine.StepResult, error) {
			ctx, done := context.WithTimeout(ctx, summaryTimeout)
			defer done()
			response, err := s.profile.Model.Stream(ctx, req, nil)
			failed = response.Failed
			if err != nil {
				return engine.StepResult{}, err
			}
			usage := usageOf(req, response)
			row := settled(reserved, response.Provider, response.Model, usage)
			text := strings.TrimSpace(response.Text())
			if text != "" && response.Finish == llm.Length {
				text += " …"
			}
			return engine.StepResult{Output: encode(piece{Text: text, Lines: end, Usage: usage}), Usage: usage, Ledger: &row,
				Commit: putRows(failedRows(reserved, failed), nil)}, nil
		})
	if err != nil {
		if ctx.Err() != nil || llm.ClassOf(err) == "" {
			return piece{}, err
		}
		if later := settleFailed(ctx, s.w, reserved, failed); later != nil {
			return piece{}, later
		}
		return piece{}, err
	}
	p := decode[piece](step.Output)
	if p.Text == "" {
		return p, errNoSummary
	}
	return p, nil
}

func (s summariser) request(before string, lines []string) llm.Request {
	var b strings.Builder
	if before != "" {
		fmt.Fprintf(&b, "Summary of what came before:\n%s\n\n", before)
	}
	b.WriteString("The talk:\n")
	b.WriteString(strings.Join(lines, "\n"))
	if s.focus != "" {
		fmt.Fprintf(&b, "\n\nThe person asks you to keep above all: %s", s.focus)
	}
	return llm.Request{Model: modelID(s.profile.ModelName), System: []string{strings.TrimSpace(compactText)},
		Messages:  []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: b.String()}}}},
		MaxTokens: min(summaryOutput, s.profile.MaxOutput, max(s.profile.Window/8, 256))}
}

// transcript is a stretch of a conversation as lines to read.
func transcript(entries []mercury.Entry) []string {
	var lines []string
	say := func(who, text string, most int) {
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, who+": "+preview(text, most))
		}
	}
	for _, e := range entries {
		switch e.Kind {
		case mercury.UserEntry:
			say("person", userText(e), summaryLine)
		case mercury.AssistantEntry:
			say("assistant", e.Text, summaryLine)
		case mercury.ToolCallEntry:
			d := data[callData](e)
			say("assistant called "+d.Tool, string(d.Args), summaryTool)
		case mercury.ToolResultEntry:
			say("result", data[resultData](e).Result, summaryTool)
		case mercury.SummaryEntry:
			say("earlier summary", e.Text, summaryOutput*8)
		case mercury.NoteEntry:
			if data[noteData](e).Kind == "" {
				say("note", e.Text, summaryTool)
			}
		}
	}
	return lines
}
