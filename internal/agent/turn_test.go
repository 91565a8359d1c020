package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

func TestAPlainTurnIsOneRequestOneEntryOneDelivery(t *testing.T) {
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		t.Run(string(wire), func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "hello", Reply: "Good day."}}})
			h.wire = wire
			h.start()
			run := h.ends(h.say("hello").RunID)
			if run.State != mercury.RunDone || run.Usage.Input == 0 || run.Usage.Output == 0 {
				t.Errorf("run is %s with usage %+v", run.State, run.Usage)
			}
			if got := h.kinds(); got != "user assistant" {
				t.Errorf("entries are %q", got)
			}
			ds := h.deliveries(mercury.AnswerDelivery)
			if len(ds) != 1 || ds[0].Text != "Good day." || ds[0].State != mercury.DeliverySent || ds[0].EntrySeq != 2 {
				t.Errorf("deliveries: %+v", ds)
			}
			if n := len(h.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
			h.sound()
			h.ledgerFits(run)
		})
	}
}

// ledgerFits checks that every row is settled and that their sum is the run's.
func (h *house) ledgerFits(run mercury.Run) {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		sums, err := tx.SumUsage("", time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.UTC)
		if err != nil || len(sums) != 1 {
			h.t.Errorf("ledger: %+v, %v", sums, err)
			return err
		}
		if u := sums[0].Usage; u.Input != run.Usage.Input || u.Output != run.Usage.Output {
			h.t.Errorf("ledger says %+v, the run %+v", u, run.Usage)
		}
		return nil
	})
}

func TestCallsOfOneRoundRunSideBySideAndKeepTheirOrder(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Reply: "Looking.", Tools: []llmtest.Call{callOf("meet", "a"), callOf("meet", "b"), callOf("look", "c")}, Times: 1},
	}})
	both := make(chan struct{}, 2)
	open := make(chan struct{})
	h.tools = append(h.tools, tool.New("meet", "Waits for the other.", mercury.Read,
		func(lookArgs) []mercury.Access { return nil },
		func(ctx context.Context, _ tool.Call, in lookArgs) (tool.Output, error) {
			if both <- struct{}{}; len(both) == 2 {
				close(open)
			}
			select {
			case <-open:
				return tool.Output{Text: "met " + in.Path}, nil
			case <-ctx.Done():
				return tool.Output{}, ctx.Err()
			}
		}))
	h.start()
	h.ends(h.say("go").RunID)
	reqs := h.requests()
	if len(reqs) != 2 {
		t.Fatalf("%d requests\n%s", len(reqs), h.dump())
	}
	var got []string
	for _, m := range reqs[1].Messages {
		for _, p := range m.Parts {
			if p.Kind == llm.ToolResult {
				got = append(got, p.Text)
			}
		}
	}
	if want := []string{"met a", "met b", "seen c"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	h.sound()
	h.prefixesHold()
}

// prefixesHold checks that each request repeats the one before and adds to it:
// that is what a provider's cache needs.
func (h *house) prefixesHold() {
	h.t.Helper()
	reqs := h.requests()
	for i := 1; i < len(reqs); i++ {
		a, b := reqs[i-1], reqs[i]
		if !reflect.DeepEqual(a.System, b.System) || !reflect.DeepEqual(a.Tools, b.Tools) {
			h.t.Errorf("request %d has another system or other tools", i+1)
		}
		for k := range a.Messages {
			x, _ := json.Marshal(a.Messages[k])
			y, _ := json.Marshal(b.Messages[min(k, len(b.Messages)-1)])
			// The last message may grow.
			if string(x) != string(y) && (k < len(a.Messages)-1 || !strings.HasPrefix(string(y), strings.TrimSuffix(string(x), "]}"))) {
				h.t.Errorf("request %d changes message %d:\n%s\n%s", i+1, k, x, y)
			}
		}
	}
}

func TestASteerIsTakenAfterTheToolsThatRun(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{callOf("hold", "a")}, Times: 1},
		{Match: "and hurry", Reply: "Hurrying."},
	}})
	began, release := make(chan struct{}), make(chan struct{})
	h.tools = append(h.tools, holds(began, release))
	h.start()
	first := h.say("go")
	<-began
	second := h.say("and hurry")
	if second.Outcome != engine.Steered || second.RunID != first.RunID {
		t.Errorf("the second message was %s into %s", second.Outcome, second.RunID)
	}
	close(release)
	run := h.ends(first.RunID)
	if got := h.kinds(); got != "user assistant tool_call tool_result user assistant" || run.State != mercury.RunDone {
		t.Errorf("entries %q, run %s", got, run.State)
	}
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != "Hurrying." {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
	h.prefixesHold()
}

func TestAnAnswerOvertakenByAMessageIsHeldAndReplaced(t *testing.T) {
	h := newHouse(t, llmtest.Script{})
	script := llmtest.Script{Rules: []llmtest.Rule{
		{Match: "first", Times: 1, Do: func(int, llm.Request) llmtest.Rule {
			if _, err := h.post("late", "second", mercury.Steer); err != nil {
				t.Error(err)
			}
			return llmtest.Rule{Reply: "Answer to the first."}
		}},
		{Match: "second", Reply: "Answer to both."},
	}}
	if err := h.server.Use(script); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.ends(h.say("first").RunID)
	if got := h.kinds(); got != "user assistant user assistant" {
		t.Errorf("entries are %q", got)
	}
	ds := h.deliveries(mercury.AnswerDelivery)
	if len(ds) != 2 || ds[0].State != mercury.DeliverySuperseded || ds[1].State != mercury.DeliverySent {
		t.Errorf("deliveries: %+v", ds)
	}
	last := string(h.server.Requests()[1].Body)
	if !strings.Contains(last, ds[0].ID+" held") || !strings.Contains(last, "newer_input") {
		t.Errorf("the model was not told of the held answer: %s", last)
	}
	h.sound()
}

func TestAMarkWaitsForAPersonAndRunsOnceOnTheirWord(t *testing.T) {
	for _, answer := range []string{mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerNo} {
		t.Run(answer, func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				{Match: "go", Tools: []llmtest.Call{callOf("mark", "x"), callOf("look", "y"), callOf("mark", "z")}, Times: 1},
			}, AfterDefault: "{{tool}}"})
			h.start()
			id := h.say("go").RunID
			open := h.asks(2)
			if got := h.kinds(); got != "user assistant tool_call tool_call tool_call tool_result" {
				t.Errorf("before the answer the entries are %q", got)
			}
			if ds := h.deliveries(mercury.QuestionDelivery); len(ds) != 2 || !strings.Contains(ds[0].Text, "mark") {
				t.Errorf("questions sent: %+v", ds)
			}
			h.answer(open[0], answer)
			h.answer(open[1], answer)
			run := h.ends(id)
			marks := 2
			if answer == mercury.AnswerNo {
				marks = 0
			}
			if got := h.marks(); len(got) != marks || run.State != mercury.RunDone {
				t.Errorf("marks %q, run %s\n%s", got, run.State, h.dump())
			}
			last := string(h.server.Requests()[1].Body)
			if said := strings.Contains(last, "The owner said no"); said != (answer == mercury.AnswerNo) {
				t.Errorf("told of a no: %v", said)
			}
			h.sound()
		})
	}
}

func TestAnUnansweredQuestionCountsAsNo(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("mark", "x")}, Times: 1}}})
	h.start()
	id := h.say("go").RunID
	q := h.asks(1)[0]
	h.close()
	h.rewrite(func(tx store.Tx) error {
		q.ExpiresAt = tx.Now().Add(-time.Second)
		return tx.SaveQuestion(q)
	})
	h.start()
	if run := h.ends(id); run.State != mercury.RunDone || len(h.marks()) != 0 {
		t.Errorf("run %s, marks %q", run.State, h.marks())
	}
	if last := string(h.server.Requests()[1].Body); !strings.Contains(last, "Nobody answered in time") {
		t.Errorf("the model was not told: %s", last)
	}
}

// rewrite changes the store while no engine runs.
func (h *house) rewrite(fn func(store.Tx) error) {
	h.t.Helper()
	h.reopen(func(s store.Store) error { return s.Update(context.Background(), fn) })
}

func TestNobodyToAskMeansDenied(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("mark", "x")}, Times: 1}}})
	h.mandate.Interactive = false
	h.start()
	h.ends(h.say("go").RunID)
	if last := string(h.server.Requests()[1].Body); !strings.Contains(last, "nobody can be asked") || len(h.marks()) != 0 {
		t.Errorf("marks %q, told %s", h.marks(), last)
	}
	h.sound()
}

func TestWhatAPersonAnswersToAToolIsItsResult(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{callOf("ask_user", "Which colour?")}, Times: 1},
	}, AfterDefault: "You chose {{tool}}."})
	h.start()
	id := h.say("go").RunID
	q := h.asks(1)[0]
	if q.Title != "Which colour?" || q.Kind != "text" {
		t.Errorf("asked %+v", q)
	}
	// A restart in between changes nothing.
	h.close()
	h.start()
	h.answer(q, "blue")
	h.ends(id)
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != "You chose blue." {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
}

// never makes a model that calls look with another path each time.
func never() llmtest.Script {
	return llmtest.Script{Rules: []llmtest.Rule{{Any: true, After: ".", Do: func(n int, _ llm.Request) llmtest.Rule {
		return llmtest.Rule{Tools: []llmtest.Call{callOf("look", fmt.Sprint("p", n))}}
	}}, {Match: "go", Tools: []llmtest.Call{callOf("look", "p")}}}}
}

func TestAModelThatNeverStopsIsAskedAbout(t *testing.T) {
	h := newHouse(t, never())
	h.limits = Limits{Steps: 3}
	h.start()
	id := h.say("go").RunID
	q := h.asks(1)[0]
	if q.Kind != "limit" || !strings.Contains(q.Title, "3 steps") || !strings.Contains(q.Body, "look 3×") {
		t.Errorf("asked %+v", q)
	}
	h.answer(q, answerGoOn)
	var second mercury.Question
	h.until("the second question", func(tx store.Tx) bool {
		open, _ := tx.OpenQuestions(talkID)
		if len(open) == 1 {
			second = open[0]
		}
		return second.ID != "" && second.ID != q.ID
	})
	if n := len(h.requests()); n != 6 {
		t.Errorf("%d requests after going on once, want 6", n)
	}
	h.answer(second, answerStop)
	run := h.ends(id)
	if run.State != mercury.RunStopped || run.ErrorCode != codeSteps {
		t.Errorf("run is %s (%s)", run.State, run.ErrorCode)
	}
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || !strings.Contains(ds[0].Text, "look 6×") {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
}

func TestTheRestOfTodayLiftsALimit(t *testing.T) {
	script := never()
	script.Rules = append([]llmtest.Rule{{Call: 9, Any: true, After: ".", Reply: "At last."}}, script.Rules...)
	h := newHouse(t, script)
	h.limits = Limits{Steps: 2}
	h.start()
	id := h.say("go").RunID
	h.answer(h.asks(1)[0], answerToday)
	if run := h.ends(id); run.State != mercury.RunDone || len(h.requests()) != 9 {
		t.Errorf("run %s after %d requests", run.State, len(h.requests()))
	}
}

func TestALimitWithNobodyToAskEndsHonestly(t *testing.T) {
	h := newHouse(t, never())
	h.limits, h.mandate.Interactive = Limits{Steps: 3}, false
	h.start()
	run := h.ends(h.say("go").RunID)
	if run.State != mercury.RunFailed || run.ErrorCode != codeSteps || !strings.Contains(run.Error, "3 steps") || !strings.Contains(run.Error, "look 3×") {
		t.Errorf("run is %s (%s): %s", run.State, run.ErrorCode, run.Error)
	}
	if ds := h.deliveries(mercury.NoticeDelivery); len(ds) != 1 || ds[0].Text != run.Error {
		t.Errorf("notices: %+v", ds)
	}
}

func TestTheSameCallThreeTimesStopsTheTurn(t *testing.T) {
	for _, name := range []string{"look", "fail"} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				{Any: true, After: ".", Tools: []llmtest.Call{callOf(name, "same")}},
				{Match: "go", Tools: []llmtest.Call{callOf(name, "same")}},
			}})
			h.start()
			run := h.ends(h.say("go").RunID)
			if run.State != mercury.RunFailed || run.ErrorCode != codeRepeated || !strings.Contains(run.Error, name) {
				t.Errorf("run is %s (%s): %s", run.State, run.ErrorCode, run.Error)
			}
			if n := len(h.requests()); n != 3 {
				t.Errorf("%d requests, want 3", n)
			}
		})
	}
}

func TestArgumentsThatAreNoJSONGoBackToTheModel(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{{Name: "look", Raw: `{"path": "unfin`}}, Finish: "tool_calls", Times: 1},
	}})
	h.models = []string{"one/model", "two/other"}
	h.start()
	run := h.ends(h.say("go").RunID)
	reqs := h.requests()
	if run.State != mercury.RunDone || len(reqs) != 2 || reqs[1].Model != "model" {
		t.Fatalf("run %s after %d requests", run.State, len(reqs))
	}
	if body := string(h.server.Requests()[1].Body); !strings.Contains(body, "not a JSON object") {
		t.Errorf("the model was not told: %s", body)
	}
	h.sound()
}

func TestAnAnswerCutByItsLimitIsContinuedOnce(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "story", Reply: "Once upon a ", Finish: "length", Times: 1},
		{Match: "cut off", Reply: "time.", Finish: "length"},
	}})
	h.start()
	h.ends(h.say("story").RunID)
	ds := h.deliveries(mercury.AnswerDelivery)
	if len(ds) != 1 || ds[0].Text != "Once upon a time."+sayCut {
		t.Errorf("deliveries: %+v", ds)
	}
	if n := len(h.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
	h.sound()
}

func TestTextThatLooksLikeACallIsText(t *testing.T) {
	const text = `{"name": "mark", "arguments": {"path": "x"}}`
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Reply: text}}})
	h.gate = allowAll{}
	h.start()
	h.ends(h.say("go").RunID)
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != text || len(h.marks()) != 0 {
		t.Errorf("deliveries %+v, marks %q", ds, h.marks())
	}
}

// holds is a tool that runs from began to release.
func holds(began, release chan struct{}) tool.Tool {
	return tool.New("hold", "Holds.", mercury.Read, func(lookArgs) []mercury.Access { return nil },
		func(context.Context, tool.Call, lookArgs) (tool.Output, error) {
			close(began)
			<-release
			return tool.Output{Text: "held"}, nil
		})
}

func TestAConversationBegunAnewEndsTheTurnUnderWay(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "go", Tools: []llmtest.Call{callOf("hold", "a")}, Times: 1}}})
	began, release := make(chan struct{}), make(chan struct{})
	h.tools = append(h.tools, holds(began, release))
	h.start()
	id := h.say("go").RunID
	<-began
	err := h.engine.Update(t.Context(), "reset", func(tx *engine.Tx) error {
		_, err := tx.Append(talkID, mercury.Entry{Kind: mercury.ResetEntry, Actor: owner})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	if run := h.ends(id); run.State != mercury.RunStopped || run.ErrorCode != "reset" || len(h.requests()) != 1 {
		t.Errorf("run %s (%s) after %d requests", run.State, run.ErrorCode, len(h.requests()))
	}
	// The next message starts clean.
	h.ends(h.say("afresh").RunID)
	if reqs := h.requests(); len(reqs[1].Messages) != 1 {
		t.Errorf("the model sees %s", outline(reqs[1]))
	}
	h.sound()
}

func TestAnInterruptedRunsCallsAreToldToTheNextOne(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{callOf("hold", "a"), callOf("mark", "b")}, Times: 1},
	}})
	began := make(chan struct{})
	h.tools = append(h.tools, tool.New("hold", "Holds.", mercury.Once, func(lookArgs) []mercury.Access { return nil },
		func(ctx context.Context, _ tool.Call, _ lookArgs) (tool.Output, error) {
			close(began)
			<-ctx.Done()
			return tool.Output{}, ctx.Err()
		}))
	h.gate = holdAllowed{}
	h.start()
	id := h.say("go").RunID
	<-began
	if err := h.engine.Update(t.Context(), "cancel", func(tx *engine.Tx) error { return tx.Cancel(id, "stopped", owner) }); err != nil {
		t.Fatal(err)
	}
	h.ends(id)
	h.ends(h.say("what happened?").RunID)
	var got []string
	for _, m := range h.requests()[1].Messages {
		for _, p := range m.Parts {
			if p.Kind == llm.ToolResult {
				got = append(got, p.Text)
			}
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], textUnknown) || !strings.Contains(got[1], textNotRun) {
		t.Errorf("results %q\n%s", got, h.dump())
	}
	h.sound()
}

// holdAllowed allows hold and asks before everything else that leaves a mark.
type holdAllowed struct{ askOnce }

func (g holdAllowed) Judge(ctx context.Context, r tool.Request) mercury.Judgement {
	if r.Tool == "hold" {
		return mercury.Judgement{Verdict: mercury.Allow, Rule: "holds"}
	}
	return g.askOnce.Judge(ctx, r)
}
