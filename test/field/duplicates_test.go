//go:build unix

package field

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestF17_ARedeliveredMessageIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"}).start()
	id := h.bridge.Push("room", "hello")
	h.showed("room", 1)
	for range 3 {
		// The platform forgot that it was taken, and asks from an older place.
		h.bridge.Redeliver(id, "room", "hello")
		h.stop()
		h.kept(func(tx store.Tx) error { return agedBy(tx, id, 7*time.Hour) })
		h.start()
	}
	h.bridge.Redeliver(id, "room", "hello")
	last := h.bridge.Push("room", "and now?")
	h.taken(last)
	h.showed("room", 2)
	h.quiet("relay/room", 2)
	if got := h.shown("room"); !slices.Equal(got, []string{"So: hello", "So: and now?"}) {
		t.Errorf("shown: %q", got)
	}
	if n := len(h.model.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// agedBy says that an input was settled that much longer ago.
func agedBy(tx store.Tx, id string, d time.Duration) error {
	in, err := tx.FindInput("relay", id)
	if err != nil {
		return err
	}
	in.SettledAt = in.SettledAt.Add(-d)
	return tx.SaveInput(in)
}

func TestF19_MessagesQueuedDuringABusyTurnAreHandledOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "busy", Reply: strings.Repeat("so ", 20), TokenMS: 30}}, Default: "So: {{user}}"}).start()
	h.say("talk", "busy", "follow-up")
	h.asked(1)
	for i := range 3 {
		h.say("talk", fmt.Sprint("waits ", i), []string{"follow-up", "steer", "write"}[i])
	}
	h.until("all to be in the conversation", func() bool {
		return len(h.texts("local/talk", mercury.UserEntry))+len(h.texts("local/talk", mercury.NoteEntry)) == 4
	})
	h.quiet("local/talk", 2)
	count := map[string]int{}
	for _, e := range h.entries("local/talk") {
		if e.Kind == "user" || e.Kind == "note" {
			count[e.Text]++
		}
	}
	for text, n := range count {
		if n != 1 {
			t.Errorf("%q is in the conversation %d times", text, n)
		}
	}
	if len(count) != 4 {
		t.Errorf("in the conversation: %v", count)
	}
	h.sound()
}

func TestF22_AFloodLimitIsWaitedOutAndTheTextIsShownOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("word ", 100)+"\n\n", 15) // two messages
	h := newHouse(t, llmtest.Script{Default: long})
	h.bridge.Fail("", relaytest.Flood, relaytest.Unavailable)
	h.start()
	h.bridge.Push("room", "tell me")
	h.quiet("relay/room", 1)
	h.until("the delivery to be sent", func() bool { return len(h.deliveries("relay/room", "sent")) == 1 })
	got := h.shown("room")
	if len(got) != 2 || got[0] == got[1] {
		t.Errorf("%d messages shown", len(got))
	}
	if words := strings.Count(strings.Join(got, " "), "word"); words != 1500 {
		t.Errorf("%d of 1500 words shown", words)
	}
}

func TestF23_ASendOfWhichNobodyKnowsIsNotRepeatedInSilence(t *testing.T) {
	t.Parallel()
	for _, fault := range []relaytest.Fault{relaytest.Drop, relaytest.DropBefore, relaytest.Broken} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
			h.bridge.Fail(fault)
			h.start()
			h.bridge.Push("room", "hello")
			h.until("the delivery to be unknown", func() bool { return len(h.deliveries("relay/room", "unknown")) == 1 })
			h.stop()
			h.start()
			h.showedLast("room", "next", "So: next")
			sent := 0
			for _, s := range h.bridge.Sent() {
				if s.Text == "So: hello" {
					sent++
				}
			}
			if sent != 1 {
				t.Errorf("tried %d times", sent)
			}
			h.bridge.Push("room", "/status")
			h.showedAny("room", "may or may not have arrived")
			if _, err := h.client.Resend(t.Context(), h.deliveries("relay/room", "unknown")[0].ID); err != nil {
				t.Fatal(err)
			}
			h.until("the delivery to be sent", func() bool { return len(h.deliveries("relay/room", "unknown")) == 0 })
		})
	}
}

// showedLast pushes a text to a place and waits for its answer.
func (h *house) showedLast(place, text, want string) {
	h.t.Helper()
	h.bridge.Push(place, text)
	h.until(want, func() bool { return slices.Contains(h.shown(place), want) })
}

// showedAny waits for a message with words in it.
func (h *house) showedAny(place, words string) {
	h.t.Helper()
	h.until("a message that says "+words, func() bool {
		return slices.ContainsFunc(h.shown(place), func(s string) bool { return strings.Contains(s, words) })
	})
}

func TestF25_ALoopOfRestartsDoesNotFloodTheChat(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "503", Any: true}}}).start()
	h.bridge.Push("room", "hello")
	h.showedAny("room", "Your message is kept")
	run := h.runs("relay/room")[0]
	for range 20 {
		h.stop()
		h.hurry(run.ID) // so that each life meets the outage anew
		before := len(h.model.Requests())
		h.start()
		h.asked(before + 1)
	}
	if got := h.shown("room"); len(got) != 1 {
		t.Errorf("%d messages after 20 restarts: %q", len(got), got)
	}
}

func TestF26_AnAnswerHasOneSender(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	h.add(fmt.Sprintf("database: { url: %q }\n", database))
	second := h.twin()
	h.start()
	second.start()
	want := []string{}
	for i := range 10 {
		want = append(want, fmt.Sprint("So: n", i))
		h.showedLast("room", fmt.Sprint("n", i), want[i])
	}
	// From the other process's terminal into the same conversation.
	second.say("relay/room", "from afar", "follow-up")
	want = append(want, "So: from afar")
	h.until("the last answer", func() bool { return slices.Contains(h.shown("room"), "So: from afar") })
	h.quiet("relay/room", 11)
	if got := h.shown("room"); !slices.Equal(got, want) {
		t.Errorf("shown: %q", got)
	}
	polls := 0
	h.door.on(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/updates" {
			polls++
		}
		return false
	})
	h.showedLast("room", "one poller", "So: one poller")
	if polls > 3 {
		t.Errorf("%d polls for one message: both processes poll", polls)
	}
}

func TestF20_WordsThatAToolSentAreNotSentAgainAsTheAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "tell", Tools: []llmtest.Call{{Name: "send_message", Args: []byte(`{"text":"The kettle is on."}`)}}},
		{Match: "tell", After: "on its way", Reply: "The kettle is on."},
	}, Default: "Noted."}).start()
	h.bridge.Push("room", "tell me")
	h.showedAny("room", "The kettle is on.")
	h.quiet("relay/room", 1)
	h.showedLast("room", "and then?", "Noted.")
	count := 0
	for _, text := range h.shown("room") {
		if text == "The kettle is on." {
			count++
		}
	}
	if count != 1 {
		t.Errorf("it was shown %d times: %q", count, h.shown("room"))
	}
	h.sound()
}
