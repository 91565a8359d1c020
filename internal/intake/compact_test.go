package intake

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func (h *house) compactions() (states []mercury.RunState) {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		list, _, err := tx.Runs(store.RunFilter{Kind: agent.CompactKind})
		for _, r := range list {
			states = append(states, r.State)
		}
		return err
	})
	return states
}

func TestACompactionAskedForByHandRunsBesideTheTalkOnceAtATime(t *testing.T) {
	h := newHouse(t, Options{})
	if r := h.say("/compact the sheep"); !strings.Contains(r.Reply, "Shortening") {
		t.Fatalf("%+v", r)
	}
	if r := h.say("/compact"); !strings.Contains(r.Reply, "already") {
		t.Errorf("a second one: %q", r.Reply)
	}
	if r := h.say("hello"); r.Outcome != Started {
		t.Errorf("a message beside it: %+v", r)
	}
	if r := h.say("/status"); !strings.Contains(r.Reply, "Shortening") {
		t.Errorf("status: %q", r.Reply)
	}
	if r := h.accept(h.from("ben", "/compact")); !strings.Contains(r.Reply, "no permission") {
		t.Errorf("a member's: %q", r.Reply)
	}
	if n := len(h.compactions()); n != 1 {
		t.Errorf("%d compactions", n)
	}
}

func TestStoppingAConversationEndsACompactionAskedForAndNotOneInTheBackground(t *testing.T) {
	h := newHouse(t, Options{})
	h.say("/status")
	err := h.engine.Update(t.Context(), "test", func(tx *engine.Tx) error {
		return agent.New(nil, agent.Options{}).Grown(tx, mercury.Run{ConversationID: "relay/room", Usage: mercury.Usage{Input: 100_000}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := h.say("/stop"); !strings.Contains(r.Reply, "Nothing is running") {
		t.Errorf("with one in the background: %q", r.Reply)
	}
	h.say("/compact")
	if r := h.say("/stop"); !strings.Contains(r.Reply, "stays as it was") {
		t.Errorf("with one asked for: %q", r.Reply)
	}
	queued, stopped := 0, 0
	for _, s := range h.compactions() {
		switch s {
		case mercury.RunQueued:
			queued++
		case mercury.RunStopped:
			stopped++
		}
	}
	if queued != 1 || stopped != 1 {
		t.Errorf("%v", h.compactions())
	}
}
