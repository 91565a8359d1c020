//go:build unix

package field

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

// asks is a model that runs a command when it is told to go, and then says
// what came of it.
var asks = llmtest.Script{Rules: []llmtest.Rule{
	{Match: "go", Tools: []llmtest.Call{command("echo ran >> ran.txt; sh -c 'echo twice >> ran.txt'")}},
	{After: ".", Reply: "Then: {{tool}}"},
}, Default: "So: {{user}}"}

func TestF100_AnAnswerReachesTheRunThatWaitsForIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asks).start()
	h.bridge.Push("room", "go")
	h.question("relay/room")
	h.showedAny("room", "- /yes: Once")
	began := time.Now()
	h.bridge.Push("room", "/status")
	h.showedAny("room", "/yes or /no")
	h.bridge.Push("room", "/yes")
	h.showedAny("room", "Then:")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := h.file("ran.txt"); got != "ran\ntwice\n" {
		t.Errorf("the command left %q", got)
	}
	h.sound()
}

func TestF101_WhereNobodyCanBeAskedTheRefusalComesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asks).start()
	h.bridge.PushFrom("ben", "hall", "go")
	said := h.showed("hall", 1)
	if len(said) != 1 || !strings.Contains(said[0], "Then: ") || !strings.Contains(said[0], "Not permitted: the role member may not run") {
		t.Errorf("said %q", said)
	}
	page, err := h.client.Questions(brief(t), true)
	if err != nil || len(page.Items) != 0 {
		t.Errorf("questions: %+v, %v", page.Items, err)
	}
	if got := h.file("ran.txt"); got != "" {
		t.Errorf("the command left %q", got)
	}
	if run := h.quiet("relay/hall", 1)[0]; run.State != "done" {
		t.Errorf("run is %s: %s", run.State, run.Error)
	}
	h.sound()
}

func TestF103_OnlyAPersonsWordSettlesAQuestionAndItIsKeptWhose(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asks).start()
	h.bridge.Push("room", "go")
	q := h.question("relay/room")
	// Programs come and look; people who may not decide speak.
	ctx, away := context.WithCancel(t.Context())
	for _, err := range h.client.Events(ctx, "", "", away) {
		if err != nil {
			break
		}
	}
	away()
	if _, err := h.client.Questions(brief(t), true); err != nil {
		t.Fatal(err)
	}
	h.taken(h.bridge.PushFrom("ben", "room", "/yes"))
	h.taken(h.bridge.PushFrom("ben", "room", "yes"))
	h.taken(h.bridge.PushFrom("ann", "room", "yes"))
	if still := h.question("relay/room"); still.ID != q.ID || still.State != "open" {
		t.Fatalf("the question is %+v", still)
	}
	if got := h.file("ran.txt"); got != "" {
		t.Fatalf("the command left %q", got)
	}
	h.stop()
	h.start() // the question waits over a restart
	h.taken(h.bridge.PushFrom("ann", "room", "/yes once "+q.ID))
	h.until("the command to run", func() bool { return h.file("ran.txt") == "ran\ntwice\n" })
	page, err := h.client.Questions(brief(t), true)
	if err != nil || len(page.Items) != 1 || page.Items[0].AnsweredBy != "ann" || page.Items[0].AnsweredVia != "relay" || page.Items[0].Answer != "once" {
		t.Errorf("questions: %+v, %v", page.Items, err)
	}
	if e := refusalOf(h.client.Answer(brief(t), q.ID, "no")); e == nil || e.Status != 409 || !strings.Contains(e.Detail, "ann") {
		t.Errorf("a second answer: %v", e)
	}
	h.sound()
}

func TestF109_NothingButAYesIsOne(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"no", "maybe", "Y E S", " ", "once, then always"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, asks).start()
			h.say("talk", "go", "follow-up")
			q := h.question("local/talk")
			if _, err := h.client.Answer(brief(t), q.ID, answer); err != nil {
				// A word that is no answer leaves the question open.
				if still := h.question("local/talk"); still.State != "open" {
					t.Errorf("refused, and the question is %s", still.State)
				}
				return
			}
			h.quiet("local/talk", 1)
			if got := h.file("ran.txt"); got != "" {
				t.Errorf("the command left %q", got)
			}
		})
	}
}

func TestApprovalsAreAskedAndUsedOnceAndTogether(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{command("echo one >> ran.txt"), command("echo two >> ran.txt"), call("list_dir", map[string]string{"path": "."})}},
		{After: ".", Reply: "Both.", Times: 1},
	}}).start()
	h.bridge.Push("room", "go")
	h.until("two questions", func() bool {
		page, err := h.client.Questions(brief(t), false)
		return err == nil && len(page.Items) == 2
	})
	h.bridge.Push("room", "/yes once")
	h.showedAny("room", "Both.")
	got := strings.Fields(h.file("ran.txt"))
	slices.Sort(got)
	if !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("the commands left %q", got)
	}
	h.sound()
}
