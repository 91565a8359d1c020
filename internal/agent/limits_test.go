package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestALimitIsReachedByStepsTokensOrTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		used   spend
		want   string
	}{
		{"nothing used", Limits{}, spend{}, ""},
		{"one step before the limit", Limits{}, spend{steps: 49, tokens: 299_999, running: 20*time.Minute - 1}, ""},
		{"steps", Limits{}, spend{steps: 50}, codeSteps},
		{"tokens", Limits{}, spend{tokens: 300_000}, codeTokens},
		{"time", Limits{}, spend{running: 20 * time.Minute}, codeTime},
		{"a limit of its own", Limits{Steps: 300}, spend{steps: 299}, ""},
		{"no limit", Limits{Steps: -1, Tokens: -1, Time: -1}, spend{steps: 1e6, tokens: 1e9, running: 1e15}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := tt.limits.withDefaults().over(tt.used); got != tt.want {
				t.Errorf("over(%+v) = %q, want %q", tt.used, got, tt.want)
			}
		})
	}
}

func TestCachedInputCountsATenth(t *testing.T) {
	if got := (mercury.Usage{Input: 1000, Cached: 900, Output: 50}).Weight(); got != 100+90+50 {
		t.Errorf("weight is %d, want 240", got)
	}
}

func TestTheRestOfTodayEndsAtMidnightWhereThePersonLives(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		testenv.Missing(t, "time zones", "install the system's zone database (tzdata)")
	}
	// The day summer time ends has 25 hours.
	asked := time.Date(2026, 10, 24, 22, 30, 0, 0, time.UTC) // 00:30 in Oslo, already the 25th
	if got, want := endOfDay(asked, oslo).UTC(), time.Date(2026, 10, 25, 23, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("ends %v, want %v", got, want)
	}
}

func TestACallIsRepeatedWhenNothingNewHappensInBetween(t *testing.T) {
	read := doneCall{tool: "read_file", args: `{"path":"a"}`, result: "same"}
	edit := func(n string) doneCall { return doneCall{tool: "edit_file", args: n, result: "ok"} }
	failing := func(words string) doneCall { return doneCall{"run_command", `{"command":"x"}`, words, true} }
	for _, tt := range []struct {
		name  string
		calls []doneCall
		want  bool
	}{
		{"twice", []doneCall{read, read}, false},
		{"three times", []doneCall{read, read, read}, true},
		{"three times, with other results", []doneCall{read, {read.tool, read.args, "other", false}, {read.tool, read.args, "third", false}}, false},
		{"tests run again after each edit", []doneCall{read, edit("1"), read, edit("2"), read, edit("3"), read}, false},
		{"two calls taking turns", []doneCall{read, edit("1"), read, edit("1"), read, edit("1"), read}, true},
		{"a failure worded anew each time", []doneCall{failing("at 1"), failing("at 2"), failing("at 3")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := repeated(tt.calls); got != tt.want {
				t.Errorf("repeated is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEqualArgumentsAreEqualWhateverTheirOrder(t *testing.T) {
	a := canonical(json.RawMessage(`{"b": 1.0, "a": [1, 2]}`))
	b := canonical(json.RawMessage(`{"a":[1,2],"b":1.0}`))
	if a != b {
		t.Errorf("%s differs from %s", a, b)
	}
	if canonical(json.RawMessage(`{"n":12345678901234567890}`)) == canonical(json.RawMessage(`{"n":12345678901234567891}`)) {
		t.Error("long numbers are confused")
	}
}

func TestWhatWasDoneCountsEachTool(t *testing.T) {
	got := whatWasDone([]doneCall{{tool: "read_file"}, {tool: "run_command", isError: true}, {tool: "read_file"}})
	if want := "Done so far: read_file 2×, run_command 1× (1 failed)."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := whatWasDone(nil); !strings.Contains(got, "No tool") {
		t.Errorf("got %q", got)
	}
}

func TestASkillTakesToolsAwayAndGivesNone(t *testing.T) {
	result := func(round int, narrows ...string) mercury.Entry {
		return resultEntry("run", round, "c", resultData{Tool: "use_skill", Narrows: narrows}, nil)
	}
	for _, tt := range []struct {
		allowed []string
		results []mercury.Entry
		round   int
		want    string
	}{
		{nil, []mercury.Entry{result(1, "read_file")}, 1, "[] all"},
		{nil, []mercury.Entry{result(1, "read_file")}, 2, "[read_file ask_user budget_status end_run list_skills find_tools use_skill]"},
		{[]string{"read_file", "ask_user"}, []mercury.Entry{result(1, "read_file", "run_command")}, 2, "[read_file ask_user]"},
		{nil, []mercury.Entry{result(1, "read_file"), result(2, "run_command")}, 3, "[ask_user budget_status end_run list_skills find_tools use_skill]"},
		{nil, []mercury.Entry{result(1, "*")}, 2, "[* ask_user budget_status end_run list_skills find_tools use_skill]"},
	} {
		got := narrowed(tt.allowed, tt.results, "run", tt.round)
		text := fmt.Sprint(got)
		if got == nil {
			text += " all"
		}
		if text != tt.want {
			t.Errorf("%v after %d results: %s, want %s", tt.allowed, len(tt.results), text, tt.want)
		}
	}
	if got := narrowed(nil, []mercury.Entry{result(1, "read_file")}, "another", 2); got != nil {
		t.Errorf("another run is narrowed: %v", got)
	}
}
