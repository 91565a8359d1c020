package agent

import (
	"context"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestARequestIsTakenApartWithoutBeingSent(t *testing.T) {
	h := newHouse(t, summing(llmtest.Rule{Match: "^look", Tools: []llmtest.Call{callOf("look", "sheep")}}))
	h.gate = allowAll{}
	h.start()
	h.ends(h.say("look").RunID)
	h.talks(4)
	h.compacted("")
	sent := len(h.requests())
	a, err := h.agent.Anatomy(t.Context(), func(ctx context.Context, fn func(store.Tx) error) error { return h.store.View(ctx, fn) }, talkID)
	if err != nil {
		t.Fatal(err)
	}
	kinds, sum := map[string]int{}, 0
	for _, p := range a.Pieces {
		kinds[p.Kind] += p.Count
		sum += p.Tokens
	}
	if kinds["tool"] != 4 || kinds["instructions"] != 1 || kinds["summary"] != 1 || kinds["message"] == 0 || kinds["status"] != 1 {
		t.Errorf("%v", kinds)
	}
	if sum != a.Tokens || a.Prefix == 0 || a.Prefix >= a.Tokens || a.Window != 128_000 {
		t.Errorf("%+v", a)
	}
	if words := a.Words(); !strings.Contains(words, "tool (4)") || !strings.Contains(words, "one/model") {
		t.Errorf("%s", words)
	}
	if len(h.requests()) != sent {
		t.Error("a model was asked")
	}
}

// What stands before the last words of a person is the same bytes from turn to
// turn, and after a restart, on both wires: a provider's cache holds it.
func TestThePrefixIsTheSameFromTurnToTurnAndAfterARestart(t *testing.T) {
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		t.Run(string(wire), func(t *testing.T) {
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "look", Tools: []llmtest.Call{callOf("look", "sheep")}}}})
			h.wire, h.gate = wire, allowAll{}
			h.start()
			h.ends(h.say("hello").RunID)
			h.ends(h.say("look").RunID)
			h.close()
			h.start()
			h.ends(h.say("and again").RunID)
			h.prefixesHold()
			h.sound()
		})
	}
}
