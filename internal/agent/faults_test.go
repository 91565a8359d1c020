package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Faults that pass: the turn answers all the same, after a tool has run.
func TestPassingFaultsOfAProviderCostNothingButTime(t *testing.T) {
	faults := []string{"429", "500", "502", "503", "529", llmtest.Reset, llmtest.ResetMid, llmtest.CutText, llmtest.CutArgs,
		llmtest.NoFinish, llmtest.Empty, llmtest.ReasoningOnly, llmtest.ErrorEvent, llmtest.BadJSON, llmtest.Page}
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%s on the %s wire", fault, wire), func(t *testing.T) {
				t.Parallel()
				call := llmtest.Rule{Match: "go", Reply: "Let me see.", Tools: []llmtest.Call{callOf("mark", "x")}, Times: 1}
				h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
					{Match: "go", Fault: fault, Reply: "half a text", Tools: []llmtest.Call{callOf("mark", "never")}, Times: 1},
					call,
					{After: "marked", Fault: fault, Reply: "half a text", Times: 1},
					{After: "marked", Reply: "Done."},
				}})
				h.wire, h.gate = wire, allowAll{}
				h.start()
				run := h.ends(h.say("go").RunID)
				ds := h.deliveries(mercury.AnswerDelivery)
				if run.State != mercury.RunDone || len(ds) != 1 || ds[0].Text != "Done." {
					t.Errorf("run %s (%s), deliveries %+v\n%s", run.State, run.Error, ds, h.dump())
				}
				if got := h.marks(); len(got) != 1 || got[0] != "x" {
					t.Errorf("marks %q, want one x", got)
				}
				h.sound()
			})
		}
	}
}

// Faults that do not pass end the run in the provider's words.
func TestFaultsThatDoNotPassAreTold(t *testing.T) {
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		for _, tt := range []struct {
			rule  llmtest.Rule
			state mercury.RunState
			code  string
			says  string
			asks  int // most requests
		}{
			{llmtest.Rule{Fault: "401", Message: "invalid x-api-key"}, mercury.RunDead, "provider_auth", "invalid x-api-key", 1},
			{llmtest.Rule{Fault: "403", Message: "not for you"}, mercury.RunDead, "provider_auth", "not for you", 1},
			{llmtest.Rule{Fault: llmtest.QuotaUsed}, mercury.RunDead, "provider_quota", "top it up", 1},
			{llmtest.Rule{Fault: "400", Message: "no such parameter"}, mercury.RunDead, "provider_bad_request", "no such parameter", 1},
			{llmtest.Rule{Fault: llmtest.Context}, mercury.RunDead, "provider_context_length", "window", 1},
			{llmtest.Rule{Fault: llmtest.ContentFilter}, mercury.RunFailed, "content_filter", "declined", 1},
			{llmtest.Rule{Fault: llmtest.Empty}, mercury.RunFailed, "empty_answer", "empty answer", 4},
			{llmtest.Rule{Fault: llmtest.ReasoningOnly, Reasoning: "hm"}, mercury.RunFailed, "empty_answer", "empty answer", 4},
		} {
			t.Run(fmt.Sprintf("%s on the %s wire", tt.rule.Fault, wire), func(t *testing.T) {
				t.Parallel()
				tt.rule.Any = true
				h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{tt.rule}})
				h.wire = wire
				h.start()
				run := h.ends(h.say("go").RunID)
				if run.State != tt.state || run.ErrorCode != tt.code || !strings.Contains(run.Error, tt.says) {
					t.Errorf("run is %s (%s): %q", run.State, run.ErrorCode, run.Error)
				}
				notices := h.deliveries(mercury.NoticeDelivery)
				if len(notices) != 1 || notices[0].Text != run.Error {
					t.Errorf("notices: %+v", notices)
				}
				if n := len(h.requests()); n > tt.asks {
					t.Errorf("%d requests, at most %d expected", n, tt.asks)
				}
				h.sound()
				h.noReservations()
			})
		}
	}
}

// noReservations checks that no call is left reserved.
func (h *house) noReservations() {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		sums, err := tx.SumUsage("", time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.UTC)
		for _, s := range sums {
			if s.Usage.Output > 4_000 {
				h.t.Errorf("a reservation is left in the ledger: %+v", s)
			}
		}
		return err
	})
}

func TestARefusedRunCanBeReplayedOnceMended(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "401", Times: 1}, {Match: "go", Reply: "Here."}}})
	h.start()
	run := h.ends(h.say("go").RunID)
	if run.State != mercury.RunDead {
		t.Fatalf("run is %s", run.State)
	}
	again, err := h.engine.Replay(t.Context(), run.ID, owner)
	if err != nil {
		t.Fatal(err)
	}
	if again = h.ends(again.ID); again.State != mercury.RunDone {
		t.Errorf("replay is %s: %s", again.State, again.Error)
	}
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != "Here." {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
}

func TestAnUnreachableModelIsToldOnceAndTriedAgain(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "503", Times: 6}, {Match: "go", Reply: "Back."}}})
	h.start()
	id := h.say("go").RunID
	waiting := func() mercury.Run {
		var run mercury.Run
		h.until("the run to wait for its next try", func(tx store.Tx) bool {
			run, _ = tx.Run(id)
			return run.State == mercury.RunQueued && !run.NotBefore.IsZero()
		})
		return run
	}
	for range 2 {
		run := waiting()
		if wait := time.Until(run.NotBefore); wait > firstWait || run.Attempts != 0 {
			t.Errorf("waits %v with %d attempts", wait, run.Attempts)
		}
		// What would take a quarter of a minute happens at the next start.
		h.close()
		h.rewrite(func(tx store.Tx) error {
			r, err := tx.LockRun(id)
			r.NotBefore = time.Time{}
			if err == nil {
				err = tx.SaveRun(r)
			}
			return err
		})
		h.start()
	}
	if run := h.ends(id); run.State != mercury.RunDone {
		t.Errorf("run is %s: %s", run.State, run.Error)
	}
	notices := h.deliveries(mercury.NoticeDelivery)
	if len(notices) != 1 || !strings.Contains(notices[0].Text, "Your message is kept") {
		t.Errorf("notices: %+v", notices)
	}
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != "Back." {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
	h.noReservations()
}

func TestAfterSixHoursAPersonIsAskedWhetherTheAnswerIsStillWanted(t *testing.T) {
	for _, tt := range []struct {
		answer string
		state  mercury.RunState
		text   string
	}{{answerWanted, mercury.RunDone, "Back."}, {answerDropped, mercury.RunStopped, sayDropped}} {
		t.Run(tt.answer, func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "503", Times: 6}, {Match: "go", Reply: "Back."}}})
			h.start()
			id := h.say("go").RunID
			h.until("the run to wait", func(tx store.Tx) bool {
				run, _ := tx.Run(id)
				return run.State == mercury.RunQueued && !run.NotBefore.IsZero()
			})
			h.close()
			h.rewrite(func(tx store.Tx) error {
				r, err := tx.LockRun(id)
				r.NotBefore = time.Time{}
				if err == nil {
					err = tx.SaveRun(r)
				}
				return err
			})
			h.now = func() time.Time { return time.Now().Add(6*time.Hour + time.Minute) }
			h.start()
			q := h.asks(1)[0]
			if !strings.Contains(q.Title, "still wanted") {
				t.Errorf("asked %+v", q)
			}
			if ds := h.deliveries(mercury.QuestionDelivery); len(ds) != 1 {
				t.Errorf("questions sent: %+v", ds)
			}
			h.close()
			h.now = nil
			h.start()
			h.answer(q, tt.answer)
			run := h.ends(id)
			if run.State != tt.state {
				t.Errorf("run is %s: %s\n%s", run.State, run.Error, h.dump())
			}
			if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != tt.text {
				t.Errorf("deliveries: %+v", ds)
			}
		})
	}
}

func TestOtherLanesTryThreeTimes(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "503"}}})
	h.lane = mercury.Bot
	h.start()
	id := h.say("go").RunID
	for want := 1; want <= 2; want++ {
		h.until("a failed attempt", func(tx store.Tx) bool {
			run, _ := tx.Run(id)
			return run.Attempts == want && run.State == mercury.RunQueued
		})
		h.close()
		h.rewrite(func(tx store.Tx) error {
			r, err := tx.LockRun(id)
			r.NotBefore = time.Time{}
			if err == nil {
				err = tx.SaveRun(r)
			}
			return err
		})
		h.start()
	}
	if run := h.ends(id); run.State != mercury.RunDead || run.ErrorCode != "provider_unavailable" {
		t.Errorf("run is %s (%s)", run.State, run.ErrorCode)
	}
}

func TestAFallbackThatAnsweredIsSaidOncePerRun(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Model: "^big$", Any: true, Fault: "401", Message: "bad key"},
		{Match: "go", Tools: []llmtest.Call{callOf("look", "a")}, Times: 1},
		{Match: "again", Tools: []llmtest.Call{callOf("look", "b")}, Times: 1},
	}})
	h.models = []string{"one/big", "two/small"}
	h.start()
	for _, text := range []string{"go", "again"} {
		if run := h.ends(h.say(text).RunID); run.State != mercury.RunDone {
			t.Errorf("run is %s", run.State)
		}
	}
	var notes []string
	for _, e := range h.entries() {
		if e.Kind == mercury.NoteEntry {
			notes = append(notes, e.Text)
		}
	}
	if len(notes) != 2 || !strings.Contains(notes[0], "one/big did not answer (bad key)") || !strings.Contains(notes[0], "two/small answered instead") {
		t.Errorf("notes: %q", notes)
	}
	if ds := h.deliveries(mercury.NoticeDelivery); len(ds) != 1 || ds[0].Text != notes[0] {
		t.Errorf("the person was told %d times: %+v", len(ds), ds)
	}
	h.sound()
}

func TestAnOverflowIsCuredAndSaid(t *testing.T) {
	for _, vendor := range llmtest.Vendors() {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Default: strings.Repeat("a long answer ", 300), Window: 6_000, Vendor: vendor})
			if vendor == "anthropic" {
				h.wire = llm.AnthropicWire
			}
			h.maxOutput = 500
			h.start()
			for i := range 7 {
				run := h.ends(h.say(fmt.Sprintf("question %d", i)).RunID)
				if run.State != mercury.RunDone {
					t.Fatalf("turn %d is %s (%s): %s", i, run.State, run.ErrorCode, run.Error)
				}
			}
			said := 0
			for _, e := range h.entries() {
				if e.Text == tellCut {
					said++
				}
			}
			if said == 0 {
				t.Error("nothing says that messages were left out")
			}
			h.view(func(tx store.Tx) error {
				c, err := tx.Conversation(talkID)
				if c.Head < 2 {
					t.Errorf("the head is still at %d", c.Head)
				}
				return err
			})
			// The transcript is whole: a cut hides, it does not delete.
			if first := h.entries()[0]; first.Text != "question 0" {
				t.Errorf("the first entry is %q", first.Text)
			}
			h.soundButForLength()
		})
	}
}

// soundButForLength is sound, except that a request may have been too long.
func (h *house) soundButForLength() {
	h.t.Helper()
	for _, r := range h.server.Requests() {
		if r.Refused != "" && !strings.Contains(r.Refused, "tokens") && !strings.Contains(r.Refused, "window") {
			h.t.Errorf("the server refused request %d: %s", r.N, r.Refused)
		}
	}
}

func TestModelsAreSwitchedWithSignedThinking(t *testing.T) {
	think := func(match, path string, redacted bool) llmtest.Rule {
		return llmtest.Rule{Match: match, Reasoning: "I think about " + match, Redacted: redacted, Reply: "Looking.",
			Tools: []llmtest.Call{callOf("look", path)}, Times: 1}
	}
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		t.Run(string(wire), func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				think("first", "a", false), think("second", "b", wire == llm.AnthropicWire), think("third", "c", false), think("fourth", "d", false),
				{After: ".", Reasoning: "it is seen", Reply: "Seen: {{tool}}"},
			}})
			h.wire = wire
			h.start()
			for i, text := range []string{"first", "second", "third", "fourth"} {
				h.close()
				h.models = []string{[]string{"one/a", "two/b"}[i%2]}
				h.start()
				if run := h.ends(h.say(text).RunID); run.State != mercury.RunDone {
					t.Fatalf("%s: run is %s: %s", text, run.State, run.Error)
				}
			}
			h.sound()
			// Within a turn the model gets its own thinking back.
			body := string(h.server.Requests()[1].Body)
			if wire == llm.AnthropicWire && !strings.Contains(body, "I think about first") {
				t.Error("the model's own thinking is missing from the request behind its call")
			}
		})
	}
}

// firstDelta gives the run of the first text that is streamed from now on.
func (h *house) firstDelta() <-chan string {
	ready, seen := make(chan struct{}), make(chan string, 1)
	go func() {
		var once sync.Once
		for ev := range h.engine.Bus().Subscribe(h.t.Context(), "") {
			once.Do(func() { close(ready) })
			if d, ok := ev.Data.(Delta); ok && d.Text != "" {
				seen <- ev.RunID
				return
			}
		}
	}()
	// Whoever subscribes sees what comes after; so knock until it answers.
	for {
		h.engine.Bus().Publish(engine.Event{Type: "status"})
		select {
		case <-ready:
			return seen
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestThePartOfAnAnswerThatWasStreamedIsKeptWhenStopped(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Reply: "one two three four five six seven eight nine ten", TokenMS: 100, Times: 1},
		{Match: "next", Reply: "Next."},
	}})
	h.start()
	seen := h.firstDelta()
	h.say("go")
	id := <-seen
	if err := h.engine.Update(t.Context(), "cancel", func(tx *engine.Tx) error { return tx.Cancel(id, "stopped", owner) }); err != nil {
		t.Fatal(err)
	}
	if run := h.ends(id); run.State != mercury.RunStopped {
		t.Errorf("run is %s", run.State)
	}
	es := h.entries()
	last := es[len(es)-1]
	if !last.Hidden || !data[assistantData](last).Aborted || !strings.HasPrefix(last.Text, "one") {
		t.Errorf("the last entry is %+v", last)
	}
	run := h.ends(h.say("next").RunID)
	if ds := h.deliveries(mercury.AnswerDelivery); run.State != mercury.RunDone || len(ds) != 1 || ds[0].Text != "Next." {
		t.Errorf("run %s, deliveries %+v", run.State, ds)
	}
	if body := string(h.server.Requests()[1].Body); strings.Contains(body, "one two") {
		t.Errorf("the model sees what was broken off: %s", body)
	}
	h.sound()
}

func TestThePartOfAnAnswerThatWasStreamedIsKeptOverARestart(t *testing.T) {
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Reply: "one two three four five six seven eight nine ten", TokenMS: 100, Times: 1},
		{Match: "go", Reply: "Whole."},
	}})
	h.start()
	seen := h.firstDelta()
	h.say("go")
	id := <-seen
	h.close()
	h.start()
	if run := h.ends(id); run.State != mercury.RunDone {
		t.Errorf("run is %s", run.State)
	}
	if got := h.kinds(); got != "user assistant(hidden) assistant" {
		t.Errorf("entries are %q", got)
	}
	if ds := h.deliveries(mercury.AnswerDelivery); len(ds) != 1 || ds[0].Text != "Whole." {
		t.Errorf("deliveries: %+v", ds)
	}
	h.sound()
}
