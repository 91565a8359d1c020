//go:build unix

package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

// What a command did to files of the workspace without a question is taken
// back with its run.
func TestWhatACommandDidToFilesIsUndone(t *testing.T) {
	within(t, func(t *testing.T, helper string) {
		h := newHome(t, llmtest.Script{}, "guided", "")
		h.helper = helper
		h.project()
		h.start()
		k := h.plan("local/a", "once", run("rm -rf notes; echo gone > README.md; echo x > new.txt"))
		if helper != "" && len(k.questions) > 0 {
			t.Errorf("asked %+v", k.questions)
		}
		if _, err := os.Stat(filepath.Join(h.workspace, "notes")); err == nil {
			t.Fatal("the command did nothing")
		}
		u, err := h.client.Undo(t.Context(), "last", "local/a", true)
		must(t, err)
		if len(u.Changes) != 4 || len(u.Cannot) != 1 {
			t.Errorf("undone %+v", u)
		}
		for name, want := range map[string]string{"README.md": "# A project\nteh import of a recipe\n", "notes/monday.md": "# Monday\n", "notes/tuesday.md": "# Tuesday: a recipe\n", "new.txt": ""} {
			if b, err := os.ReadFile(filepath.Join(h.workspace, name)); string(b) != want || (err == nil) != (want != "") {
				t.Errorf("%s holds %q, %v", name, b, err)
			}
		}
	})
}
