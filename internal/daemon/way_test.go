//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
)

// no is a gate that denies everything and remembers what it was asked.
type no struct {
	mu    sync.Mutex
	asked map[string]int
}

func (n *no) Judge(_ context.Context, r tool.Request) mercury.Judgement {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[r.Tool]++
	return mercury.Judgement{Verdict: mercury.Deny, Rule: "test", Why: "everything is denied"}
}

// arguments fills a tool's schema with values that would do something.
func arguments(t *testing.T, schema json.RawMessage, values map[string]string) json.RawMessage {
	t.Helper()
	type node struct {
		Type       any   `json:"type"`
		Enum       []any `json:"enum"`
		Properties map[string]json.RawMessage
		Required   []string
		Items      json.RawMessage
	}
	var value func(name string, schema json.RawMessage) any
	value = func(name string, schema json.RawMessage) any {
		var n node
		if len(schema) > 0 {
			if err := json.Unmarshal(schema, &n); err != nil {
				return nil // such as the schema "true"
			}
		}
		if len(n.Enum) > 0 {
			return n.Enum[0]
		}
		kind, _ := n.Type.(string)
		if list, ok := n.Type.([]any); ok && len(list) > 0 {
			kind, _ = list[len(list)-1].(string)
		}
		switch kind {
		case "object":
			out := map[string]any{}
			for _, name := range n.Required {
				out[name] = value(name, n.Properties[name])
			}
			return out
		case "array":
			return []any{value(name, n.Items)}
		case "integer", "number":
			return 1
		case "boolean":
			return true
		}
		if v, ok := values[name]; ok {
			return v
		}
		return "canary"
	}
	b, err := json.Marshal(value("", schema))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func files(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Every tool that a house is built with, whoever lends it, is behind the gate:
// where the gate denies everything, no call has any effect.
func TestNoToolReachesTheWorldAroundTheGate(t *testing.T) {
	var reached atomic.Int64
	world := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer world.Close()
	root := t.TempDir()
	workspace := filepath.Join(root, "workspace")
	home, err := config.HomeAt(filepath.Join(root, "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := home.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "there.txt"), []byte("old text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Workspace = workspace
	kept, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	p := newProfiles(c, home, newSecrets(c, ""), nil, kept, "node_test", sandbox.New(sandbox.Options{}), slog.New(slog.DiscardHandler))
	sch := someSchedule(t, p, kept)
	given := map[string]string{"schedule_task": `{"when":"every day at 9","description":"canary","prompt":"canary"}`,
		"update_scheduled_task": `{"id":"` + sch + `","prompt":"canary"}`, "cancel_scheduled_task": `{"id":"` + sch + `"}`,
		"install_skill": `{"content":"---\nname: canary\ndescription: x\n---\nx"}`}
	gate := &no{asked: map[string]int{}}
	set, err := newOutside(c, home, workspace, "test", kept, p.gate, http.DefaultTransport).tools(t.Context(), gate, p.core, p.more)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Names()) < 25 {
		t.Fatalf("only the tools %v", set.Names())
	}
	before := files(t, root)
	values := map[string]string{"path": "there.txt", "to": "moved.txt", "content": "canary", "old": "old text", "new": "canary", "old_string": "old text", "new_string": "canary",
		"command": "touch canary; curl -s " + world.URL, "url": world.URL, "pattern": "old", "query": "canary", "text": "canary", "question": "canary?"}
	for _, x := range set.Tools() {
		spec := x.Spec()
		call := tool.Call{ID: "c1", RunID: "run_1", ConversationID: "local/x", Name: spec.Name, Args: arguments(t, spec.Schema, values),
			Mandate: mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner, ID: "owner", Channel: "local"}, Mode: "allow-all", Interactive: true,
				Scopes: []mercury.Scope{{Path: workspace, Read: true, Write: true, Delete: true}}, Workspace: workspace, Destination: "local/x"},
			Outputs: filepath.Join(root, "outputs")}
		if args, ok := given[spec.Name]; ok {
			call.Args = []byte(args)
		}
		prepared := set.Prepare(t.Context(), call)
		if prepared.Run != nil || prepared.Question != nil || prepared.Probe != nil || prepared.Output == nil {
			t.Errorf("%s can be run past a gate that denies: %+v", spec.Name, prepared)
		}
		if gate.asked[spec.Name] == 0 {
			t.Errorf("%s was not put before the gate: %s", spec.Name, prepared.Output.Text)
		}
	}
	if after := files(t, root); !maps.Equal(before, after) {
		t.Errorf("files changed: %v", slices.Sorted(maps.Keys(after)))
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests left", n)
	}
	err = kept.View(t.Context(), func(tx store.Tx) error {
		all, _, err := tx.Schedules(store.Page{})
		if len(all) != 1 || all[0].ID != sch || all[0].Text != "x" || all[0].State != store.ScheduleActive {
			t.Errorf("schedules changed: %+v", all)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
