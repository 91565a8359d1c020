package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// summing answers requests for a summary, and everything else with "ok".
func summing(rules ...llmtest.Rule) llmtest.Script {
	return llmtest.Script{Rules: append(rules, llmtest.Rule{Match: "The talk:", Reply: "Aim: count the sheep. Done: 12 of them."})}
}

// long is a message of some thousand tokens that can be told from others.
func long(n int) string {
	return fmt.Sprintf("message %d. %s", n, strings.Repeat("lorem ipsum dolor ", 200))
}

// talks says n long messages and waits for each answer.
func (h *house) talks(n int) {
	h.t.Helper()
	for i := range n {
		if run := h.ends(h.say(long(i)).RunID); run.State != mercury.RunDone {
			h.t.Fatalf("turn %d: %s %s", i, run.State, run.Error)
		}
	}
}

// compacts asks for a compaction.
func (h *house) compacts(focus string) (run mercury.Run, err error) {
	err = h.engine.Update(context.Background(), "command", func(tx *engine.Tx) (err error) {
		run, err = RequestCompaction(tx, talkID, focus, owner)
		return err
	})
	return run, err
}

// compacted asks for a compaction and returns how it ended.
func (h *house) compacted(focus string) CompactResult {
	h.t.Helper()
	run, err := h.compacts(focus)
	if err != nil {
		h.t.Fatal(err)
	}
	run = h.ends(run.ID)
	if run.State != mercury.RunDone {
		h.t.Fatalf("%s: %s\n%s", run.State, run.Error, h.dump())
	}
	return decode[CompactResult](run.Result)
}

func (h *house) notice() string {
	ds := h.deliveries(mercury.NoticeDelivery)
	if len(ds) == 0 {
		return ""
	}
	return ds[len(ds)-1].Text
}

func TestACompactionStandsForOldTurnsAndLosesNoEntry(t *testing.T) {
	h := newHouse(t, summing())
	h.start()
	h.talks(5)
	before := h.entries()
	r := h.compacted("the sheep")
	if r.Outcome != Compacted || r.Mechanical || r.After >= r.Before/4 {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(h.notice(), "Shortened") {
		t.Errorf("its person was told %q", h.notice())
	}
	after := h.entries()
	if len(after) != len(before)+1 || after[len(before)].Kind != mercury.SummaryEntry {
		t.Errorf("%d entries became %s", len(before), h.kinds())
	}
	h.ends(h.say("and now?").RunID)
	reqs := h.requests()
	asked, last := outlineWhole(reqs[len(reqs)-2]), outlineWhole(reqs[len(reqs)-1])
	if !strings.Contains(asked, "message 0") || !strings.Contains(asked, "the sheep") {
		t.Errorf("the summary was asked for with %.400s", asked)
	}
	if strings.Contains(last, "message 0") || !strings.Contains(last, "12 of them") || !strings.Contains(last, "message 4") || !strings.Contains(last, "and now?") {
		t.Errorf("the next request is %.400s", last)
	}
	h.sound()
	h.view(func(tx store.Tx) error {
		sums, err := tx.SumUsage("purpose", mercury.Run{}.CreatedAt, mercury.Run{}.CreatedAt, nil)
		if !slices.ContainsFunc(sums, func(s store.UsageSum) bool { return s.Group == purposeCompact && s.Calls == 1 && s.Usage.Input > 0 }) {
			t.Errorf("the ledger has %+v", sums)
		}
		return err
	})
}

func TestACompactionWithNothingToDoAsksNoModel(t *testing.T) {
	h := newHouse(t, summing())
	h.start()
	h.ends(h.say("hello").RunID)
	if r := h.compacted(""); r.Outcome != NothingToDo {
		t.Errorf("%+v", r)
	}
	if n := len(h.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestACompactionGoesOnFromItsLastPieceAfterAKillAtEveryCommit(t *testing.T) {
	play := func(h *house) error {
		for i := range 6 {
			if _, err := h.post(fmt.Sprint("m", i), long(i), mercury.Steer); err != nil {
				return err
			}
			if _, err := h.await(func(tx store.Tx) bool { return inputDone(tx, fmt.Sprint("m", i)) }); err != nil {
				return err
			}
		}
		var done []mercury.Run
		if _, err := h.await(func(tx store.Tx) bool { done, _, _ = tx.Runs(store.RunFilter{Kind: CompactKind}); return true }); err != nil {
			return err
		}
		if len(done) == 0 {
			if _, err := h.compacts(""); err != nil {
				return err
			}
		}
		_, err := h.await(func(tx store.Tx) bool {
			list, _, _ := tx.Runs(store.RunFilter{Kind: CompactKind})
			return len(list) == 1 && list[0].State == mercury.RunDone
		})
		return err
	}
	whole := newHouse(t, summing())
	whole.window = 6_000
	whole.start()
	if err := play(whole); err != nil {
		t.Fatal(err)
	}
	commits := whole.store.updates()
	pieces := len(whole.requests()) - 6
	if pieces < 2 {
		t.Fatalf("the talk was summed up in %d pieces", pieces)
	}
	for at := commits - 3*pieces - 4; at <= commits; at++ {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("at %d, on disk %v", at, !before), func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, summing())
				h.window, h.dieAt, h.before = 6_000, at, before
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
				summaries, said := 0, 0
				for _, e := range h.entries() {
					switch {
					case e.Kind == mercury.SummaryEntry && e.Text != tellCut && strings.Contains(e.Text, "12 of them"):
						summaries++
					case e.Kind == mercury.UserEntry:
						said++
					}
				}
				told := 0
				for _, d := range h.deliveries(mercury.NoticeDelivery) {
					if strings.HasPrefix(d.RequestID, "compact/") {
						told++
					}
				}
				if summaries == 0 || said != 6 || told != 1 {
					t.Errorf("%d summaries, %d messages, told %d times\n%s", summaries, said, told, h.dump())
				}
				h.sound()
			})
		}
	}
}

func inputDone(tx store.Tx, id string) bool {
	in, err := tx.FindInput("local", id)
	return err == nil && in.State == mercury.InputDone
}

func TestWithoutASummaryOneAskedForIsACut(t *testing.T) {
	for name, rule := range map[string]llmtest.Rule{
		"a broken provider": {Match: "The talk:", Fault: "500"},
		"an empty answer":   {Match: "The talk:", Fault: "empty"},
		"a longer one":      {Match: "The talk:", Reply: strings.Repeat("more and more words ", 3_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{rule}})
			h.start()
			h.talks(4)
			r := h.compacted("")
			if r.Outcome != Compacted || !r.Mechanical {
				t.Fatalf("%+v", r)
			}
			h.ends(h.say("go on").RunID)
			reqs := h.requests()
			if last := outlineWhole(reqs[len(reqs)-1]); !strings.Contains(last, tellCut) || !strings.Contains(last, "message 0") || len(last) > len(long(0))*3 {
				t.Errorf("the next request is %.600s", last)
			}
		})
	}
}

func TestTheRequestForASummaryIsItselfCutIntoPieces(t *testing.T) {
	// The window that the profile believes in is far larger than the real one.
	s := summing()
	s.Window = 3_000
	h := newHouse(t, s)
	h.maxOutput = 256
	h.start()
	for i := range 6 {
		h.ends(h.say(fmt.Sprintf("message %d. %s", i, strings.Repeat("lorem ipsum ", 150))).RunID)
	}
	if r := h.compacted(""); r.Outcome != Compacted || r.Mechanical {
		t.Errorf("%+v\n%v", r, h.server.Refusals())
	}
}

func TestASummaryThatWasOvertakenIsNotPlaced(t *testing.T) {
	var h *house
	s := llmtest.Script{Rules: []llmtest.Rule{{Match: "The talk:", Do: func(int, llm.Request) llmtest.Rule {
		err := h.engine.Update(context.Background(), "command", func(tx *engine.Tx) error {
			if _, err := tx.LockConversation(talkID); err != nil {
				return err
			}
			_, err := tx.Append(talkID, mercury.Entry{Kind: mercury.ResetEntry})
			return err
		})
		if err != nil {
			h.t.Error(err)
		}
		return llmtest.Rule{Reply: "Aim: too late."}
	}}}}
	h = newHouse(t, s)
	h.start()
	h.talks(4)
	if r := h.compacted(""); r.Outcome != CompactStale {
		t.Errorf("%+v", r)
	}
	if strings.Contains(h.kinds(), "summary") || !strings.Contains(h.notice(), "begun afresh") {
		t.Errorf("%s; told %q", h.kinds(), h.notice())
	}
}

func TestTheTalkGoesOnWhileItIsShortened(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "The talk:", Do: func(int, llm.Request) llmtest.Rule {
		close(begun)
		<-answer
		return llmtest.Rule{Reply: "Aim: count the sheep."}
	}}}})
	h.start()
	h.talks(4)
	shortening, err := h.compacts("")
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if run := h.ends(h.say("meanwhile").RunID); run.State != mercury.RunDone {
		t.Errorf("the turn beside it is %s", run.State)
	}
	close(answer)
	if r := decode[CompactResult](h.ends(shortening.ID).Result); r.Outcome != Compacted {
		t.Errorf("%+v", r)
	}
	h.ends(h.say("and now?").RunID)
	reqs := h.requests()
	if last := outlineWhole(reqs[len(reqs)-1]); !strings.Contains(last, "meanwhile") || !strings.Contains(last, "sheep") {
		t.Errorf("the next request is %.400s", last)
	}
}

func TestAConversationThatHasGrownIsShortenedSixHoursLater(t *testing.T) {
	h := newHouse(t, summing())
	h.start()
	h.ends(h.say("hello").RunID)
	h.view(func(tx store.Tx) error {
		live, err := compactions(tx, talkID)
		if len(live) != 0 {
			t.Errorf("a short talk queued %+v", live)
		}
		return err
	})
	for range 2 {
		h.ends(h.say(strings.Repeat("lorem ipsum dolor ", 6_000)).RunID)
	}
	h.view(func(tx store.Tx) error {
		live, err := compactions(tx, talkID)
		if len(live) != 1 || live[0].NotBefore.Sub(live[0].CreatedAt) != quietAfter || live[0].Lane != mercury.Quiet {
			t.Errorf("queued are %+v", live)
		}
		return err
	})
}

// A talk of 200 turns with tools, thinking and two models in turn, which is
// shortened after each of them: no provider refuses a request, and nothing
// that was said is lost from the store.
func TestALongTalkIsShortenedAtEveryPosition(t *testing.T) {
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		t.Run(string(wire), func(t *testing.T) {
			t.Parallel()
			s := summing(
				llmtest.Rule{Match: "look", Reasoning: "I should look.", Tools: []llmtest.Call{callOf("look", "sheep")}},
				llmtest.Rule{Match: "cut", Reply: "This is only a", Finish: map[llm.Wire]string{llm.OpenAIWire: "length", llm.AnthropicWire: "max_tokens"}[wire], Times: 5},
				llmtest.Rule{Match: "The talk:.*message 7", Fault: "500", Times: 3},
			)
			h := newHouse(t, s)
			h.wire, h.gate = wire, allowAll{}
			h.start()
			const turns = 200
			done := map[string]int{}
			for i := range turns {
				h.models = [][]string{{"one/a"}, {"two/b"}, {"one/a", "two/b"}}[i/7%3]
				text := fmt.Sprintf("message %d: %s. %s", i, []string{"say", "look", "cut"}[i%3], strings.Repeat("dolor sit ", 200))
				if run := h.ends(h.say(text).RunID); run.State != mercury.RunDone {
					t.Fatalf("turn %d: %s %s", i, run.State, run.Error)
				}
				done[h.compacted("").Outcome]++
			}
			if done[Compacted] < turns/2 {
				t.Errorf("compactions ended %v", done)
			}
			said := 0
			for n, e := range h.entries() {
				if e.Seq != int64(n)+1 {
					t.Fatalf("entry %d has seq %d", n, e.Seq)
				}
				if e.Kind == mercury.UserEntry && strings.HasPrefix(e.Text, fmt.Sprintf("message %d:", said)) {
					said++
				}
			}
			if said != turns {
				t.Errorf("%d of %d messages are kept", said, turns)
			}
			h.sound()
		})
	}
}

func TestAWindowThatAProviderNamedIsRemembered(t *testing.T) {
	h := newHouse(t, llmtest.Script{Window: 8_192})
	h.maxOutput = 512
	h.start()
	for i := range 12 {
		h.ends(h.say(long(i)).RunID)
	}
	refused := len(h.server.Refusals())
	window := 0
	h.view(func(tx store.Tx) (err error) { window, err = learnedWindow(tx, "one/model"); return err })
	if window != 8_192 {
		t.Fatalf("the window is taken for %d", window)
	}
	h.close()
	h.start()
	for i := range 6 {
		h.ends(h.say(long(100 + i)).RunID)
	}
	if n := len(h.server.Refusals()); n != refused {
		t.Errorf("%d more requests were refused: %v", n-refused, h.server.Refusals()[refused:])
	}
}

func TestATurnSumsUpWhatNoLongerFits(t *testing.T) {
	h := newHouse(t, summing())
	h.window, h.maxOutput = 8_000, 500
	h.start()
	h.talks(12)
	h.sound()
	summed, asked := 0, 0
	for _, e := range h.entries() {
		if e.Kind == mercury.SummaryEntry && strings.Contains(e.Text, "12 of them") {
			summed++
		}
	}
	for _, r := range h.requests() {
		if strings.Contains(outlineWhole(r), "The talk:") {
			asked++
		}
	}
	reqs := h.requests()
	if last := outlineWhole(reqs[len(reqs)-1]); summed == 0 || asked < summed || !strings.Contains(last, "12 of them") {
		t.Errorf("%d summaries, asked for %d times; the last request is %.300s", summed, asked, last)
	}
}
