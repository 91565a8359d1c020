//go:build unix

package field

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestF128_ABrokenConfigurationIsShownAtItsPlaceAndNeverLoops(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	good, err := os.ReadFile(h.home.Config())
	must(t, err)
	broken := strings.Replace(string(good), "permissions:", "permisions:", 1)
	line := strings.Count(broken[:strings.Index(broken, "permisions")], "\n") + 1
	place := fmt.Sprintf("mercury.yaml:%d:1:", line)

	h.write(h.home.Config(), broken)
	for _, command := range [][]string{{"serve"}, {"ask", "hello"}, {"config", "check"}} {
		code, out := h.run(command...)
		if code != 3 || !strings.Contains(out, place) || !strings.Contains(out, "permissions") {
			t.Errorf("mercury %v left with %d: %s", command, code, out)
		}
	}

	// Once it has run on a good one, it starts on the copy of that.
	h.write(h.home.Config(), string(good))
	h.live()
	h.life.kill()
	h.write(h.home.Config(), broken)
	h.live()
	h.showedLast("room", "hello", "So: hello")
	st, err := h.client.Status(brief(t))
	if err != nil || st.State != "degraded" || len(st.Problems) != 1 || !strings.Contains(st.Problems[0], place) {
		t.Errorf("status: %+v, %v", st.About, err)
	}
	if n := strings.Count(h.life.out.String(), place); n != 1 {
		t.Errorf("said %d times:\n%s", n, h.life.out)
	}
	if code, out := h.run("ask", "hello"); code != 0 { // it attaches to the one that runs
		t.Errorf("ask left with %d: %s", code, out)
	}
	h.life.kill()
	if code, out := h.run("ask", "hello"); code != 3 || !strings.Contains(out, place) {
		t.Errorf("a command alone left with %d: %s", code, out)
	}
	if now, err := os.ReadFile(h.home.Config()); err != nil || string(now) != broken {
		t.Error("the person's file was changed")
	}
}

func TestAConfigurationThatCannotWorkIsRefusedWithItsRemedy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, says string }{
		"a provider of nobody":     {"model: nowhere/x\n", "nowhere"},
		"a model without provider": {"model: x\n", "provider/model"},
		"a key that is not set":    {"model: a/x\nproviders:\n  a: { api: openai, base_url: \"http://127.0.0.1:1\", api_key: \"${NO_SUCH_KEY}\" }\n", "NO_SUCH_KEY"},
		"a value of another kind":  {"model: a/x\nlimits: { turn: { steps: many } }\n", "mercury.yaml:2:"},
		"no YAML":                  {"model: [a\n", "mercury.yaml:"},
		"a binary file":            {"\x00\x01\x02", "mercury.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{})
			h.write(h.home.Config(), tt.text)
			for _, args := range [][]string{{"serve"}, {"ask", "hello"}} {
				if code, out := h.run(args...); code != 3 || !strings.Contains(out, tt.says) || strings.Contains(out, "panic") {
					t.Errorf("mercury %v left with %d: %s", args, code, out)
				}
			}
		})
	}
}

func TestF134_ARunThatEndsItsProcessAgainAndAgainIsParkedAndSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "poison$", Fault: llmtest.Hang}}, Default: "So: {{user}}"})
	h.live()
	h.bridge.Push("room", "poison")
	lives := 0
	for ; lives < 10; lives++ {
		dead := func() bool { return len(h.runs("relay/room")) == 1 && h.runs("relay/room")[0].State == "dead" }
		if !within(patience, func() bool { return len(h.model.Requests()) > lives || dead() }) || dead() {
			break
		}
		h.life.kill()
		h.live()
	}
	run := h.quiet("relay/room", 1)[0]
	if lives != 5 || run.State != "dead" || run.Code != "poison" {
		t.Errorf("after %d lives the run is %s (%s)", lives, run.State, run.Code)
	}
	h.showedAny("room", "tried 5 times")
	h.bridge.Push("room", "and now?")
	h.showedAny("room", "and now?")
}

func TestF142_AKillUnderLoadLosesNothingAndLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: ".", Reply: "Looking.", Tools: []llmtest.Call{call("list_dir", map[string]string{"path": "."}), call("find_files", map[string]string{"pattern": "*"})}, TokenMS: 20},
		{After: ".", Reply: "Seen it all, and said so in some words.", TokenMS: 20}}})
	h.live()
	const talks = 12
	for i := range talks {
		h.say(fmt.Sprint("talk-", i), "look", "follow-up")
		h.say(fmt.Sprint("talk-", i), "look again", "follow-up")
	}
	for i := range 3 {
		h.asked(10 * (i + 1))
		h.life.kill()
		h.live()
	}
	for i := range talks {
		id := fmt.Sprint("local/talk-", i)
		for _, r := range h.quiet(id, 2) {
			if r.State != "done" {
				t.Errorf("%s: run is %s: %s", id, r.State, r.Error)
			}
		}
		if got := h.texts(id, mercury.UserEntry); !slices.Equal(got, []string{"look", "look again"}) {
			t.Errorf("%s: %q", id, got)
		}
		answers := 0
		for _, text := range h.texts(id, mercury.AssistantEntry) {
			if strings.HasPrefix(text, "Seen it all, and said so in some words.") {
				answers++
			}
		}
		if answers != 2 {
			t.Errorf("%s: %d answers\n%s", id, answers, h.dump())
		}
	}
	h.life.kill()
	damaged(t, h)
	h.sound()
}

func TestTwoRuntimesStartedAtOnceAreOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	var lives []*process
	for range 4 {
		lives = append(lives, h.spawn("serve"))
	}
	over := func() (n int) {
		for _, p := range lives {
			if p.over() {
				n++
			}
		}
		return n
	}
	if !within(patience, func() bool { return over() == 3 }) {
		t.Fatalf("%d of 4 left", over())
	}
	for _, p := range lives {
		if !p.over() {
			h.life = p
		} else if code := p.cmd.ProcessState.ExitCode(); code != 6 {
			t.Errorf("one left with %d: %s", code, p.out)
		}
	}
	h.attach()
	h.showedLast("room", "hello", "So: hello")
	if n := len(h.model.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	if code, out := h.run("ask", "from a command"); code != 0 || !strings.Contains(out, "So: from a command") {
		t.Errorf("ask left with %d: %s", code, out)
	}
}

func TestANewerSchemaIsRefusedWithItsRemedy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	h.say("talk", "hello", "follow-up")
	h.quiet("local/talk", 1)
	h.stop()
	h.kept(func(tx store.Tx) error { return tx.SetMeta("schema", "99") })
	for _, args := range [][]string{{"serve"}, {"ask", "hello"}, {"runs", "list"}} {
		if code, out := h.run(args...); code != 3 || !strings.Contains(out, "Start the newer Mercury") || strings.Contains(out, "panic") {
			t.Errorf("mercury %v left with %d: %s", args, code, out)
		}
	}
}

func TestIdlenessAsksNoModel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	h.showedLast("room", "hello", "ok")
	h.quiet("relay/room", 1)
	if within(3*time.Second, func() bool { return len(h.model.Requests()) > 1 }) {
		t.Error("an idle house asked its model")
	}
}

func TestAnUnreachableModelIsSaidOnceAndAnsweredByItself(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	d := &door{to: h.model.Server}
	d.open(t)
	h.configure("openai", d.url()+"/v1")
	d.shut()
	h.start()
	h.bridge.Push("room", "hello")
	h.showedAny("room", "Your message is kept; I answer when it is back.")
	h.bridge.Push("room", "are you there?")
	d.open(t)
	h.showedAny("room", "So: hello")
	h.quiet("relay/room", 1)
	got := h.shown("room")
	if len(got) != 2 || !strings.Contains(got[1], "are you there?") || len(h.model.Requests()) != 1 {
		t.Errorf("shown after %d requests: %q", len(h.model.Requests()), got)
	}
	if !strings.Contains(got[0], "nothing answers at its address") {
		t.Errorf("said %q", got[0])
	}
	plain(t, got[0])
	h.sound()
}

func TestAfterSixHoursOfSilenceItIsAskedWhetherTheAnswerIsWanted(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"yes", "no"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Fault: "503"}}}).start()
			h.bridge.Push("room", "hello")
			h.showedAny("room", "Your message is kept")
			run := h.runs("relay/room")[0]
			h.stop()
			h.kept(func(tx store.Tx) error { return outageSince(tx, run.ID, time.Now().Add(-7*time.Hour)) })
			h.hurry(run.ID)
			h.start()
			q := h.question("relay/room")
			if !strings.Contains(q.Title, "still wanted") {
				t.Errorf("asked %q", q.Title)
			}
			h.showedAny("room", "still wanted")
			must(t, h.model.Use(llmtest.Script{Default: "So: {{user}}"}))
			h.bridge.Push("room", answer)
			want := map[string]string{"yes": "So: hello", "no": "Dropped: the answer is no longer wanted."}[answer]
			h.showedAny("room", want)
			var got []api.Run
			if got = h.quiet("relay/room", 1); len(got) != 1 {
				t.Errorf("%d runs", len(got))
			}
		})
	}
}

// outageSince says that the model was found out of reach at another time.
func outageSince(tx store.Tx, runID string, at time.Time) error {
	steps, err := tx.Steps(runID)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.Kind == "wait" {
			if s.Output, err = at.MarshalJSON(); err != nil {
				return err
			}
			return tx.PutStep(s)
		}
	}
	return fmt.Errorf("run %s knows of no outage", runID)
}
