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
