package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// scene is a turn with everything a turn can have: a note before tools, a
// look and two marks side by side, their questions, a steer, a question of a
// tool, an answer that hits the output limit and goes on.
func scene() llmtest.Script {
	return llmtest.Script{Rules: []llmtest.Rule{
		{Match: "cut off", Reply: "all."},
		{Match: "go", Reasoning: "three at once", Reply: "Working.", Tools: []llmtest.Call{callOf("mark", "x"), callOf("look", "y"), callOf("mark", "z")}},
		{Match: "faster", Reply: "Asking.", Tools: []llmtest.Call{callOf("ask_user", "How fast?")}},
		{After: "very", Reply: "This was ", Finish: "length"},
	}}
}

// play does what the person does in scene, as far as the process lives. What
// was done before is not done again.
func (h *house) play() error {
	if _, err := h.post("m1", "go", mercury.Steer); err != nil {
		return err
	}
	if _, err := h.await(func(tx store.Tx) bool { return asked(tx, "approval") == 2 }); err != nil {
		return err
	}
	if _, err := h.post("m2", "faster", mercury.Steer); err != nil {
		return err
	}
	if err := h.answerOpen("approval", mercury.AnswerOnce); err != nil {
		return err
	}
	if _, err := h.await(func(tx store.Tx) bool { return asked(tx, "text") == 1 }); err != nil {
		return err
	}
	if err := h.answerOpen("text", "very"); err != nil {
		return err
	}
	_, err := h.await(func(tx store.Tx) bool {
		runs, _, _ := tx.Runs(store.RunFilter{ConversationID: talkID})
		return len(runs) > 0 && !slices.ContainsFunc(runs, func(r mercury.Run) bool { return r.State.Live() })
	})
	return err
}

// asked counts the questions of a kind, open or not.
func asked(tx store.Tx, kind string) int {
	all, _, _ := tx.QuestionsList(store.Page{})
	n := 0
	for _, q := range all {
		if q.Kind == kind {
			n++
		}
	}
	return n
}

func (h *house) answerOpen(kind, answer string) error {
	var open []mercury.Question
	h.view(func(tx store.Tx) (err error) { open, err = tx.OpenQuestions(talkID); return err })
	for _, q := range open {
		if q.Kind != kind {
			continue
		}
		if err := h.tryAnswer(q, answer); err != nil {
			return err
		}
	}
	return nil
}

// await is until for a process that may die meanwhile.
func (h *house) await(cond func(store.Tx) bool) (bool, error) {
	deadline := time.After(time.Minute)
	for {
		ok := false
		h.view(func(tx store.Tx) error { ok = cond(tx); return nil })
		if ok {
			return true, nil
		}
		select {
		case <-h.news:
		case <-h.ended:
			return false, errDead
		case <-deadline:
			h.t.Fatalf("waited in vain\n%s", h.dump())
		}
	}
}

func TestATurnSurvivesAKillAtEveryCommit(t *testing.T) {
	whole := newHouse(t, scene())
	whole.start()
	if err := whole.play(); err != nil {
		t.Fatal(err)
	}
	commits := whole.store.updates()
	whole.intact()
	if commits < 15 {
		t.Fatalf("the scene has only %d commits", commits)
	}
	t.Logf("%d commits", commits)
	for at := 1; at <= commits; at++ {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("at %d, on disk %v", at, !before), func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, scene())
				h.dieAt, h.before = at, before
				for lives := 0; ; lives++ {
					h.start()
					err := h.play()
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
				h.intact()
			})
		}
	}
}

// intact checks what must hold however often the process died.
func (h *house) intact() {
	h.t.Helper()
	h.sound()
	calls, results, told := map[string]string{}, map[string]int{}, map[string]string{}
	for _, e := range h.entries() {
		switch e.Kind {
		case mercury.ToolCallEntry:
			calls[e.CallID] = string(data[callData](e).Args)
		case mercury.ToolResultEntry:
			results[e.CallID]++
			told[calls[e.CallID]] = data[resultData](e).Result
		}
	}
	if len(calls) != 4 {
		h.t.Errorf("%d calls\n%s", len(calls), h.dump())
	}
	for id, n := range results {
		if n != 1 {
			h.t.Errorf("call %s has %d results", id, n)
		}
	}
	marks := h.marks()
	for _, what := range []string{"x", "z"} {
		n := 0
		for _, m := range marks {
			if m == what {
				n++
			}
		}
		said := told[string(args(what))]
		if n > 1 || n == 0 && said != textUnknown || n == 1 && said != "marked "+what && said != textUnknown {
			h.t.Errorf("mark %s was left %d times, the model was told %q", what, n, said)
		}
	}
	var sent []string
	for _, d := range h.deliveries(mercury.AnswerDelivery) {
		if d.State == mercury.DeliverySent {
			sent = append(sent, d.Text)
		}
	}
	if len(sent) != 1 || sent[0] != "This was all." {
		h.t.Errorf("answers sent: %q", sent)
	}
	reqs := h.requests()
	text := outlineWhole(reqs[len(reqs)-1])
	if !strings.Contains(text, `"go"`) || !strings.Contains(text, `"faster"`) {
		h.t.Errorf("a person's words are missing from the last request: %s", text)
	}
	if err := llm.Validate(reqs[len(reqs)-1], llm.OpenAIWire); err != nil {
		h.t.Error(err)
	}
	h.view(func(tx store.Tx) error {
		runs, _, err := tx.Runs(store.RunFilter{ConversationID: talkID})
		for _, r := range runs {
			if r.State != mercury.RunDone {
				h.t.Errorf("run is %s: %s", r.State, r.Error)
			}
		}
		for _, id := range []string{"m1", "m2"} {
			if in, err := tx.FindInput("local", id); err != nil || in.State != mercury.InputDone {
				h.t.Errorf("input %s is %s, %v", id, in.State, err)
			}
		}
		return err
	})
}
