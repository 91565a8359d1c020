//go:build unix

package field

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestF1_AMessageIsStoredBeforeThePlatformIsToldSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "one", Fault: llmtest.Hang, Times: 1}, say("one", "First.")}})
	// The poll that carries the cursor is the bridge's word that it was taken:
	// the process dies right then.
	dead := make(chan struct{})
	h.door.on(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/updates" && r.URL.Query().Get("after") != "" {
			h.life.kill()
			h.door.on(nil)
			close(dead)
		}
		return false
	})
	h.life = h.spawn("serve")
	h.bridge.Push("room", "one")
	<-dead
	h.live()
	h.showed("room", 1)
	h.quiet("relay/room", 1)
	if got := h.shown("room"); len(got) != 1 || got[0] != "First." {
		t.Errorf("shown: %q", got)
	}
	h.sound()
}

func TestF2_AnAnswerThatAKillCutOffIsShownOnceAndRepeatedOnlyByHand(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "The answer."})
	dead := make(chan struct{})
	h.door.on(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/messages" {
			return false
		}
		h.bridge.ServeHTTP(w, r) // it is shown, and nobody hears the receipt
		h.door.on(nil)
		h.life.kill()
		close(dead)
		return true
	})
	h.live()
	h.bridge.Push("room", "hello")
	<-dead
	h.live()
	h.until("the delivery to be unknown", func() bool { return len(h.deliveries("relay/room", "unknown")) == 1 })
	h.bridge.Push("room", "and?")
	h.showed("room", 2) // what comes later is not held up
	if n := len(h.model.Requests()); n != 2 {
		t.Errorf("%d requests, want 2: an answer is not asked for again", n)
	}
	d := h.deliveries("relay/room", "unknown")
	if len(d) != 1 {
		t.Fatalf("deliveries: %+v", h.deliveries("relay/room"))
	}
	if _, err := h.client.Resend(t.Context(), d[0].ID); err != nil {
		t.Fatal(err)
	}
	h.showed("room", 3)
	h.until("the receipt", func() bool { return h.sent("relay/room") })
	if e := refusalOf(h.client.Resend(t.Context(), d[0].ID)); e == nil || e.Status != 409 {
		t.Errorf("a second click sends again: %v", e)
	}
}

func TestF4_ARunThatItsProcessLeftBehindDoesNotBlockWhatComesLater(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "u1", Fault: llmtest.Hang, Times: 1}}, Default: "So: {{user}}"})
	h.live()
	h.say("talk", "u1", "follow-up")
	h.asked(1)
	h.life.kill()
	h.live()
	for _, text := range []string{"u2", "u3", "u4"} {
		h.say("talk", text, "follow-up")
	}
	h.until("four messages to be answered", func() bool {
		users := h.texts("local/talk", mercury.UserEntry)
		runs := h.runs("local/talk")
		return len(users) == 4 && !slices.ContainsFunc(runs, func(r runOf) bool { return r.State != "done" })
	})
	if got := h.texts("local/talk", mercury.UserEntry); !slices.Equal(got, []string{"u1", "u2", "u3", "u4"}) {
		t.Errorf("in the conversation: %q", got)
	}
	if got := h.texts("local/talk", mercury.AssistantEntry); got[0] != "So: u1" || !strings.HasPrefix(got[len(got)-1], "So: u") {
		t.Errorf("answers: %q", got)
	}
	h.sound()
}

func TestF5_AStreamThatNeverEndsIsBrokenOffAndWhatWasSaidMeanwhileIsAnswered(t *testing.T) {
	t.Parallel()
	t.Run("by the watch on silence", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "one", Fault: llmtest.Silent, Times: 1}}, Default: "All of it."})
		h.silence = "3s"
		h.wire("openai").start()
		h.bridge.Push("room", "one")
		h.asked(1)
		h.bridge.Push("room", "two")
		h.taken(h.bridge.Push("room", "three"))
		h.quiet("relay/room", 1)
		if got := h.texts("relay/room", mercury.UserEntry); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("in the conversation: %q", got)
		}
		if got := h.shown("room"); len(got) != 1 || got[0] != "All of it." {
			t.Errorf("shown: %q", got)
		}
		h.sound()
	})
	t.Run("by a person", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "one", Reply: strings.Repeat("word ", 1000), TokenMS: 100, Times: 1}}, Default: "Both."}).start()
		h.bridge.Push("room", "one")
		h.asked(1)
		h.bridge.Push("room", "two")
		h.bridge.Push("room", "three")
		h.bridge.Push("room", "/stop")
		runs := h.quiet("relay/room", 2)
		if runs[0].State != "stopped" || runs[1].State != "done" {
			t.Errorf("runs: %+v", runs)
		}
		if got := h.texts("relay/room", mercury.UserEntry); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("in the conversation: %q", got)
		}
		if got := h.shown("room"); len(got) != 2 || !strings.HasPrefix(got[0], "Stopped.") || got[1] != "Both." {
			t.Errorf("shown: %q", got)
		}
		h.sound()
	})
}

func TestF8_AMessageSentWhileMercuryStartsIsAnsweredAndThePlaceIsKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	h.bridge.Push("room", "before the start")
	polled := make(chan struct{})
	first := true
	h.door.on(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/updates" && first {
			first = false
			h.bridge.Push("hall", "between the connection and its first answer")
			close(polled)
		}
		return false
	})
	h.start()
	<-polled
	h.door.on(nil)
	h.showed("room", 1)
	h.showed("hall", 1)
	h.stop()
	h.start()
	h.bridge.Push("room", "after a restart")
	h.showed("room", 2)
	if got := h.shown("room"); !slices.Equal(got, []string{"So: before the start", "So: after a restart"}) {
		t.Errorf("shown: %q", got)
	}
	if n := len(h.model.Requests()); n != 3 {
		t.Errorf("%d requests for 3 messages", n)
	}
}

func TestF10_AMessageThatQuotesAnErrorIsAnOrdinaryMessage(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "I see: {{user}}"}).start()
	for _, vendor := range llmtest.Vendors() {
		_, body := llmtest.Overflow(vendor)
		h.say("quote", body, "follow-up")
	}
	h.say("quote", "context_length_exceeded: 401 invalid_api_key, insufficient_quota", "follow-up")
	n := len(llmtest.Vendors()) + 1
	h.until("all to be answered", func() bool { return len(h.texts("local/quote", mercury.UserEntry)) == n })
	for _, r := range h.quiet("local/quote", 1) {
		if r.State != "done" || r.Code != "" {
			t.Errorf("run %s: %s", r.State, r.Code)
		}
	}
	for _, e := range h.entries("local/quote") {
		if e.Kind == "note" || e.Hidden {
			t.Errorf("the talk was touched: %+v", e)
		}
	}
	h.sound()
}

func TestF11_ACommandThatEndsMercuryIsNotRunAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "restart", Tools: []llmtest.Call{command("echo again >> restarts; kill -9 $PPID")}},
		{After: "not known", Reply: "It seems I was restarted."},
	}})
	h.live()
	h.say("talk", "restart yourself", "follow-up")
	h.answer(h.question("local/talk"), "once")
	select {
	case <-h.life.ended:
	case <-time.After(patience):
		t.Fatal("the command did not end Mercury")
	}
	h.live()
	runs := h.quiet("local/talk", 1)
	if got := h.texts("local/talk", mercury.AssistantEntry); runs[0].State != "done" || got[len(got)-1] != "It seems I was restarted." {
		t.Errorf("run %s, said %q", runs[0].State, got)
	}
	if b := h.file("restarts"); b != "again\n" {
		t.Errorf("the command ran: %q", b)
	}
	if h.life.over() {
		t.Error("Mercury was ended a second time")
	}
	h.sound()
}

func TestF13_AnswersWaitForAPlatformThatIsAwayAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"}).start()
	h.showedAfter("warm up", "So: warm up")
	h.door.shut()
	for i := range 3 {
		// The owner speaks from the terminal in the same conversation.
		h.say("relay/room", fmt.Sprint("n", i), "follow-up")
		n := i + 2
		h.until("an answer in the outbox", func() bool {
			return len(h.texts("relay/room", mercury.AssistantEntry)) == n
		})
	}
	h.stop()
	h.start() // a restart meanwhile loses nothing
	h.door.open(t)
	h.showed("room", 2)
	h.quiet("relay/room", 4)
	got := h.shown("room")
	if !slices.IsSorted(got[1:]) || got[len(got)-1] != "So: n2" {
		t.Log(h.dump())
		t.Errorf("shown: %q", got)
	}
	seen := map[string]bool{}
	for _, text := range got {
		if seen[text] {
			t.Errorf("%q was shown twice", text)
		}
		seen[text] = true
	}
}

// showedAfter pushes a text to the room and waits for its answer.
func (h *house) showedAfter(text, want string) {
	h.t.Helper()
	before := len(h.shown("room"))
	h.bridge.Push("room", text)
	if got := h.showed("room", before+1); got[len(got)-1] != want {
		h.t.Fatalf("shown %q, want %q", got, want)
	}
}

func TestF14_ManyQuickMessagesAreWorkedOffInOrderWithoutADeadlock(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: ".", Any: true, Reply: "So: {{user}}", FirstMS: 150}}}).start()
	want := []string{}
	for i := range 4 {
		want = append(want, fmt.Sprint("text ", i))
		h.bridge.Push("room", want[i])
	}
	h.asked(1)
	want = append(want, "one more")
	h.taken(h.bridge.Push("room", "one more"))
	h.until("all to be in the conversation", func() bool { return len(h.texts("relay/room", mercury.UserEntry)) == 5 })
	h.quiet("relay/room", 1)
	if got := h.texts("relay/room", mercury.UserEntry); !slices.Equal(got, want) {
		t.Errorf("in the conversation: %q", got)
	}
	if got := h.shown("room"); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], "one more") {
		t.Errorf("shown: %q", got)
	}
	h.sound()
}

func TestF16_TalkOfAGroupDuringARunIsHandledOnceInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "slow", Reply: strings.Repeat("so ", 10), TokenMS: 60}}, Default: "So: {{user}}"}).start()
	h.bridge.PushFrom("ann", "group", "slow")
	h.asked(1)
	// Somebody else's words wait for a run of their own.
	for i := range 3 {
		h.bridge.PushFrom("ben", "group", fmt.Sprint("ben ", i))
	}
	h.taken(h.bridge.PushFrom("ann", "group", "ann again"))
	h.until("all to be in the conversation", func() bool { return len(h.texts("relay/group", mercury.UserEntry)) == 5 })
	for _, r := range h.quiet("relay/group", 2) {
		if r.State != "done" {
			t.Errorf("run is %s: %s", r.State, r.Error)
		}
	}
	got := h.texts("relay/group", mercury.UserEntry)
	var ben []string
	for _, text := range got {
		if strings.HasPrefix(text, "ben") {
			ben = append(ben, text)
		}
	}
	if !slices.Equal(ben, []string{"ben 0", "ben 1", "ben 2"}) || len(got) != 5 {
		t.Errorf("in the conversation: %q", got)
	}
	h.sound()
}
