package agent

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

func TestToolsThatWereFoundStayAndTheirPrefixDoesNotMove(t *testing.T) {
	h := newHouse(t, llmtest.Script{Default: "done", Rules: []llmtest.Rule{
		{Match: "need wings", Tools: []llmtest.Call{{Name: tool.FindTools, Args: json.RawMessage(`{"query":"flap"}`)}}, Times: 1},
	}})
	for _, name := range []string{"aaa_fly", "bbb_swim"} {
		h.more = append(h.more, tool.New(name, map[string]string{"aaa_fly": "Flap.", "bbb_swim": "Paddle."}[name], mercury.Read,
			func(lookArgs) []mercury.Access { return []mercury.Access{{Kind: mercury.OwnState, Target: "x"}} },
			func(context.Context, tool.Call, lookArgs) (tool.Output, error) { return tool.Output{Text: "x"}, nil }))
	}
	h.start()
	h.ends(h.say("need wings").RunID)
	h.close()
	h.start() // what was found is read from the entries
	h.ends(h.say("and now").RunID)

	var lists [][]string
	for _, r := range h.requests() {
		var names []string
		for _, x := range r.Tools {
			names = append(names, x.Name)
		}
		lists = append(lists, names)
	}
	if len(lists) != 3 {
		t.Fatalf("%d requests", len(lists))
	}
	core := lists[0]
	if slices.Contains(core, "aaa_fly") || !slices.Contains(core, tool.FindTools) {
		t.Errorf("at first: %v", core)
	}
	for _, later := range lists[1:] {
		if !slices.Equal(later, append(slices.Clone(core), "aaa_fly")) {
			t.Errorf("later: %v", later)
		}
	}
	h.sound()
}

func TestABeginningForgetsWhatWasLoaded(t *testing.T) {
	found := resultEntry("run_1", 1, "c", resultData{Tool: tool.FindTools, Loads: []string{"fly"}}, nil)
	used := mercury.Entry{Kind: mercury.ToolCallEntry, Data: encode(callData{Tool: "swim"})}
	if got := loaded([]mercury.Entry{found, used}); !slices.Equal(got, []string{"fly", "swim"}) {
		t.Errorf("got %v", got)
	}
	if got := loaded([]mercury.Entry{found, {Kind: mercury.ResetEntry}, used}); !slices.Equal(got, []string{"swim"}) {
		t.Errorf("got %v", got)
	}
}
