package file

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

// fixtures are the tools by name, each with calls of every kind it knows.
var fixtures = map[string][]string{
	"read_file": {
		`{"path":"notes.txt"}`, `{"path":"long.txt","offset":"7","limit":3}`, `{"path":"blob.bin"}`, `{"path":"long.txt"}`,
	},
	"write_file": {
		`{"path":"new/deep/file.txt","content":"hello\n"}`, `{"path":"notes.txt","content":"changed\n"}`, `{"path":"notes.txt","content":"alpha\nbeta\ngamma\n"}`,
	},
	"edit_file": {
		`{"path":"notes.txt","old_string":"beta","new_string":"BETA"}`, `{"path":"long.txt","old_string":"many","new_string":"so many","replace_all":true}`,
	},
	"delete_file":   {`{"path":"notes.txt"}`, `{"path":"sub"}`, `{"path":"out.txt"}`},
	"move_file":     {`{"from":"notes.txt","to":"new/deep/file.txt"}`, `{"from":"sub","to":"sub2"}`},
	"cd":            {`{"path":"sub"}`, `{"path":"."}`},
	"approve_scope": {`{"path":"sub"}`, `{"path":".","write":true}`},
	"list_dir":      {`{}`, `{"path":"sub"}`},
	"find_files":    {`{"pattern":"*.txt"}`, `{"pattern":"**/deep.*","path":"."}`},
	"search_text":   {`{"pattern":"alpha"}`, `{"pattern":"LINE","ignore_case":true}`, `{"pattern":"CANARY|alpha","glob":"*.txt"}`, `{"pattern":"beta","path":"notes.txt"}`},
}

func fixture(name string) tooltest.Fixture {
	return tooltest.Fixture{Calls: fixtures[name], Tool: func(w tooltest.World) tool.Tool { return named(w, name) }}
}

func named(w tooltest.World, name string) tool.Tool {
	f := New(Options{Hidden: []string{w.Home}, Trash: filepath.Join(w.Outputs, "trash")})
	for _, t := range append(f.Core(), f.More()...) {
		if t.Spec().Name == name {
			return t
		}
	}
	panic("no tool " + name)
}

func TestToolsKeepTheContract(t *testing.T) {
	for name := range fixtures {
		t.Run(name, func(t *testing.T) { tooltest.Run(t, fixture(name)) })
	}
}

func FuzzReadArguments(f *testing.F)   { tooltest.Fuzz(f, fixture("read_file")) }
func FuzzEditArguments(f *testing.F)   { tooltest.Fuzz(f, fixture("edit_file")) }
func FuzzSearchArguments(f *testing.F) { tooltest.Fuzz(f, fixture("search_text")) }

// do prepares and runs one call with everything it states granted.
func do(t *testing.T, w tooltest.World, name, args string) tool.Output {
	t.Helper()
	return doCall(t, w, w.Call(name, args))
}

func doCall(t *testing.T, w tooltest.World, c tool.Call) tool.Output {
	t.Helper()
	tl := named(w, c.Name)
	granted, err := tl.Accesses(t.Context(), c)
	if err != nil {
		return tool.Error(err.Error())
	}
	c.Granted = granted
	out, err := tl.Run(t.Context(), c)
	if err != nil {
		return tool.Error(err.Error() + ". " + mercury.HelpOf(err))
	}
	return out
}

func args(format string, a ...any) string { return fmt.Sprintf(format, a...) }

func has(t *testing.T, out tool.Output, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(out.Text, p) {
			t.Errorf("%q is not in %q", p, out.Text)
		}
	}
}
