//go:build unix

package field

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// plan adds a schedule.
func (h *house) plan(d schedule.Draft) api.Schedule {
	h.t.Helper()
	s, err := h.client.AddSchedule(brief(h.t), client.Draft{Draft: d})
	if err != nil {
		h.t.Fatalf("add a schedule: %v", err)
	}
	return s
}

// became waits until a schedule has n occurrences, none at work, and returns
// them, the oldest first.
func (h *house) became(id string, n int) []api.Occurrence {
	h.t.Helper()
	var rows []api.Occurrence
	h.until(fmt.Sprintf("%d occurrences of %s", n, id), func() bool {
		page, err := h.client.Occurrences(h.t.Context(), id, nil)
		if err != nil {
			return false
		}
		rows = page.Items
		return len(rows) >= n && !slices.ContainsFunc(rows, func(o api.Occurrence) bool { return o.EndedAt == nil })
	})
	slices.Reverse(rows)
	return rows
}

func (h *house) now(id string) {
	h.t.Helper()
	if _, err := h.client.RunSchedule(brief(h.t), id, false); err != nil {
		h.t.Fatalf("run %s: %v", id, err)
	}
}

func TestF34_AScheduleThatWasAddedIsThereAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).live()
	s := h.plan(schedule.Draft{Name: "digest", When: "every weekday at 8", Prompt: "what is new?"})
	h.life.kill()
	h.live()
	page, err := h.client.Schedules(brief(t), nil)
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != s.ID || page.Items[0].Next[0] != s.Next[0] {
		t.Errorf("after the kill: %+v, %v", page.Items, err)
	}
}

func TestF41_AModelThatFailsIsNoScheduleThatRan(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: "401"}}}).start()
	s := h.plan(schedule.Draft{Name: "digest", When: "@yearly", Prompt: "what is new?", Destination: "relay/room"})
	h.now(s.ID)
	o := h.became(s.ID, 1)[0]
	if o.Outcome != "failed" || o.Reason == "" {
		t.Errorf("it is %s, %s: %s", o.State, o.Outcome, o.Reason)
	}
	if said := h.showed("room", 1); !strings.Contains(said[0], "reason: provider_auth") {
		t.Errorf("said %q", said)
	}
	h.now(s.ID)
	h.became(s.ID, 2)
	h.showedAny("room", "failed twice in a row")
}

func TestF43_AnAnswerThatAFilterEmptiedIsAFailure(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Fault: llmtest.ContentFilter, Any: true}}}).start()
	s := h.plan(schedule.Draft{Name: "digest", When: "@yearly", Prompt: "what is new?", Destination: "relay/room"})
	h.now(s.ID)
	if o := h.became(s.ID, 1)[0]; o.Outcome != "failed" || o.Reason == "" {
		t.Errorf("it is %s, %s: %s", o.State, o.Outcome, o.Reason)
	}
	h.showed("room", 1)
}

func TestF44_WithoutADestinationTheResultIsReadAtHome(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "news", Reply: "None.", Times: 1}, {Match: "news", Fault: "401"}}}).start()
	s := h.plan(schedule.Draft{Name: "digest", When: "@yearly", Prompt: "news?"})
	h.now(s.ID)
	h.became(s.ID, 1)
	if got := h.texts("local/default", "note"); !slices.Equal(got, []string{"None."}) {
		t.Errorf("read at home: %q", got)
	}
	h.now(s.ID)
	h.became(s.ID, 2)
	if got := h.texts("local/default", "note"); len(got) != 2 || !strings.HasPrefix(got[1], "digest: ") {
		t.Errorf("a failure: %q", got)
	}
}

func TestF46_AToolThatFailsOnTheWayLosesNoResult(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "report", Tools: []llmtest.Call{{Name: "read_file", Args: json.RawMessage(`{"path":"nothing.txt"}`)}}},
		{After: ".", Reply: "The report: all well."},
	}}).start()
	s := h.plan(schedule.Draft{Name: "report", When: "@yearly", Prompt: "report", Destination: "relay/room"})
	h.now(s.ID)
	if o := h.became(s.ID, 1)[0]; o.State != "ran" || o.Outcome != "done" {
		t.Errorf("it is %s, %s: %s", o.State, o.Outcome, o.Reason)
	}
	if said := h.showed("room", 1); said[0] != "The report: all well." {
		t.Errorf("said %q", said)
	}
	h.sound()
}

func TestF50_ADeliveryThatFailsIsSentAgainAndTheWorkIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "dear", Reply: "Done at great cost."}}}).start()
	h.bridge.Fail(relaytest.Unavailable, relaytest.Flood, relaytest.Unavailable)
	s := h.plan(schedule.Draft{Name: "dear", When: "@yearly", Prompt: "dear work", Destination: "relay/room"})
	h.now(s.ID)
	if said := h.showed("room", 1); said[0] != "Done at great cost." {
		t.Errorf("said %q", said)
	}
	if n := len(h.model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	if rows := h.became(s.ID, 1); len(rows) != 1 || rows[0].Outcome != "done" {
		t.Errorf("rows %+v", rows)
	}
}

func TestAQuestionOfAScheduleWaitsForTheOwnerAndMoreThanThreeAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, asks).start()
	var all []api.Schedule
	for i := range 4 {
		s := h.plan(schedule.Draft{Name: fmt.Sprint("job ", i), When: "@yearly", Prompt: "go", Destination: "relay/room"})
		all = append(all, s)
		h.now(s.ID)
		if i < 3 {
			q := h.question(s.ConversationID)
			if life := q.ExpiresAt.Sub(q.CreatedAt); life < 11*time.Hour || life > 13*time.Hour {
				t.Errorf("the question lives %v", life)
			}
		}
	}
	// The fourth is refused at once, and goes on without.
	if o := h.became(all[3].ID, 1)[0]; o.Outcome != "done" {
		t.Errorf("the fourth is %s, %s: %s", o.State, o.Outcome, o.Reason)
	}
	h.showedAny("room", "nobody can be asked here")
	h.answer(h.question(all[0].ConversationID), "once")
	h.became(all[0].ID, 1)
	if got := h.file("ran.txt"); got != "ran\ntwice\n" {
		t.Errorf("the command left %q", got)
	}
	h.sound()
}

func TestARehearsalSettlesWhatAScheduleMayDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "go", Tools: []llmtest.Call{command("touch ran.txt")}},
		{After: ".", Reply: "Then: {{tool}}"},
	}}).start()
	s := h.plan(schedule.Draft{Name: "job", When: "@yearly", Prompt: "go", Destination: "relay/room"})
	if _, err := h.client.RunSchedule(brief(t), s.ID, true); err != nil {
		t.Fatal(err)
	}
	h.answer(h.question(s.ConversationID), "once")
	if o := h.became(s.ID, 1)[0]; !o.Rehearsal || o.Outcome != "done" {
		t.Errorf("the rehearsal is %+v", o)
	}
	if err := os.Remove(filepath.Join(h.workspace, "ran.txt")); err != nil {
		t.Fatal(err)
	}
	h.now(s.ID) // unwatched, and nobody is asked
	if o := h.became(s.ID, 2)[1]; o.Outcome != "done" {
		t.Errorf("then it is %s, %s: %s", o.State, o.Outcome, o.Reason)
	}
	if _, err := os.Stat(filepath.Join(h.workspace, "ran.txt")); err != nil {
		t.Errorf("what was granted was not done: %v", err)
	}
	h.sound()
}

// R44: what was sent bears the name of its schedule and its time, so that a
// second attempt of the same occurrence is the same message.
func TestARemindersDeliveryIsNamedAfterItsTime(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	s := h.plan(schedule.Draft{When: "in 1 second", Send: "The tea is ready.", Destination: "relay/room"})
	if said := h.showed("room", 1); said[0] != "The tea is ready." {
		t.Errorf("said %q", said)
	}
	h.became(s.ID, 1)
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	h.stop()
	h.start()
	h.quiet(s.ConversationID, 0)
	if n := len(h.shown("room")); n != 1 {
		t.Errorf("shown %d times", n)
	}
}

func TestF140_StatusAnswersAtOnceWithFortySchedules(t *testing.T) {
	h := newHouse(t, llmtest.Script{}).live()
	for i := range 40 {
		h.plan(schedule.Draft{Name: fmt.Sprint(i), When: "every weekday at 8", Prompt: "what is new?"})
	}
	// Against a command that asks nobody, run in turn with it, so that a busy
	// machine slows both.
	best := map[string]time.Duration{"status": time.Hour, "version": time.Hour}
	for range 5 {
		for command := range best {
			began := time.Now()
			if code, out := h.run(command); code != 0 {
				t.Fatalf("%s: code %d: %s", command, code, out)
			}
			best[command] = min(best[command], time.Since(began))
		}
	}
	t.Logf("at best %v", best)
	if more := best["status"] - best["version"]; more > 150*time.Millisecond {
		t.Errorf("status takes %v longer than version", more)
	}
}

// resident is the memory of a process, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		testenv.Missing(t, "/proc", "run the test on Linux")
	}
	var all, pages int64
	if _, err := fmt.Sscan(string(b), &all, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestF137_FiveHundredSessionsLeaveMemoryAndDiskAsTheyWere(t *testing.T) {
	h := newHouse(t, llmtest.Script{Default: "Noted."}).live()
	talk := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprintf("session-%d", i)
			h.say(name, "hello", "")
			if i%50 == 49 {
				h.quiet("local/"+name, 1)
			}
		}
		h.until("all runs to end", func() bool {
			st, err := h.client.Status(h.t.Context())
			if err != nil {
				return false
			}
			for name, lane := range st.Lanes { // lessons wait ten minutes
				if name != "quiet" && lane.Queued+lane.Running > 0 {
					return false
				}
			}
			return true
		})
	}
	s := h.plan(schedule.Draft{Name: "tick", When: "@seconds * * * * * *", Send: "tick"})
	talk(0, 100)
	early := resident(t, h.life.cmd.Process.Pid)
	talk(100, 500)
	late := resident(t, h.life.cmd.Process.Pid)
	t.Logf("after 100 sessions %d KB, after 500 %d KB", early>>10, late>>10)
	const most = 24 << 20
	if late-early > most {
		t.Errorf("memory grew by %d KB in 400 sessions", (late-early)>>10)
	}
	if late > 120<<20 {
		t.Errorf("the process holds %d KB", late>>10)
	}
	if _, err := h.client.RemoveSchedule(brief(t), s.ID); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(h.home.Dir(), "mercury.db"))
	if err != nil || info.Size() > 16<<20 {
		t.Errorf("the database: %v, %v", info.Size(), err)
	}
}

func TestWhatTheModelSchedulesIsShownFirstAndCanBeUndone(t *testing.T) {
	t.Parallel()
	task := func(args string) []llmtest.Call {
		return []llmtest.Call{{Name: "schedule_task", Args: json.RawMessage(args)}}
	}
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "remind", Tools: task(`{"delay_seconds":86400,"description":"tea","text":"The tea is ready."}`)},
		{Match: "digest", Tools: task(`{"when":"every weekday at 8","description":"digest","prompt":"what is new?","zone":"Asia/Tokyo"}`)},
		{Match: "nonsense", Tools: task(`{"when":"when pigs fly","description":"x","text":"y"}`)},
		{Match: "cancel", Tools: []llmtest.Call{{Name: "cancel_scheduled_task", Args: json.RawMessage(`{"id":"digest"}`)}}},
		{After: ".", Reply: "Then: {{tool}}"},
	}}).start()
	names := func() (out []string) {
		page, err := h.client.Schedules(h.t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		for _, s := range page.Items {
			out = append(out, s.Name)
		}
		return out
	}
	h.say("room", "remind me", "")
	h.quiet("local/room", 1)
	if got := names(); !slices.Equal(got, []string{"tea"}) {
		t.Errorf("a reminder: %v", got)
	}
	h.say("room", "digest please", "")
	q := h.question("local/room")
	for _, want := range []string{"Asia/Tokyo", "every weekday at 8 (0 8 * * 1-5)", "Next: ", "+0900", "Goes to: local/room", "Cost: unknown", "Alone it may not: "} {
		if !strings.Contains(q.Body, want) {
			t.Errorf("the card does not say %q:\n%s", want, q.Body)
		}
	}
	if got := names(); len(got) != 1 {
		t.Errorf("before the answer: %v", got)
	}
	h.answer(q, "once")
	h.quiet("local/room", 2)
	h.say("room", "nonsense", "")
	h.quiet("local/room", 3)
	if said := h.texts("local/room", "assistant"); !strings.Contains(said[len(said)-1], "cannot be read") {
		t.Errorf("of nonsense: %q", said)
	}
	h.say("room", "cancel it", "")
	run := h.quiet("local/room", 4)[3]
	if got := names(); !slices.Equal(got, []string{"tea"}) {
		t.Errorf("cancelled: %v", got)
	}
	u, err := h.client.Undo(brief(t), run.ID, "", true)
	if err != nil || len(u.Changes) != 1 || !u.Changes[0].Can {
		t.Errorf("undone: %+v, %v", u, err)
	}
	if got := names(); !slices.Equal(got, []string{"digest", "tea"}) {
		t.Errorf("after undo: %v", got)
	}
	h.sound()
}

func TestAWatchAsksOnlyAboutWhatChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "green", Reply: "HEARTBEAT_OK"}}, Default: "So: {{user}}"}).start()
	path := filepath.Join(h.workspace, "prices.txt")
	h.write(path, "tea 1\ncoffee 2\n")
	s := h.plan(schedule.Draft{Name: "prices", When: "@yearly", Prompt: "tell me", Watch: "prices.txt", Destination: "relay/room"})
	h.now(s.ID) // sees it for the first time
	h.became(s.ID, 1)
	h.now(s.ID)
	for _, o := range h.became(s.ID, 2) {
		if o.State != "skipped" {
			t.Errorf("without a change it is %s: %s", o.State, o.Reason)
		}
	}
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	h.write(path, "tea 1\ncoffee 3\n")
	h.now(s.ID)
	h.became(s.ID, 3)
	if said := h.showed("room", 1)[0]; !strings.Contains(said, "-coffee 2") || !strings.Contains(said, "+coffee 3") || strings.Contains(said, "+tea") {
		t.Errorf("said %q", said)
	}
	h.write(path, "tea green\ncoffee 3\n")
	h.now(s.ID)
	if o := h.became(s.ID, 4)[3]; o.Outcome != "silent" {
		t.Errorf("an acknowledgement: %s, %s", o.State, o.Outcome)
	}
	if n := len(h.shown("room")); n != 1 {
		t.Errorf("shown %d times", n)
	}
	h.sound()
}

func TestAHeartbeatAsksOnlyWhenSomethingChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "this is a heartbeat", Reply: "So: {{user}}"}}, Default: "Noted."})
	if err := os.MkdirAll(h.home.Soul(), 0o700); err != nil {
		t.Fatal(err)
	}
	h.write(filepath.Join(h.home.Soul(), "heartbeat.md"), "# Heartbeat\n\nWater the plants.\n")
	h.add("heartbeat: { every: 10h }\n").start()
	h.until("the heartbeat", func() bool {
		page, err := h.client.Schedules(h.t.Context(), nil)
		return err == nil && len(page.Items) == 1 && page.Items[0].Name == "heartbeat"
	})
	h.now("heartbeat")
	h.became("heartbeat", 1)
	if said := h.texts("local/default", "note"); len(said) != 1 || !strings.Contains(said[0], "Water the plants.") {
		t.Errorf("said %q", said)
	}
	h.now("heartbeat")
	if o := h.became("heartbeat", 2)[1]; o.State != "skipped" {
		t.Errorf("nothing changed, and it is %s, %s", o.State, o.Outcome)
	}
	h.say("room", "hello", "")
	run := h.quiet("local/room", 1)[0]
	h.now("heartbeat")
	h.became("heartbeat", 3)
	if said := h.texts("local/default", "note"); len(said) != 2 || !strings.Contains(said[1], "+"+run.ID) {
		t.Errorf("then %q", said)
	}
	h.stop()
	h.write(filepath.Join(h.home.Soul(), "heartbeat.md"), "# Heartbeat\n")
	h.start()
	h.until("the heartbeat to rest", func() bool {
		page, err := h.client.Schedules(h.t.Context(), nil)
		return err == nil && page.Items[0].State == "paused"
	})
	h.sound()
}
