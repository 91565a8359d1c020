package arch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// root is the top of the repository as seen from this folder.
const root = "../.."

func TestImportsRunDown(t *testing.T) {
	packages, err := Read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 2 {
		t.Fatalf("found only %d packages", len(packages))
	}
	for _, fault := range Check(packages) {
		t.Error(fault)
	}
}

func TestCheckFindsImportsThatBreakARule(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to string
		want     string // part of the only sentence; empty: none
	}{
		{"down is fine", "internal/agent", "internal/engine", ""},
		{"far down is fine", "internal/daemon", "internal/mercury", ""},
		{"up is not", "internal/store/sqlite", "internal/engine", "runs up"},
		{"neighbours do not meet", "internal/soul", "internal/memory", "share a layer"},
		{"a driver knows its contract", "internal/store/sqlite", "internal/store", ""},
		{"a driver may share code with another", "internal/store/sqlite", "internal/store/sql", ""},
		{"a contract does not know its driver", "internal/store", "internal/store/sqlite", "does not know its drivers"},
		{"engine and models", "internal/engine", "internal/llm/openai", "knows no model"},
		{"engine and channels", "internal/engine", "internal/channel", "Sender"},
		{"engine and agent", "internal/engine", "internal/agent", "knows no model"},
		{"agent and channels", "internal/agent", "internal/channel/telegram", "where people talk"},
		{"agent and memory", "internal/agent", "internal/memory", "section of its profile"},
		{"agent and fleet", "internal/agent", "internal/fleet", "knows no bot"},
		{"a tool and the gate", "internal/tool/shell", "internal/permission", "asks the gate"},
		{"api and config", "internal/api", "internal/config", "options"},
		{"intake and config", "internal/intake", "internal/config", "options"},
		{"doctor reads config", "internal/doctor", "internal/config", ""},
		{"cmd reads config", "cmd/mercury", "internal/config", ""},
		{"the terminal is a client", "internal/tui", "internal/api/client", ""},
		{"the terminal is only a client", "internal/tui", "internal/store", "client of the API"},
		{"the program holds no suite", "internal/daemon", "internal/llm/llmtest", "for tests"},
		{"the program holds no testenv", "cmd/mercury", "internal/testenv", "for tests"},
		{"a program for tests may use its suite", "internal/llm/llmtest/scripted", "internal/llm/llmtest", ""},
		{"a suite may use another", "internal/store/storetest", "internal/testenv", ""},
		{"a measurement may use a scripted model", "bench", "internal/llm/llmtest", ""},
		{"a room nobody decided on", "internal/attic", "internal/mercury", "no line in internal/arch/arch.go"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{
				tt.from + "/x_windows.go": {Data: fmt.Appendf(nil, "package x\n\nimport _ %q\n", Module+"/"+tt.to)},
				tt.from + "/x_test.go":    {Data: []byte("package x\n\nimport _ \"" + Module + "/internal/daemon\"\n")},
			}
			packages, err := Read(tree)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(Check(packages), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.want != "" && !strings.Contains(got, tt.from) {
				t.Errorf("%q does not name %s", got, tt.from)
			}
		})
	}
}

func TestEveryRuleSpeaksOfRoomsThatTheTableKnows(t *testing.T) {
	height := heights()
	for _, r := range Rules {
		for _, name := range append([]string{r.From, r.Never}, r.But...) {
			if name != "" && height[name] == 0 {
				t.Errorf("rule %+v names %q, which is no room", r, name)
			}
		}
	}
}
