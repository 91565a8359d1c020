//go:build unix

package field

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

func TestF79_ACallCutInItsArgumentsIsLeftOutWithItsResult(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				{Match: "go", Fault: llmtest.CutArgs, Reply: "Let me look.", Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."})}, Times: 1},
				say("go", "Without looking then."),
				say("more", "More."),
			}})
			h.wire(wire).start()
			h.say("talk", "go", "follow-up")
			h.quiet("local/talk", 1)
			h.say("talk", "more", "follow-up")
			h.quiet("local/talk", 2)
			for _, e := range h.entries("local/talk") {
				if e.Kind == "tool_call" || e.Kind == "tool_result" {
					t.Errorf("a cut call left its %s", e.Kind)
				}
			}
			if got := h.texts("local/talk", mercury.AssistantEntry); !slices.Equal(got, []string{"Without looking then.", "More."}) {
				t.Errorf("said: %q", got)
			}
			h.sound()
		})
	}
}

func TestF80_ARawNewlineInArgumentsLoadsAndHarmsNothing(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
				{Match: "go", Tools: []llmtest.Call{{Name: "read_file", Raw: "{\"path\":\"a\nb\x00"}}},
				{After: ".", Reply: "I wrote that badly."},
				say("more", "More."),
			}})
			h.wire(wire).start()
			h.say("talk", "go", "follow-up")
			h.quiet("local/talk", 1)
			for range 3 {
				h.stop()
				h.start()
			}
			h.say("talk", "more", "follow-up")
			h.quiet("local/talk", 2)
			if got := h.texts("local/talk", mercury.AssistantEntry); !slices.Equal(got[len(got)-2:], []string{"I wrote that badly.", "More."}) {
				t.Errorf("said: %q", got)
			}
			h.sound()
		})
	}
}

func TestF82_ModelsAreSwitchedBackAndForthWithTheirThinking(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: ".", Reasoning: "I ponder {{user}}.", Reply: "Looking.",
		Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."})}}, {After: ".", Reasoning: "Seen.", Reply: "Seen."}}})
	for i := range 6 {
		h.configureAs([]string{"openai", "anthropic"}[i%2], fmt.Sprint("model-", i%3))
		h.start()
		h.say("talk", fmt.Sprint("turn ", i), "follow-up")
		if runs := h.quiet("local/talk", i+1); runs[i].State != "done" {
			t.Fatalf("turn %d is %s: %s", i, runs[i].State, runs[i].Error)
		}
		h.stop()
	}
	h.sound()
}

// configureAs chooses a wire and the name of its model.
func (h *house) configureAs(wire, model string) {
	h.t.Helper()
	h.wire(wire)
	b, err := os.ReadFile(h.home.Config())
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(h.home.Config(), strings.Replace(string(b), "scripted/one", "scripted/"+model, 1))
}

func TestF86_OneHomeHasOneWriterWhateverIsKilled(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	said := 0
	for life := range 5 {
		h.live()
		if code, out := h.run("serve"); code != 6 || !strings.Contains(out, "Another Mercury runs") {
			t.Fatalf("life %d: a second runtime left with %d: %s", life, code, out)
		}
		// A command attaches to the one that runs.
		asked := h.spawn("ask", "--conversation", "talk", fmt.Sprint("question ", life))
		if code := h.code(asked); code != 0 {
			t.Fatalf("ask left with %d: %s", code, asked.out)
		}
		if got := asked.out.String(); !strings.Contains(got, fmt.Sprint("question ", life)) {
			t.Errorf("ask printed %q", got)
		}
		said++
		for i := range 5 {
			h.say("talk", fmt.Sprintf("life %d text %d", life, i), "follow-up")
			said++
		}
		h.life.kill()
	}
	h.live()
	h.until("all to be answered", func() bool { return len(h.texts("local/talk", mercury.UserEntry)) == said })
	h.quiet("local/talk", 1)
	h.life.kill()
	damaged(t, h)
	h.sound()
}

// damaged fails the test if the database does not pass its own check.
func damaged(t *testing.T, h *house) {
	t.Helper()
	h.kept(func(tx store.Tx) error { _, _, err := tx.Conversations(store.Page{}); return err })
	if out := integrity(t, filepath.Join(h.home.Dir(), sqlite.FileName)); out != "ok" {
		t.Errorf("the database is damaged: %s", out)
	}
}

func TestF89_ADamagedStoreIsSaidAndNotShownAsAnEmptyOne(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"overwritten": func(t *testing.T, path string) { scribble(t, path, 0, "not a database at all, whatever its name says") },
		"cut short":   func(t *testing.T, path string) { must(t, os.Truncate(path, 3000)) },
		"emptied":     func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{}).start()
			h.say("talk", "hello", "follow-up")
			h.quiet("local/talk", 1)
			h.stop()
			path := filepath.Join(h.home.Dir(), sqlite.FileName)
			for _, suffix := range []string{"-wal", "-shm"} {
				_ = os.Remove(path + suffix) // there may be none
			}
			damage(t, path)
			before, err := os.ReadFile(path)
			must(t, err)
			h.live()
			st, err := h.client.Status(brief(t))
			if err != nil || st.State != "degraded" || len(st.Problems) != 1 || !strings.Contains(st.Problems[0], "damaged") {
				t.Errorf("status: %+v, %v", st, err)
			}
			if e := refusalOf(h.client.Conversations(brief(t), nil)); e == nil || e.Status != 503 || !strings.Contains(e.Detail, "damaged") {
				t.Errorf("a list of conversations: %v", e)
			}
			if e := refusalOf(h.client.Send(brief(t), "talk", text("hello?"))); e == nil || e.Status != 503 {
				t.Errorf("a message: %v", e)
			}
			if code, out := h.run("status"); code != 0 || !strings.Contains(out, "damaged") {
				t.Errorf("mercury status left with %d: %s", code, out)
			}
			h.life.noPanic(t)
			h.life.kill()
			if after, err := os.ReadFile(path); err != nil || !slices.Equal(before, after) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func TestF155_AWorkspaceThatIsGoneIsSaidAndNotQuietlyReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	if st, err := h.client.Status(brief(t)); err != nil || len(st.Problems) > 0 {
		t.Fatalf("at first: %v, %v", st.Problems, err)
	}
	h.stop()
	if err := os.RemoveAll(h.workspace); err != nil {
		t.Fatal(err)
	}
	h.start()
	st, err := h.client.Status(brief(t))
	if err != nil || !strings.Contains(strings.Join(st.Problems, " "), h.workspace+" is gone") {
		t.Errorf("problems: %v, %v", st.Problems, err)
	}
	h.stop()
	h.start() // it was said; the new one counts
	if st, err := h.client.Status(brief(t)); err != nil || len(st.Problems) > 0 {
		t.Errorf("later: %v, %v", st.Problems, err)
	}
}
