package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// spends is a script whose every answer costs 1,000 tokens.
func spends(rules ...llmtest.Rule) llmtest.Script {
	for i := range rules {
		rules[i].Usage = &llmtest.Usage{Input: 900, Output: 100}
	}
	return llmtest.Script{Rules: append(rules, llmtest.Rule{Any: true, Reply: "ok", Usage: &llmtest.Usage{Input: 900, Output: 100}})}
}

func budgeted(t *testing.T, tokens int64, s llmtest.Script) *house {
	h := newHouse(t, s)
	h.budget = &budget.Book{Caps: budget.Caps{DailyTokens: tokens}}
	return h
}

func TestATurnBeyondTheBudgetAsksAndGoesOnFromItsJournal(t *testing.T) {
	h := budgeted(t, 2_500, spends(
		llmtest.Rule{Match: "go", Tools: []llmtest.Call{callOf("look", "x")}},
		llmtest.Rule{After: "seen x", Tools: []llmtest.Call{callOf("look", "y")}},
		llmtest.Rule{After: "seen y", Tools: []llmtest.Call{callOf("look", "z")}},
	))
	h.gate = allowAll{}
	h.start()
	run := h.say("go").RunID
	q := h.asks(1)[0]
	if q.Kind != "limit" || !strings.Contains(q.Title, "3,000 of 2,500 tokens today") || !strings.Contains(q.Body, "look 3×") {
		t.Errorf("asked %q, %q", q.Title, q.Body)
	}
	asked := len(h.requests())
	h.close()
	h.start() // the question outlives a restart
	h.answer(h.asks(1)[0], answerGoOn)
	if r := h.ends(run); r.State != mercury.RunDone {
		t.Fatalf("%s %s", r.State, r.Error)
	}
	if n := len(h.requests()); asked != 3 || n != 4 {
		t.Errorf("%d requests, then %d", asked, n)
	}
	// One more was for that run alone.
	next := h.say("again").RunID
	h.answer(h.asks(1)[0], answerStop)
	if r := h.ends(next); r.State != mercury.RunStopped || r.ErrorCode != codeDaily {
		t.Errorf("%s %s", r.State, r.ErrorCode)
	}
	third := h.say("and again").RunID
	h.answer(h.asks(1)[0], answerToday)
	if r := h.ends(third); r.State != mercury.RunDone {
		t.Errorf("%s %s", r.State, r.Error)
	}
	if r := h.ends(h.say("free").RunID); r.State != mercury.RunDone {
		t.Errorf("the rest of the day: %s %s", r.State, r.Error)
	}
}

func TestTheBudgetIsToldOfOnceAtEachThresholdAndAnswersGetBrief(t *testing.T) {
	h := budgeted(t, 5_000, spends())
	h.start()
	for range 5 {
		h.ends(h.say("hello").RunID)
	}
	var told []string
	for _, d := range h.deliveries(mercury.NoticeDelivery) {
		told = append(told, d.Text)
	}
	if len(told) != 2 || !strings.Contains(told[0], "80%") || !strings.Contains(told[1], "used up") {
		t.Errorf("told %q", told)
	}
	reqs := h.server.Requests()
	if strings.Contains(string(reqs[3].Body), tellConcise) || !strings.Contains(string(reqs[4].Body), tellConcise) {
		t.Errorf("after 60%%: %s\nafter 80%%: %s", reqs[3].Body, reqs[4].Body)
	}
}

func TestWorkNobodyWaitsForStopsAtFourFifths(t *testing.T) {
	h := budgeted(t, 1_250, spends())
	h.start()
	h.ends(h.say("hello").RunID)
	h.close()
	h.lane = mercury.Cron
	h.start()
	r := h.ends(h.say("morning").RunID)
	if r.State != mercury.RunFailed || r.ErrorCode != codeDaily || !strings.Contains(r.Error, "1,000 of 1,250 tokens today") || !strings.Contains(r.Error, "/budget") {
		t.Errorf("%s %s %q", r.State, r.ErrorCode, r.Error)
	}
	if n := len(h.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Whatever becomes of the calls, the ledger holds to the token what the
// provider has reported.
func TestTheLedgerIsWhatProvidersReported(t *testing.T) {
	s := spends(
		llmtest.Rule{Match: "The talk:", Reply: "Aim: none."},
		llmtest.Rule{Match: "go", Tools: []llmtest.Call{callOf("look", "x")}},
	)
	s.Rules = append([]llmtest.Rule{{Match: "twice", Fault: "503", Times: 1}, {Match: "empty", Fault: "empty", Times: 1, Usage: &llmtest.Usage{Input: 900, Output: 100}}}, s.Rules...)
	h := newHouse(t, s)
	h.gate = allowAll{}
	h.start()
	for _, text := range []string{"hello", "go", "twice", "empty", long(1), long(2)} {
		h.ends(h.say(text).RunID)
	}
	if r := h.compacted(""); r.Outcome != Compacted {
		t.Fatalf("%+v", r)
	}
	answered := int64(0)
	for _, r := range h.server.Requests() {
		if r.Refused == "" && (r.Fault == "" || r.Fault == "empty") {
			answered++
		}
	}
	h.view(func(tx store.Tx) error {
		sums, err := tx.SumUsage("", time.Time{}, time.Time{}, nil)
		if len(sums) != 1 || sums[0].Usage.Input != answered*900 || sums[0].Usage.Output != answered*100 || sums[0].Usage.Estimated {
			t.Errorf("%d calls were answered; the ledger has %+v", answered, sums)
		}
		return err
	})
}
