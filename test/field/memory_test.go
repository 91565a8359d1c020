//go:build unix

package field

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	world "github.com/mercury-agent/mercury/test/house"
)

// lessonOf matches the request of a lesson: numbered lines.
const lessonOf = `(?s)\A1 [a-z]+: `

// dear makes an answer that has cost enough to be learned from.
func dear(match, reply string) llmtest.Rule {
	return llmtest.Rule{Match: match, Reply: reply, Usage: &llmtest.Usage{Input: 5000, Output: 20}}
}

// remembered lists what is kept of a scope, in every state.
func (h *house) remembered(scope string) []memory.Fact {
	h.t.Helper()
	page, err := h.client.Memories(h.t.Context(), url.Values{"scope": {scope}, "state": {"live,superseded,forgotten"}, "limit": {"1000"}})
	if err != nil {
		h.t.Fatalf("list memories: %v", err)
	}
	return page.Items
}

// lessons are the runs of kind learn that have ended.
func (h *house) lessons() int {
	h.t.Helper()
	page, err := h.client.Runs(h.t.Context(), url.Values{"limit": {"1000"}})
	if err != nil {
		h.t.Fatalf("list runs: %v", err)
	}
	n := 0
	for _, r := range page.Items {
		if r.Kind == "learn" && !mercury.RunState(r.State).Live() {
			n++
		}
	}
	return n
}

// talk says n things in a conversation, one after the other.
func (h *house) talk(conversation string, said ...string) {
	h.t.Helper()
	for _, text := range said {
		n := len(h.runs("local/" + conversation))
		h.say(conversation, text, "follow-up")
		h.quiet("local/"+conversation, n+1)
	}
}

func TestSixTurnsAreLearnedFromTogetherInTheLedgerAndBelowTheirShare(t *testing.T) {
	t.Parallel()
	lesson := `[{"type":"preference","summary":"Prefers oolong tea","confidence":0.9,"importance":0.7,"durability":0.9,"direct":true,"lines":[1]},
		{"type":"constraint","summary":"Is allergic to peanuts","confidence":0.9,"importance":0.9,"durability":0.9,"direct":true,"lines":[5]}]`
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: lessonOf, Reply: lesson, Usage: &llmtest.Usage{Input: 400, Output: 90}},
		dear(".", "Understood."),
	}}).start()
	h.talk("talk", "ok, remember that I drink oolong tea", "fine", "and I am allergic to peanuts", "good", "thanks", "bye")
	h.until("the lesson", func() bool { return h.lessons() == 1 })
	facts := h.remembered(memory.OwnerScope)
	if len(facts) != 2 || facts[0].Summary != "Is allergic to peanuts" || len(facts[0].Sources) != 1 || facts[0].Sources[0].EntryID == "" {
		t.Fatalf("learned %+v", facts)
	}
	entries := h.entries("local/talk")
	if i := slices.IndexFunc(entries, func(e api.Entry) bool { return e.ID == facts[0].Sources[0].EntryID }); i < 0 || !strings.Contains(entries[i].Text, "peanuts") {
		t.Errorf("its source is entry %d", i)
	}
	// What was learned stands in the next request, behind what is cached.
	before := len(h.model.Requests())
	h.talk("elsewhere", "May I have a dish with peanuts?")
	req := h.model.Requests()[before]
	if body := string(req.Body); !strings.Contains(body, "Is allergic to peanuts") {
		t.Errorf("the next request does not know it: %s", body)
	}
	h.stop()
	h.kept(func(tx store.Tx) error {
		sums, err := tx.TalkCost("local/talk")
		cost := map[string]int64{}
		for _, s := range sums {
			cost[s.Group] = s.Usage.Input + s.Usage.Output
		}
		if cost["learn"] != 490 || cost["turn"] != 6*5020 || float64(cost["learn"]) > 0.05*float64(cost["turn"]) {
			t.Errorf("the ledger says %v", cost)
		}
		return err
	})
}

func TestLearningDelaysNoReply(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: lessonOf, Do: func(int, llm.Request) llmtest.Rule { <-hold; return llmtest.Rule{Reply: "[]"} }},
		dear(".", "Yes."),
	}}).start()
	h.talk("talk", "one thing", "two things", "three things", "four things", "five things", "six things")
	h.until("the lesson to be under way", func() bool {
		return slices.ContainsFunc(h.model.Requests(), func(r llmtest.Recorded) bool { return strings.Contains(string(r.Body), "numbered lines") })
	})
	h.talk("talk", "seven things") // answered while the lesson waits for its model
	close(hold)
	h.until("the lesson", func() bool { return h.lessons() == 1 })
}

func TestWhatIsSaidWhilePausedIsNeverLearned(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: lessonOf, Reply: "[]"}, dear(".", "Yes.")}}).start()
	h.say("talk", "/memory pause", "")
	h.talk("talk", "my secret is one", "my secret is two", "my secret is three", "my secret is four", "my secret is five", "my secret is six")
	h.until("the lesson that is none", func() bool { return h.lessons() == 1 })
	h.say("talk", "/memory resume", "")
	h.talk("talk", "I like one", "I like two", "I like three", "I like four", "I like five", "I like six")
	h.until("the lesson", func() bool { return h.lessons() == 2 })
	for _, r := range h.model.Requests() {
		if body := string(r.Body); strings.Contains(body, "numbered lines") && strings.Contains(body, "secret") {
			t.Errorf("it was looked at: %s", body)
		}
	}
}

func TestATalkThatCostNothingIsNotLearnedFromYet(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: ".", Reply: "Yes.", Usage: &llmtest.Usage{Input: 20, Output: 5}}}}).start()
	h.talk("talk", "I like one", "I like two", "I like three", "I like four", "I like five", "I like six")
	h.until("the lesson that is none", func() bool { return h.lessons() == 1 })
	if n := len(h.model.Requests()); n != 6 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestALessonThatAKillCutOffIsLearnedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var h *house
	h = newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: lessonOf, Do: func(int, llm.Request) llmtest.Rule {
			if asked.Add(1) == 1 {
				h.life.kill()
			}
			return llmtest.Rule{Reply: `[{"type":"preference","summary":"Prefers oolong tea","confidence":0.9,"importance":0.7,"durability":0.9,"lines":[1]}]`}
		}},
		dear(".", "Yes."),
	}})
	h.live()
	h.talk("talk", "I drink oolong tea", "two things", "three things", "four things", "five things")
	h.say("talk", "six things", "follow-up") // the lesson that follows ends the process
	h.until("the kill", func() bool { return h.life.over() })
	h.live()
	h.until("the lesson", func() bool { return h.lessons() == 1 })
	if facts := h.remembered(memory.OwnerScope); len(facts) != 1 || facts[0].Evidence != 1 || asked.Load() != 2 {
		t.Errorf("asked %d times, learned %+v", asked.Load(), facts)
	}
}

// The seventh model call and the seventh settling are the lesson's.
func TestALessonKilledAtAnyPointIsLearnedOnce(t *testing.T) {
	t.Parallel()
	binary := world.Program{Tags: "crashpoints"}.Build(t)
	for _, point := range []string{"model.before#7", "model.after#7", "settle.commit.before#7", "settle.commit.after#7"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				{Match: lessonOf, Reply: `[{"type":"preference","summary":"Prefers oolong tea","confidence":0.9,"importance":0.7,"durability":0.9,"lines":[1]}]`},
				dear(".", "Yes."),
			}})
			h.binary = binary
			h.live("MERCURY_CRASH_AT=" + point)
			h.talk("talk", "I drink oolong tea", "two things", "three things", "four things", "five things")
			h.say("talk", "six things", "follow-up")
			h.until("the kill", func() bool { return h.life.over() })
			h.live()
			h.until("the lesson", func() bool { return h.lessons() == 1 })
			if facts := h.remembered(memory.OwnerScope); len(facts) != 1 || facts[0].Evidence != 1 {
				t.Errorf("learned %+v", facts)
			}
			if said := h.texts("local/talk", mercury.AssistantEntry); len(said) != 6 {
				t.Errorf("answered %q", said)
			}
		})
	}
}

func TestF164_TwoWhoRememberAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			for n := range 20 {
				if _, err := h.client.AddMemory(t.Context(), memory.OwnerScope, memory.Project, fmt.Sprintf("builds machine %c%d", 'a'+rune(i), n), ""); err != nil {
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := len(h.remembered(memory.OwnerScope)); n != 40 {
		t.Errorf("%d of 40 are kept", n)
	}
}

func TestF166_OnePersonsMemoryIsInNobodyElsesRequest(t *testing.T) {
	t.Parallel()
	save := func(words string) llmtest.Rule {
		return llmtest.Rule{Match: "note " + words, Tools: []llmtest.Call{call("save_memory", map[string]string{"text": words})}}
	}
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		save("prefers the hidden cabin at Saltlake"), save("really loves the hidden cabin at Saltlake"), save("enjoys the hidden cabin at Saltlake most"),
		{After: ".", Reply: "Kept."}, dear(".", "Here you are."),
	}}).start()
	for i, words := range []string{"prefers the hidden cabin at Saltlake", "really loves the hidden cabin at Saltlake", "enjoys the hidden cabin at Saltlake most"} {
		h.bridge.PushFrom("ann", "ann", "note "+words)
		h.showed("ann", i+1)
	}
	if facts := h.remembered(memory.OwnerScope); len(facts) != 1 || facts[0].Evidence != 3 {
		t.Fatalf("three wordings became %+v", facts)
	}
	before := len(h.model.Requests())
	question := "Do you know the cabin at the lake?"
	h.bridge.PushFrom("ben", "ben", question)
	h.showed("ben", 1)
	h.bridge.PushFrom("ann", "room", question) // where others read along
	h.until("the answer in the room", func() bool {
		return len(h.runs("relay/room")) == 1 && !mercury.RunState(h.runs("relay/room")[0].State).Live()
	})
	for _, r := range h.model.Requests()[before:] {
		if strings.Contains(string(r.Body), "Saltlake") {
			t.Errorf("another's request holds it: %s", r.Body)
		}
	}
	before = len(h.model.Requests())
	h.bridge.PushFrom("ann", "ann", "/new")
	h.bridge.PushFrom("ann", "ann", question)
	h.until("her own answer", func() bool { return len(h.model.Requests()) > before })
	if r := h.model.Requests()[before]; !strings.Contains(string(r.Body), "Saltlake") {
		t.Errorf("her own request does not hold it: %s", r.Body)
	}
}

func TestF167_AFreshStartAndAKillDirectlyAfterASaveLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "note", Tools: []llmtest.Call{call("save_memory", map[string]string{"text": "moved to Munich", "type": "identity"})}, Times: 1},
		{After: ".", Reply: "Kept."}, dear(".", "Munich."),
	}})
	h.live()
	if _, err := h.client.AddMemory(t.Context(), memory.OwnerScope, memory.Identity, "lives in Berlin", ""); err != nil {
		t.Fatal(err)
	}
	h.talk("talk", "note where I live")
	h.say("talk", "/new", "")
	h.life.kill()
	h.live()
	before := len(h.model.Requests())
	h.talk("talk", "Where do I live, in Munich or in Berlin?")
	body := string(h.model.Requests()[before].Body)
	if !strings.Contains(body, "moved to Munich") || strings.Contains(body, "lives in Berlin") {
		t.Errorf("the next request: %s", body)
	}
}

func TestF169_RememberingThatWasOnlySaidIsShownAsNotSaved(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "birthday", Reply: "I'll remember that your birthday is in May."},
		{Match: "note", Tools: []llmtest.Call{call("save_memory", map[string]string{"text": "has a birthday in May", "type": "identity"})}},
		{After: ".", Reply: "I have saved that for later."},
		say("tea", "Tea it is."),
	}}).start()
	const not = "Not saved"
	for i, tt := range []struct {
		said string
		want bool
	}{{"my birthday is in May", true}, {"note it", false}, {"tea", false}} {
		h.bridge.PushFrom("ann", "ann", tt.said)
		if got := h.showed("ann", i+1)[i]; strings.Contains(got, not) != tt.want {
			t.Errorf("%q was answered %q", tt.said, got)
		}
	}
	h.talk("talk", "my birthday is in May")
	if notes := h.texts("local/talk", mercury.NoteEntry); len(notes) != 1 || !strings.Contains(notes[0], not) {
		t.Errorf("the terminal shows %q", notes)
	}
}

func TestWhatARunSavedIsUndoneWithIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "note", Tools: []llmtest.Call{call("save_memory", map[string]string{"text": "likes plum cake"})}},
		{After: ".", Reply: "Kept."},
	}}).start()
	h.talk("talk", "note that")
	if h.remembered(memory.OwnerScope)[0].State != store.MemoryLive {
		t.Fatal("it was not saved")
	}
	if _, err := h.client.Undo(t.Context(), "last", "talk", true); err != nil {
		t.Fatal(err)
	}
	if f := h.remembered(memory.OwnerScope)[0]; f.State != store.MemoryForgotten {
		t.Errorf("after the undo it is %s", f.State)
	}
}

func TestHistoryIsFoundBehindAFreshStartAndOnlyByThoseWhoMaySeeIt(t *testing.T) {
	t.Parallel()
	look := func(match string) llmtest.Rule {
		return llmtest.Rule{Match: match, Tools: []llmtest.Call{call("search_history", map[string]string{"query": "雨伞 umbrella"})}}
	}
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		look("where did I say"), {After: ".", Reply: "It says: {{tool}}"}, say(".", "Yes."),
	}}).start()
	h.bridge.PushFrom("ann", "ann", "the umbrella 雨伞 is with aunt Selma")
	h.showed("ann", 1)
	h.bridge.PushFrom("ann", "ann", "/new")
	h.showed("ann", 2)
	page, err := h.client.Search(t.Context(), "雨伞", "", 10)
	if err != nil || len(page.Items) != 1 || page.Items[0].Conversation != "relay/ann" {
		t.Fatalf("search: %+v, %v", page.Items, err)
	}
	h.bridge.PushFrom("ann", "ann", "where did I say it is?")
	if got := h.showed("ann", 3)[2]; !strings.Contains(got, "aunt Selma") {
		t.Errorf("its owner is told %q", got)
	}
	h.bridge.PushFrom("ben", "ben", "where did I say it is?")
	if got := h.showed("ben", 1)[0]; strings.Contains(got, "Selma") {
		t.Errorf("a member is told %q", got)
	}
	h.bridge.PushFrom("ann", "room", "where did I say it is?")
	h.until("the answer in the room", func() bool {
		shown := h.shown("room")
		if len(shown) == 0 {
			return false
		}
		if strings.Contains(shown[0], "Selma") {
			t.Errorf("a room is told %q", shown[0])
		}
		return true
	})
}
