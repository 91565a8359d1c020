package agent

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// fickle asks at first, and denies from the given judgement on.
type fickle struct {
	judged *atomic.Int32
	denies int32
}

func (g fickle) Judge(context.Context, tool.Request) mercury.Judgement {
	if g.judged.Add(1) >= g.denies {
		return mercury.Judgement{Rule: "revoked", Why: "it was revoked"}
	}
	return mercury.Judgement{Verdict: mercury.Ask, Rule: "marks"}
}

func TestRightsAreLookedAtAgainInTheCommitThatStartsACall(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("mark", "x")}, Times: 1}}})
	// The first judgement asks, the second prepares the approved call, the
	// third is the one inside the commit.
	h.gate = fickle{judged: new(atomic.Int32), denies: 3}
	h.start()
	id := h.say("go").RunID
	h.answer(h.asks(1)[0], mercury.AnswerOnce)
	if run := h.ends(id); run.State != mercury.RunDone || len(h.marks()) != 0 {
		t.Errorf("run %s, marks %q", run.State, h.marks())
	}
	if last := string(h.server.Requests()[1].Body); !strings.Contains(last, "it was revoked") {
		t.Errorf("the model was not told: %s", last)
	}
}

func TestAnApprovalIsForExactlyWhatWasShown(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("link", "x")}, Times: 1}}})
	var target atomic.Value
	target.Store("/first")
	h.tools = append(h.tools, tool.Define(tool.Definition[lookArgs]{
		Name: "link", Usage: "Follows a link.", Effect: mercury.Once,
		Access: func(context.Context, tool.Call, lookArgs) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.WritePath, Target: target.Load().(string)}}, nil
		},
		Run: func(_ context.Context, c tool.Call, _ lookArgs) (tool.Output, error) {
			return tool.Output{Text: "wrote"}, h.mark(c.Granted[0].Target)
		},
	}))
	h.start()
	id := h.say("go").RunID
	first := h.asks(1)[0]
	target.Store("/second")
	h.answer(first, mercury.AnswerRun)
	var second mercury.Question
	h.until("the call to be asked about anew", func(tx store.Tx) bool {
		open, _ := tx.OpenQuestions(talkID)
		if len(open) == 1 {
			second = open[0]
		}
		return second.ID != "" && second.ID != first.ID
	})
	if got := h.marks(); len(got) != 0 {
		t.Errorf("it ran on the word for something else: %q", got)
	}
	h.answer(second, mercury.AnswerOnce)
	h.ends(id)
	if got := h.marks(); !slices.Equal(got, []string{"/second"}) {
		t.Errorf("marks %q", got)
	}
}

// A stop that falls between the mark of a call and its beginning leaves a step
// that provably did not happen and has no result. The next life says so to the
// model; it neither runs the call nor looks at it for ever.
func TestACallThatAStopOvertookBeforeItBeganIsToldToTheModel(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("mark", "x")}, Times: 1}}})
	h.start()
	id := h.say("go").RunID
	q := h.asks(1)[0]
	h.close()
	h.reopen(func(s store.Store) error {
		return s.Update(context.Background(), func(tx store.Tx) error {
			return tx.PutStep(mercury.Step{RunID: id, Round: 1, CallID: q.CallID, Kind: stepTool, Name: "mark", Effect: mercury.Once,
				State: mercury.StepFailed, Error: "It was cancelled before it began.", StartedAt: tx.Now(), EndedAt: tx.Now()})
		})
	})
	h.start()
	h.answer(q, mercury.AnswerOnce)
	if run := h.ends(id); run.State != mercury.RunDone || len(h.marks()) != 0 {
		t.Errorf("run %s, marks %q", run.State, h.marks())
	}
	if last := string(h.server.Requests()[1].Body); !strings.Contains(last, textNotRun) {
		t.Errorf("the model was not told: %s", last)
	}
}
