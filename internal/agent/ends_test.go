package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// leave is a tool that asks that the turn ends with the word it is given.
func leave(name string, afresh bool) tool.Tool {
	return tool.New(name, "Ends the turn.", mercury.Read,
		func(in lookArgs) []mercury.Access { return []mercury.Access{{Kind: mercury.ReadPath, Target: in.Path}} },
		func(_ context.Context, _ tool.Call, in lookArgs) (tool.Output, error) {
			return tool.Output{Text: "leaving", Ends: &tool.End{Text: in.Path, Afresh: afresh}}, nil
		})
}

func TestATurnEndsWhereAllToolsOfARoundAskForIt(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "all", Tools: []llmtest.Call{callOf("leave", "Bye."), callOf("leave", "See you.")}},
		{Match: "one of two", Tools: []llmtest.Call{callOf("leave", "Bye."), callOf("look", "y")}},
		{After: "seen y", Reply: "I stay."},
	}, Default: "too much"})
	h.tools = append(h.tools, leave("leave", false))
	h.start()
	h.ends(h.say("all of them").RunID)
	h.ends(h.say("one of two").RunID)
	if got := h.answers(); fmt.Sprint(got) != "[Bye.\n\nSee you. I stay.]" {
		t.Errorf("answers: %q", got)
	}
	if n := len(h.requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	h.sound()
}

func TestWhoWritesMeanwhileKeepsATurnFromEnding(t *testing.T) {
	var h *house
	h = newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "all", Do: func(int, llm.Request) llmtest.Rule {
			h.say("wait")
			return llmtest.Rule{Tools: []llmtest.Call{callOf("leave", "Bye.")}}
		}},
		{Match: "wait", Reply: "I wait."},
	}})
	h.tools = append(h.tools, leave("leave", false))
	h.start()
	h.ends(h.say("all").RunID)
	if got := h.answers(); fmt.Sprint(got) != "[I wait.]" {
		t.Errorf("answers: %q", got)
	}
}

func TestAToolThatHandsOverLeavesAFreshConversation(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "give", Tools: []llmtest.Call{callOf("hand_over", "Ben has it now.")}},
		{Match: "hello", Reply: "Hello."},
	}})
	h.tools = append(h.tools, leave("hand_over", true))
	h.start()
	h.ends(h.say("give it away").RunID)
	h.ends(h.say("hello").RunID)
	if got := h.answers(); fmt.Sprint(got) != "[Ben has it now. Hello.]" {
		t.Errorf("answers: %q", got)
	}
	last := h.requests()[1]
	if len(last.Messages) != 1 {
		t.Errorf("the request after it has %d messages, want 1", len(last.Messages))
	}
	h.sound()
}

// answers are the texts people were shown, in order.
func (h *house) answers() (texts []string) {
	h.t.Helper()
	for _, d := range h.deliveries(mercury.AnswerDelivery) {
		if d.State == mercury.DeliverySent {
			texts = append(texts, d.Text)
		}
	}
	return texts
}

func TestARunThatGoesOnByItselfSurvivesAKillAtEveryCommit(t *testing.T) {
	script := llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go$", Reply: "One."},
		{Match: "stretch", After: "seen y", Reply: "Two."},
		{Match: "last", Tools: []llmtest.Call{callOf("leave", "Three.")}},
		{Match: "stretch", Tools: []llmtest.Call{callOf("look", "y")}},
	}}
	set := func(h *house) {
		h.tools = append(h.tools, leave("leave", false))
		h.shape = func(p *Profile) {
			p.Next = func(r mercury.Run) string {
				if n := len(h.answersOf(r.ID)); n == 0 {
					return "stretch"
				}
				return "last"
			}
		}
	}
	play := func(h *house) error {
		if _, err := h.post("m1", "go", mercury.Steer); err != nil {
			return err
		}
		_, err := h.await(func(tx store.Tx) bool {
			runs, _, _ := tx.Runs(store.RunFilter{ConversationID: talkID})
			return len(runs) > 0 && !runs[0].State.Live()
		})
		return err
	}
	intact := func(h *house) {
		h.t.Helper()
		h.sound()
		if got := h.answers(); fmt.Sprint(got) != "[One. Two. Three.]" {
			h.t.Errorf("answers: %q\n%s", got, h.dump())
		}
	}
	whole := newHouse(t, script)
	set(whole)
	whole.start()
	if err := play(whole); err != nil {
		t.Fatal(err)
	}
	commits := whole.store.updates()
	intact(whole)
	for at := 1; at <= commits; at++ {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("at %d, on disk %v", at, !before), func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, script)
				set(h)
				h.dieAt, h.before = at, before
				for lives := 0; ; lives++ {
					h.start()
					err := play(h)
					h.close()
					if err == nil {
						break
					}
					if !errors.Is(err, errDead) || lives > 2 {
						t.Fatalf("life %d: %v", lives, err)
					}
					h.dieAt = 0
				}
				h.dieAt = 0
				h.start()
				intact(h)
			})
		}
	}
}

// answersOf are the answers of a run that are on disk.
func (h *house) answersOf(run string) (answers []mercury.Delivery) {
	for _, d := range h.deliveries(mercury.AnswerDelivery) {
		if d.RunID == run {
			answers = append(answers, d)
		}
	}
	return answers
}

func TestAToolThatIsReplacedDuringItsCallEndsAsItBegan(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	version := func(said string, wait bool) []tool.Tool {
		return []tool.Tool{tool.New("look", "Looks.", mercury.Read,
			func(in lookArgs) []mercury.Access { return []mercury.Access{{Kind: mercury.ReadPath, Target: in.Path}} },
			func(context.Context, tool.Call, lookArgs) (tool.Output, error) {
				if wait {
					close(begun)
					<-release
				}
				return tool.Output{Text: said}, nil
			})}
	}
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "look", Tools: []llmtest.Call{callOf("look", "y")}},
		{After: ".", Reply: "{{tool}}"},
	}})
	var now atomic.Pointer[[]tool.Tool]
	old, fresh := version("the old one", true), version("the new one", false)
	now.Store(&old)
	h.shape = func(p *Profile) { p.Tools = tool.NewSet(h.gate, *now.Load()...) }
	h.start()
	first := h.say("look")
	<-begun
	now.Store(&fresh)
	close(release)
	h.ends(first.RunID)
	h.ends(h.say("look").RunID)
	if got := h.answers(); fmt.Sprint(got) != "[the old one the new one]" {
		t.Errorf("answers: %q", got)
	}
}
