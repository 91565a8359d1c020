package tui

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
)

// screen is a line terminal without a runtime, and what it shows.
func screen(width int) (*Line, *bytes.Buffer) {
	var out bytes.Buffer
	l := &Line{Out: &out, Width: func() int { return width }, tools: map[string]string{}}
	l.text.out = &out
	return l, &out
}

func event(kind string, v any) client.Event {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return client.Event{Type: kind, Data: b}
}

func delta(text string) client.Event { return event("delta", map[string]string{"text": text}) }

func TestAnAnswerIsShownOnceAndWholeWhateverWasMissed(t *testing.T) {
	answer := event("entry", api.Entry{Seq: 2, Kind: "assistant", Text: "One two three."})
	broken := event("entry", api.Entry{Seq: 1, Kind: "assistant", Text: "One t", Hidden: true})
	for _, tt := range []struct {
		name   string
		missed bool
		events []client.Event
		want   string
	}{
		{"all of it streamed", false, []client.Event{delta("One two "), delta("three."), answer}, "One two three.\n"},
		{"none of it streamed", false, []client.Event{answer}, "One two three.\n"},
		{"its end came with the entry", false, []client.Event{delta("One two"), answer}, "One two three.\n"},
		{"blanks around it are not kept", false, []client.Event{delta("\nOne two three.\n"), answer}, "\nOne two three.\n"},
		{"its beginning was missed", true, []client.Event{broken, delta("two "), delta("three."), answer},
			"  (broken off here; what follows begins again)\ntwo three.\n  (it began: One)\n"},
		{"something in the middle was missed", true, []client.Event{delta("One three."), answer}, "One three.\nOne two three.\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, out := screen(60)
			l.missed = tt.missed
			for _, ev := range tt.events {
				l.show(ev)
			}
			if out.String() != tt.want {
				t.Errorf("got\n%q, want\n%q", out, tt.want)
			}
		})
	}
}

func TestThePromptWaitsForTheEndOfTheWork(t *testing.T) {
	l, out := screen(0)
	l.show(event("run", api.Run{State: "running"}))
	l.prompt()
	l.show(delta("Done."))
	if strings.Contains(out.String(), ">") {
		t.Errorf("a prompt while work runs: %q", out)
	}
	l.show(event("run", api.Run{State: "done"}))
	if !strings.HasSuffix(out.String(), "Done.\n> ") {
		t.Errorf("no prompt after it: %q", out)
	}
}

func TestTheRecordOfOnesOwnCommandIsNotShown(t *testing.T) {
	l, out := screen(0)
	l.command = "[/stop]"
	l.show(event("entry", api.Entry{Seq: 1, Kind: "note", Text: "[/stop]"}))
	l.show(event("entry", api.Entry{Seq: 2, Kind: "note", Text: "The model is back."}))
	if out.String() != "· The model is back.\n" {
		t.Errorf("got %q", out)
	}
}

func TestWhatIsSaidElsewhereIsShown(t *testing.T) {
	l, out := screen(0)
	l.mine = map[string]bool{"in_mine": true}
	l.show(event("entry", api.Entry{Seq: 1, Kind: "user", InputID: "in_mine", Text: "typed here"}))
	l.show(event("entry", api.Entry{Seq: 2, Kind: "user", InputID: "in_other", Text: "typed there"}))
	if out.String() != "  (said elsewhere) typed there\n" {
		t.Errorf("got %q", out)
	}
}

func TestAToolCallReadsLikeASentence(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`{"path":"notes.txt"}`, "notes.txt"},
		{`{"command":"a \u0026\u0026 b \u003c c"}`, "a && b < c"},
		{`{"timeout_seconds":60,"command":"date"}`, "date, timeout_seconds=60"},
		{`{"a":{"x":"<"},"list":[1,2],"path":""}`, `a={"x":"<"}, list=[1,2], path=`},
		{`{}`, ""},
		{`[1]`, "[1]"},
		{`no json`, "no json"},
	} {
		if got := Args(json.RawMessage(tt.args)); got != tt.want {
			t.Errorf("Args(%s) = %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestACardBreaksItsWordsAndNotTheExactThing(t *testing.T) {
	var out bytes.Buffer
	exact := "    " + strings.Repeat("x ", 30)
	Card(&out, api.Question{Kind: "approval", Title: "run something that takes a while to read",
		Body: strings.TrimLeft(exact, " "), Always: "run:=x"}, false, 40)
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimRight(line, "\n"); line != exact && columns(line) > 40 {
			t.Errorf("too wide: %q", line)
		}
	}
	for _, want := range []string{exact + "\n", "a always (run:=x)", "Enter no: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}
