package main

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/arch"
)

func TestTheDiagramLeavesOutWhatALongerWayShows(t *testing.T) {
	got := draw(imports([]arch.Package{
		{Path: "internal/mercury"},
		{Path: "internal/store", Imports: map[string][]string{"internal/mercury": {"a.go"}}},
		{Path: "internal/store/storetest", Imports: map[string][]string{"internal/agent": {"a.go"}}},
		{Path: "internal/engine", Imports: map[string][]string{"internal/mercury": {"a.go"}, "internal/store": {"a.go"}}},
	}))
	for _, want := range []string{"| `engine` | queue, journal, outbox: nothing accepted is lost | mercury, store |", "engine --> store", "store --> mercury"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, wrong := range []string{"engine --> mercury", "agent"} {
		if strings.Contains(strings.ReplaceAll(got, "`agent`", ""), wrong) {
			t.Errorf("found %q in\n%s", wrong, got)
		}
	}
}

func TestOnlyTheMarkedSectionIsReplaced(t *testing.T) {
	got, err := replace("before\n"+begin+"old\n"+end+"after\n", "new\n")
	if want := "before\n" + begin + "\nnew\n\n" + end + "after\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replace("no marks", "new"); err == nil {
		t.Error("a document without marks passed")
	}
}
