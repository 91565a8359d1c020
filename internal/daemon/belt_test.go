package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
)

// beltMax is what prompt and tools of a first request may weigh, in bytes: with
// the message and the wire's own words it stays below 8 KB.
const beltMax = 7 << 10

func belt(t *testing.T) (*profiles, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, err := config.HomeAt(filepath.Join(dir, "home"))
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), home.Dir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := newProfiles(&config.Config{Workspace: work}, home, noSecrets(), nil, s, "node_x", sandbox.New(sandbox.Options{}), slog.New(slog.DiscardHandler))
	someSchedule(t, p, s)
	return p, work
}

// someSchedule gives the profiles schedules, and one of them that is called
// canary.
func someSchedule(t *testing.T, p *profiles, s store.Store) (id string) {
	t.Helper()
	e := engine.New(s, engine.Options{})
	c := &current{}
	c.now.Store(p)
	p.schedules = newSchedules(c, p, e, nil, "node_x", 0, slog.New(slog.DiscardHandler))
	sch, err := p.schedules.New(schedule.Draft{Name: "canary", When: "@daily", Prompt: "x"}, mercury.Actor{Role: mercury.Owner}, "local/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Update(t.Context(), "test", func(tx *engine.Tx) error { return p.schedules.Add(tx, sch) }); err != nil {
		t.Fatal(err)
	}
	return sch.ID
}

func TestTheFirstRequestIsSmallAndTheRestIsFound(t *testing.T) {
	p, _ := belt(t)
	specs := p.tools.Specs(nil)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	want := []string{"ask_user", "edit_file", "find_files", "find_tools", "list_dir", "read_file", "run_command", "save_memory", "search_text", "use_skill", "write_file"}
	if !slices.Equal(names, want) {
		t.Errorf("always sent: %v", names)
	}
	b, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	n := len(b) + len(strings.Join(p.mind.soul.System(), "\n"))
	t.Logf("%d bytes, %d tools in all", n, len(p.tools.Tools()))
	if n > beltMax {
		t.Errorf("%d bytes, at most %d are allowed", n, beltMax)
	}
}

// Arguments with which each tool would do something if it could.
var acts = map[string]string{
	"read_file": `{"path":"a.txt"}`, "write_file": `{"path":"b.txt","content":"x"}`, "edit_file": `{"path":"a.txt","old_string":"one","new_string":"two"}`,
	"list_dir": `{}`, "find_files": `{"pattern":"*"}`, "search_text": `{"pattern":"one"}`, "run_command": `{"command":"touch c"}`,
	"delete_file": `{"path":"a.txt"}`, "move_file": `{"from":"a.txt","to":"d.txt"}`, "cd": `{"path":"."}`, "approve_scope": `{"path":"."}`,
	"send_message": `{"text":"x"}`, "send_file": `{"path":"a.txt"}`, "git_add": `{"paths":["a.txt"]}`, "git_commit": `{"message":"x"}`,
	"git_push": `{}`, "git_status": `{}`, "git_diff": `{}`, "git_log": `{}`, "git_show": `{}`, "git_branch": `{}`,
	"schedule_task": `{"when":"every day at 9","description":"x","prompt":"y"}`, "update_scheduled_task": `{"id":"canary","prompt":"y"}`,
	"cancel_scheduled_task": `{"id":"canary"}`,
	"install_skill":         `{"content":"---\nname: canary\ndescription: x\n---\nx"}`,
}

// harmless are the tools that touch nothing but what is the conversation's own.
var harmless = []string{"find_tools", "ask_user", "budget_status", "background", "list_scheduled_tasks",
	"save_memory", "search_memory", "search_history", "use_skill", "list_skills"}

func TestNoToolActsForACallerThatForgotTheGate(t *testing.T) {
	p, work := belt(t)
	for _, x := range p.tools.Tools() {
		name := x.Spec().Name
		if slices.Contains(harmless, name) {
			continue
		}
		args, ok := acts[name]
		if !ok {
			t.Errorf("%s: nothing here says how to try it", name)
			continue
		}
		if err := os.WriteFile(filepath.Join(work, "a.txt"), []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		// As a caller that forgot the gate: nothing was granted.
		c := tool.Call{ID: "c", RunID: "r", ConversationID: "local/x", Name: name, Args: []byte(args), Granted: []mercury.Access{},
			Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Mode: "allow-all", Interactive: true, Workspace: work,
				Scopes: []mercury.Scope{{Path: work, Read: true, Write: true}}}}
		out, err := x.Run(t.Context(), c)
		if err == nil && !out.IsError {
			t.Errorf("%s ran: %s", name, out.Text)
		}
		entries, err := os.ReadDir(work)
		if err != nil || len(entries) != 1 || entries[0].Name() != "a.txt" {
			t.Errorf("%s left %v, %v", name, entries, err)
		}
		if b, _ := os.ReadFile(filepath.Join(work, "a.txt")); string(b) != "one\n" {
			t.Errorf("%s changed the file to %q", name, b)
		}
	}
}
