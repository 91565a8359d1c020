//go:build unix

package field

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// A command in the background does not outlive a Mercury that was killed, and
// the next life says what became of it: to the person, in the conversation for
// the model, and in the list.
func TestABackgroundCommandOfAKilledMercuryIsEndedAndSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "launch", Tools: []llmtest.Call{{Name: "run_command", Args: []byte(`{"command":"echo $$ > pid; exec sleep 600","background":true}`)}}},
		{After: ".", Reply: "It runs."},
	}})
	h.live()
	h.say("talk", "launch it", "follow-up")
	h.answer(h.question("local/talk"), "once")
	h.quiet("local/talk", 1)
	h.until("the command to run", func() bool { return strings.HasSuffix(h.file("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(h.file("pid")))
	if err != nil {
		t.Fatal(err)
	}
	h.life.kill()
	h.live()
	h.until("the command to be gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	h.until("its row to say so", func() bool {
		jobs, err := h.client.Jobs(brief(t), nil)
		return err == nil && len(jobs.Items) == 1 && jobs.Items[0].State == "stopped" && jobs.Items[0].Reason == "Mercury was restarted"
	})
	notes := strings.Join(h.texts("local/talk", mercury.NoteEntry), "\n")
	if !strings.Contains(notes, "was ended: Mercury was restarted") {
		t.Errorf("the conversation holds %q", notes)
	}
	told := 0
	for _, d := range h.deliveries("local/talk", "sent") {
		if strings.Contains(d.Text, "was ended: Mercury was restarted") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	h.sound()
}

// A command that a person allowed computes the path of Mercury's own folder,
// so that no word of it says where it goes. It finds nothing there and changes
// nothing, and it does what it was allowed for.
func TestAnAllowedCommandDoesNotReachMercurysFolderHoweverItNamesIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{})
	up := filepath.Dir(h.home.Dir())
	if err := os.WriteFile(filepath.Join(up, "letter.txt"), []byte("a letter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `cd "` + up + `"; cat letter.txt; for d in h*; do cat "$d/token" "$d/mercury.yaml" "$d/mercury.db"; echo x > "$d/token"; rm -f "$d/token" "$d/mercury.db"; ln "$d/token" here; mv "$d" moved; done; exit 3`
	b, err := json.Marshal(map[string]any{"command": script, "outside_fence": true})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.model.Use(llmtest.Script{Rules: []llmtest.Rule{
		{Match: "look", Tools: []llmtest.Call{{Name: "run_command", Args: b}}},
		{After: ".", Reply: "Done."},
	}}); err != nil {
		t.Fatal(err)
	}
	h.live()
	st, err := h.client.Status(brief(t))
	if err != nil {
		t.Fatal(err)
	}
	h.until("what this system can hide", func() bool {
		if now, err := h.client.Status(brief(t)); err == nil {
			st = now
		}
		return st.Veil != ""
	})
	if st.Veil == "none" {
		testenv.Missing(t, "a way to hide a folder from commands", "allow user namespaces, or run a kernel with Landlock")
	}
	token, err := os.ReadFile(h.home.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	h.say("talk", "look around", "follow-up")
	h.answer(h.question("local/talk"), "once")
	if run := h.quiet("local/talk", 1)[0]; run.State != "done" {
		t.Errorf("the run is %s: %s", run.State, run.Error)
	}
	var result string
	for _, e := range h.entries("local/talk") {
		if e.Kind == "tool_result" {
			result = e.Result
		}
	}
	if !strings.Contains(result, "a letter") || !strings.Contains(result, "[exit code 3]") {
		t.Errorf("it did not do what it was allowed for: %s", result)
	}
	for what, secret := range map[string]string{"the token": strings.TrimSpace(string(token)), "the configuration": "base_url", "the database": "SQLite format"} {
		if strings.Contains(result, secret) {
			t.Errorf("it printed %s", what)
		}
	}
	if now, err := os.ReadFile(h.home.TokenFile()); err != nil || string(now) != string(token) {
		t.Errorf("the token is %q now, %v", now, err)
	}
	h.sound()
}
