//go:build unix

package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/store"
)

// lines is how often a command that leaves a line each time has run.
func (h *home) lines(name string) int {
	b, err := os.ReadFile(filepath.Join(h.workspace, name))
	if os.IsNotExist(err) {
		return 0
	}
	must(h.t, err)
	return strings.Count(string(b), "\n")
}

// unused counts the rights for a single call that nobody has used up.
func (h *home) unused() (n int) {
	h.t.Helper()
	must(h.t, h.engine.View(h.t.Context(), func(tx store.Tx) error {
		list, err := tx.Grants(tx.Now())
		for _, g := range list {
			if g.Once {
				n++
			}
		}
		return err
	}))
	return n
}

// Two calls of the same command at once are two questions, and a yes to one of
// them lets one of them run. The next one is asked about again.
func TestAYesForOnceIsUsedUpByOneOfTwoCallsAtOnce(t *testing.T) {
	h := newHome(t, llmtest.Script{}, "ask", "").start()
	again := call("run_command", args{"command": "echo ran >> ran.txt; true"})
	must(t, h.model.Use(llmtest.Script{Rules: []llmtest.Rule{
		{Match: "^begin", Tools: []llmtest.Call{again, again}},
		{After: ".", Times: 1, Tools: []llmtest.Call{again}},
		{After: ".", Reply: "Done."},
	}, Default: "Hello."}))
	h.send("local/once", "begin")
	h.until("two questions", func() bool { return len(h.open()) == 2 })
	first, second := h.open()[0], h.open()[1]
	for answer, id := range map[string]string{"once": first.ID, "no": second.ID} {
		_, err := h.client.Answer(t.Context(), id, answer)
		must(t, err)
	}
	h.until("a third question", func() bool {
		open := h.open()
		return len(open) == 1 && open[0].ID != first.ID && open[0].ID != second.ID
	})
	if n := h.lines("ran.txt"); n != 1 {
		t.Errorf("it ran %d times on one yes", n)
	}
	if n := h.unused(); n > 0 {
		t.Errorf("%d rights are left over", n)
	}
	h.through("local/once", 1, "no")
	if n := h.lines("ran.txt"); n != 1 {
		t.Errorf("it ran %d times in the end", n)
	}
}

// A yes that was given while nothing ran is used up by the next life, once.
func TestAYesForOnceOutlivesARestartAndIsUsedOnce(t *testing.T) {
	h := newHome(t, llmtest.Script{}, "ask", "").start()
	again := call("run_command", args{"command": "echo ran >> ran.txt; true"})
	must(t, h.model.Use(llmtest.Script{Rules: []llmtest.Rule{
		{Match: "^begin", Tools: []llmtest.Call{again}},
		{After: ".", Times: 1, Tools: []llmtest.Call{again}},
		{After: ".", Reply: "Done."},
	}, Default: "Hello."}))
	h.send("local/once", "begin")
	h.until("a question", func() bool { return len(h.open()) == 1 })
	q := h.open()[0]
	h.stop()
	h.start()
	_, err := h.client.Answer(t.Context(), q.ID, "once")
	must(t, err)
	h.stop() // wherever the run is by now
	h.start()
	h.until("the next question", func() bool { open := h.open(); return len(open) == 1 && open[0].ID != q.ID })
	h.stop()
	h.start()
	if _, err := h.client.Answer(t.Context(), q.ID, "once"); err == nil {
		t.Error("the first question was answered a second time")
	}
	h.through("local/once", 1, "no")
	// A stop that fell into the call itself leaves it unknown; it is never twice.
	if n := h.lines("ran.txt"); n > 1 {
		t.Errorf("it ran %d times on one yes", n)
	}
	if n := h.unused(); n > 0 {
		t.Errorf("%d rights are left over", n)
	}
}

// A yes is for the script that was there when it was asked for.
func TestAScriptThatIsSwappedAfterTheQuestionDoesNotRun(t *testing.T) {
	h := newHome(t, llmtest.Script{}, "ask", "").start()
	script := filepath.Join(h.workspace, "build.sh")
	h.write(script, "touch shown\n")
	must(t, h.model.Use(llmtest.Script{Rules: []llmtest.Rule{
		{Match: "^begin", Tools: []llmtest.Call{call("run_command", args{"command": "sh build.sh && true"})}},
		{After: ".", Reply: "Done."},
	}, Default: "Hello."}))
	h.send("local/swap", "begin")
	h.until("a question", func() bool { return len(h.open()) == 1 })
	q := h.open()[0]
	must(t, os.Remove(script))
	h.write(script, "touch canary\n")
	_, err := h.client.Answer(t.Context(), q.ID, "once")
	must(t, err)
	h.until("a second question", func() bool { open := h.open(); return len(open) == 1 && open[0].ID != q.ID })
	h.through("local/swap", 1, "no")
	for _, name := range []string{"shown", "canary"} {
		if _, err := os.Stat(filepath.Join(h.workspace, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
}

// An "always" about one command leaves every variant a question.
func TestAnAlwaysCoversOneCommandAlone(t *testing.T) {
	h := newHome(t, llmtest.Script{}, "ask", "").start()
	h.write(filepath.Join(h.workspace, "src", "x"), "x")
	ask := func(command, answer string) int {
		must(t, h.model.Use(llmtest.Script{Rules: []llmtest.Rule{
			{Match: "^begin", Tools: []llmtest.Call{call("run_command", args{"command": command})}},
			{After: ".", Reply: "Done."},
		}, Default: "Hello."}))
		return len(h.say("local/always", "begin", answer).questions)
	}
	if n := ask("touch one; true", "always"); n != 1 {
		t.Fatalf("%d questions at first", n)
	}
	for command, want := range map[string]int{"touch one; true": 0, "touch one ; true": 1, "touch two; true": 1, "touch one; true; id": 1, "cd src && touch one; true": 1} {
		if n := ask(command, "no"); n != want {
			t.Errorf("%q: %d questions, want %d", command, n, want)
		}
	}
}
