package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// talk is a turn in the middle of a long conversation: turns of size bytes of
// tool output each, the last of them this run's own.
func talk(turns, size int) *turn {
	t := &turn{agent: New(nil, Options{}), run: mercury.Run{ID: fmt.Sprint("run_", turns-1), ConversationID: "local/test"}}
	t.profile = Profile{ModelName: "one/a", Window: 40_000, MaxOutput: 2_000}.withDefaults()
	add := func(e mercury.Entry) {
		t.last++
		e.Seq, e.ID, e.ConversationID = t.last, fmt.Sprint("en_", t.last), "local/test"
		t.entries = append(t.entries, e)
	}
	for i := range turns {
		run := fmt.Sprint("run_", i)
		id := callID(run, 1, 0)
		add(mercury.Entry{Kind: mercury.UserEntry, RunID: run, Text: fmt.Sprint("question ", i), Actor: mercury.Actor{Role: mercury.Owner}})
		add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: run, Round: 1, Data: encode(assistantData{Parts: []llm.Part{{Kind: llm.ToolCall, ID: id}}})})
		add(mercury.Entry{Kind: mercury.ToolCallEntry, RunID: run, Round: 1, CallID: id, Data: encode(callData{Tool: "read_file", Args: json.RawMessage(`{}`)})})
		add(resultEntry(run, 1, id, resultData{Result: fmt.Sprintf("result %d %s", i, strings.Repeat("lorem ipsum ", size/12))}, nil))
		if i < turns-1 {
			add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: run, Round: 2, Text: fmt.Sprintf("answer %d %s", i, strings.Repeat("dolor sit ", size/40))})
		}
	}
	return t
}

func TestARequestIsShortenedUntilItFits(t *testing.T) {
	for _, tt := range []struct {
		name        string
		turns, size int
		level       int
	}{
		{"a short talk is sent whole", 3, 3_000, levelWhole},
		{"old outputs become stubs first", 15, 16_000, levelStubs},
		{"then the oldest turns go", 120, 12_000, levelTurns},
		{"one output larger than the window is cut", 2, 400_000, levelBare},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn := talk(tt.turns, tt.size)
			s, err := turn.fit(levelWhole, 0)
			if err != nil {
				t.Fatal(err)
			}
			if s.level != tt.level {
				t.Errorf("level %d, want %d (%d tokens)", s.level, tt.level, s.size)
			}
			if s.size+s.request.MaxTokens > turn.profile.Window {
				t.Errorf("%d tokens and an answer of %d do not fit into %d", s.size, s.request.MaxTokens, turn.profile.Window)
			}
			for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
				if err := llm.Validate(s.request, wire); err != nil {
					t.Errorf("%s: %v", wire, err)
				}
			}
			last := fmt.Sprint("question ", tt.turns-1)
			if text := outlineWhole(s.request); !strings.Contains(text, last) {
				t.Errorf("the question in hand is missing:\n%.2000s", text)
			}
			if (tt.level == levelWhole) != (len(s.marks) == 0) {
				t.Errorf("%d marks at level %d", len(s.marks), s.level)
			}
			if tt.level == levelWhole {
				return
			}
			// Stored, the marks give the same request, and it needs no more.
			for _, m := range s.marks {
				turn.last++
				m.Seq, m.ConversationID, m.ID = turn.last, "local/test", fmt.Sprint("en_", turn.last)
				turn.entries = append(turn.entries, m)
			}
			again, err := turn.fit(levelWhole, 0)
			if err != nil || again.level != levelWhole {
				t.Errorf("after its marks were stored the request is at level %d, %v", again.level, err)
			}
			if a, b := outlineWhole(s.request), outlineWhole(again.request); a != b {
				t.Error("the stored marks give another request")
			}
		})
	}
}

func outlineWhole(req llm.Request) string {
	b, _ := json.Marshal(req.Messages)
	return string(b)
}

func TestWhatCannotBeShortenedIsSaid(t *testing.T) {
	turn := talk(1, 10)
	turn.entries[0].Text = strings.Repeat("a whole book ", 30_000)
	if _, err := turn.fit(levelWhole, 0); llm.ClassOf(err) != llm.ContextLength {
		t.Errorf("error is %v, want context_length", err)
	}
}

func TestWhatWasSaidInThisRunSurvivesACut(t *testing.T) {
	turn := talk(30, 12_000)
	turn.run.ID = "run_5" // a long run, with later runs' entries standing for its rounds
	for i := range turn.entries {
		if turn.entries[i].Seq > 26 {
			turn.entries[i].RunID = "run_5"
		}
	}
	s := turn.shape(levelBare)
	text := outlineWhole(s.request)
	for i := 6; i < 30; i++ {
		if !strings.Contains(text, fmt.Sprintf("question %d\"", i)) {
			t.Errorf("question %d of this run is lost", i)
		}
	}
	if strings.Contains(text, "question 2\"") {
		t.Error("an old turn survived the deepest cut")
	}
}
