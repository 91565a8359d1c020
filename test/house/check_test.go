//go:build unix

package house

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// forgeries are faults as a Mercury that broke its word would leave them, and
// a piece of what Check says about each.
var forgeries = []struct {
	name, sql string
	outside   func(*testing.T, *World)
	want      string
}{
	{"a lost message", `DELETE FROM input WHERE text = 'once: hurry'`, nil, `"once: hurry" was taken and is lost`},
	{"a message that was placed twice", `INSERT INTO entry SELECT conversation_id, seq + 1000, id || 'x', kind, run_id, round, call_id, actor, text, data, hidden, taint, at FROM entry WHERE text = 'flaky: try'`, nil, `"flaky: try" is in its conversation 2 times`},
	{"a message without an answer", `DELETE FROM entry WHERE text = 'duo: blue it is'`, nil, `"duo: work" is done and has no answer`},
	{"a message that waits for ever", `UPDATE input SET state = 'queued' WHERE text = 'flaky: try'`, nil, `an input is left open`},
	{"a command that was not answered", `DELETE FROM delivery WHERE kind = 'command' AND channel = 'local'`, nil, `command "/status" has 0 replies`},
	{"a run that nobody has", `UPDATE run SET state = 'running' WHERE conversation_id = 'local/flaky'`, nil, `a run is left live`},
	{"a cost below nothing", `UPDATE ledger SET output_tokens = -1 WHERE id = (SELECT min(id) FROM ledger)`, nil, `a ledger row is negative`},
	{"a cost left out", `DELETE FROM ledger WHERE conversation_id = 'local/flaky'`, nil, `not in the ledger`},
	{"a call whose result is gone", `DELETE FROM entry WHERE kind = 'tool_result' AND conversation_id = 'local/reads'`, nil, `has no result`},
	{"a receipt for what was never shown", `UPDATE delivery SET id = id || 'x' WHERE channel = 'relay' AND kind = 'answer'`, nil, `is sent, shown: false`},
	{"a command that ran twice", ``, func(t *testing.T, w *World) { appendTo(t, w.Path("once.canary")) }, `ran 2 times`},
	{"an effect that was promised and is not there", ``, func(t *testing.T, w *World) { remove(t, w.Path("duo.canary")) }, `is done and left 0 marks`},
	{"an unknown effect of which the model heard nothing", `UPDATE step SET state = 'unknown' WHERE name = 'run_command'`, nil, `is unknown and the model was told`},
	{"an answer that was shown twice", ``, showAgain, `shown 2 times`},
	{"a request that a strict model refuses", ``, askBadly, `refused a request`},
}

func TestChecksFindEachBrokenPromise(t *testing.T) {
	program := Program{Tags: "crashpoints"}.Build(t)
	w := NewWorld(t, SceneScript(), "")
	h := w.NewHouse(program)
	ctx, done := Patience()
	defer done()
	if ok, err := h.Start(); err != nil || !ok {
		t.Fatal(err)
	}
	if err := w.Play(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	if faults := w.Check(ctx); len(faults) > 0 {
		t.Fatalf("faults before any was forged: %v", faults)
	}
	database := filepath.Join(h.Home, sqlite.FileName)
	whole, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range forgeries {
		t.Run(tt.name, func(t *testing.T) {
			if tt.sql != "" {
				forge(t, database, tt.sql)
				defer func() {
					for _, suffix := range []string{"-wal", "-shm"} {
						os.Remove(database + suffix)
					}
					if err := os.WriteFile(database, whole, 0o600); err != nil {
						t.Fatal(err)
					}
				}()
			}
			if tt.outside != nil {
				tt.outside(t, w)
			}
			faults := strings.Join(w.Check(context.Background()), "\n")
			if !strings.Contains(faults, tt.want) {
				t.Errorf("want %q among:\n%s", tt.want, faults)
			}
		})
	}
}

func forge(t *testing.T, database, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	res, err := db.Exec(statement)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("the forgery changed %d rows: %v", n, err)
	}
}

func appendTo(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("mark\n"); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// showAgain repeats to the bridge the first message it has shown.
func showAgain(t *testing.T, w *World) {
	t.Helper()
	post(t, w.relayURL+"/messages", w.Relay.Sent()[0])
}

// askBadly asks the model with a result that belongs to no call.
func askBadly(t *testing.T, w *World) {
	t.Helper()
	post(t, w.Model.URL+"/v1/chat/completions", map[string]any{"model": "one", "messages": []map[string]string{
		{"role": "user", "content": "hello"}, {"role": "tool", "tool_call_id": "none", "content": "x"}}})
}

func post(t *testing.T, url string, body any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url, "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}
