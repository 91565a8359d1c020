package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// history makes up conversations: what a turn writes, and what crashes,
// cancellations and older versions leave behind.
type history struct {
	*rand.Rand
	entries []mercury.Entry
	run     string
	n       int
}

func (h *history) add(e mercury.Entry) {
	e.ConversationID, e.Seq = "local/test", int64(len(h.entries)+1)
	e.ID = fmt.Sprintf("en_%d", e.Seq)
	h.entries = append(h.entries, e)
}

func (h *history) chance(percent int) bool { return h.IntN(100) < percent }

func (h *history) unique(what string) string {
	h.n++
	return fmt.Sprintf("%s-%d-", what, h.n)
}

func (h *history) says() {
	e := mercury.Entry{Kind: mercury.UserEntry, RunID: h.run, Text: h.unique("person"), Actor: mercury.Actor{Role: mercury.Owner}}
	switch h.IntN(6) {
	case 0:
		e.Actor = mercury.Actor{Role: mercury.Member, Name: "Ann]\n[note] x", ID: "7"}
	case 1:
		e.Data = encode(userData{Files: []mercury.File{{Name: "cat.png", Path: "files/cat.png", Type: "image/png", Size: 9}}})
	case 2:
		e.Text = "   "
	}
	h.add(e)
}

func (h *history) thinks(model string) llm.Part {
	return llm.Part{Kind: llm.Reasoning, Text: h.unique("thought"), Signature: h.unique("sig"), Raw: `{"a": "<&>\u2028"}`, Origin: model}
}

// answers adds one round: an answer, its calls, and most of their results in
// any order, with other entries in between.
func (h *history) answers(round int, model string) {
	d := assistantData{Model: model, Finish: llm.Stop}
	if h.chance(50) {
		d.Parts = append(d.Parts, h.thinks(model))
	}
	if h.chance(60) {
		d.Parts = append(d.Parts, llm.Part{Kind: llm.Text, Text: h.unique("answer")})
	}
	if h.chance(10) {
		d.Parts = append(d.Parts, llm.Part{Kind: llm.Text, Text: " \n"})
	}
	var calls, results []mercury.Entry
	for i := range h.IntN(4) {
		id := callID(h.run, round, i)
		if h.chance(10) {
			id = "same" // what another version might have made
		}
		d.Parts = append(d.Parts, llm.Part{Kind: llm.ToolCall, ID: id, Cut: h.chance(10), Origin: model, Signature: "s"})
		args := json.RawMessage(`{"path":"a"}`)
		if h.chance(10) {
			args = json.RawMessage(`"torn`)
		}
		if !h.chance(5) {
			data := encode(map[string]any{"tool": []string{"read_file", "bad name!", ""}[h.IntN(3)]})
			if json.Valid(args) {
				data = encode(callData{Tool: "read_file", Args: args})
			}
			calls = append(calls, mercury.Entry{Kind: mercury.ToolCallEntry, RunID: h.run, Round: round, CallID: id, Data: data})
		}
		if h.chance(80) {
			text := []string{"", "fine", strings.Repeat("long ", 200)}[h.IntN(3)]
			results = append(results, resultEntry(h.run, round, id, resultData{Tool: "read_file", Result: text, IsError: h.chance(20)}, nil))
		}
	}
	if h.chance(20) {
		d.Parts = append(d.Parts, h.thinks(model)) // thinking that nothing follows
	}
	h.add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: h.run, Round: round, Text: llm.TextOf(d.Parts), Data: encode(d)})
	for _, c := range calls {
		h.add(c)
	}
	h.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	for _, r := range results {
		if h.chance(20) {
			h.says()
		}
		h.add(r)
	}
}

func (h *history) odd() {
	switch h.IntN(7) {
	case 0:
		h.add(mercury.Entry{Kind: mercury.ResetEntry})
	case 1:
		d := noteData{}
		if h.chance(60) && len(h.entries) > 0 {
			d.Through = 1 + h.Int64N(int64(len(h.entries)))
			for _, e := range h.entries[:d.Through] {
				if e.Kind == mercury.UserEntry && h.chance(30) {
					d.Keep = append(d.Keep, e.Seq)
				}
			}
		}
		h.add(mercury.Entry{Kind: mercury.SummaryEntry, Text: "what came before", Data: encode(d)})
	case 2:
		h.add(mercury.Entry{Kind: mercury.NoteEntry, RunID: h.run, Text: "a passive line"})
	case 3:
		m := note(h.run, noteStubs, tellStubs)
		m.Data = encode(noteData{Kind: noteStubs, Through: int64(len(h.entries)), Max: h.IntN(2) * 400})
		h.add(m)
	case 4:
		h.add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: h.run, Text: "half an ans", Hidden: true,
			Data: encode(assistantData{Aborted: true, Parts: []llm.Part{{Kind: llm.Text, Text: "half an ans"}}})})
	case 5:
		h.add(mercury.Entry{Kind: mercury.ToolResultEntry, RunID: h.run, CallID: "nobody's", Data: json.RawMessage(`{"result":"x"}`)})
	case 6:
		h.add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: h.run, Text: "an answer without data", Data: json.RawMessage(`[torn`)})
	}
}

// random is the history of one seed, cut at both ends as a moved head and a
// crash would cut it.
func random(seed uint64) []mercury.Entry {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 1))}
	for run := range 1 + h.IntN(6) {
		h.run = fmt.Sprintf("run_%d", run)
		if !h.chance(10) {
			h.says()
		}
		for round := range h.IntN(5) {
			h.answers(round+1, []string{"one/a", "two/b"}[h.IntN(2)])
			if h.chance(30) {
				h.odd()
			}
			if h.chance(20) {
				h.says()
			}
		}
	}
	from, to := 0, len(h.entries)
	if h.chance(40) && to > 0 {
		from = h.IntN(to)
	}
	if h.chance(40) {
		to = from + h.IntN(to-from+1)
	}
	return h.entries[from:to]
}

func TestEveryRequestPassesBothWiresAndLosesNoWordOfAPerson(t *testing.T) {
	picture := func(mercury.File) ([]byte, string, error) { return []byte("png"), "image/png", nil }
	seeds := uint64(6_000)
	if testing.Short() {
		seeds = 400
	}
	for seed := range seeds {
		entries := random(seed)
		for _, asked := range []string{"one/a", "two/b"} {
			req := Build(entries, Profile{ModelName: asked, System: []string{"be kind"}, Image: picture}, "it is noon")
			for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
				if err := llm.Validate(req, wire); err != nil {
					t.Fatalf("seed %d, asking %s on the %s wire: %v\n%s", seed, asked, wire, err, outline(req))
				}
			}
			checkWords(t, seed, entries, req)
			checkThinking(t, seed, entries, req, asked)
		}
	}
}

// checkWords looks for each text of a person that nothing hides, in order.
func checkWords(t *testing.T, seed uint64, entries []mercury.Entry, req llm.Request) {
	t.Helper()
	var said []string
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if m.Role == llm.User && p.Kind == llm.Text {
				said = append(said, p.Text)
			}
		}
	}
	through, keep := int64(0), []int64(nil)
	for _, e := range entries {
		switch e.Kind {
		case mercury.ResetEntry:
			through, keep = e.Seq, nil
		case mercury.SummaryEntry:
			d := data[noteData](e)
			if d.Through == 0 {
				d.Through = e.Seq
			}
			reset := int64(0)
			for _, r := range entries {
				if r.Kind == mercury.ResetEntry && r.Seq < e.Seq {
					reset = r.Seq
				}
			}
			through, keep = max(d.Through, reset), nil
			for _, k := range d.Keep {
				if k > reset {
					keep = append(keep, k)
				}
			}
		}
	}
	at := 0
	for _, e := range entries {
		if e.Kind != mercury.UserEntry || strings.TrimSpace(e.Text) == "" || e.Seq <= through && !slices.Contains(keep, e.Seq) {
			continue
		}
		i := slices.IndexFunc(said[at:], func(s string) bool { return strings.Contains(s, e.Text) })
		if i < 0 {
			t.Fatalf("seed %d: %q is missing or out of order\n%s", seed, e.Text, outline(req))
		}
		at += i
	}
}

// checkThinking makes sure that only the asked model's own thinking is sent,
// unchanged.
func checkThinking(t *testing.T, seed uint64, entries []mercury.Entry, req llm.Request, asked string) {
	t.Helper()
	var own []llm.Part
	for _, e := range entries {
		if e.Kind == mercury.AssistantEntry {
			own = append(own, data[assistantData](e).Parts...)
		}
	}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Origin != "" && p.Origin != asked {
				t.Fatalf("seed %d: a part of %s is sent to %s", seed, p.Origin, asked)
			}
			if p.Kind == llm.Reasoning && !slices.ContainsFunc(own, func(o llm.Part) bool { return reflect.DeepEqual(o, p) }) {
				t.Fatalf("seed %d: thinking was changed: %+v", seed, p)
			}
		}
	}
}

func outline(req llm.Request) string {
	var b strings.Builder
	for i, m := range req.Messages {
		fmt.Fprintf(&b, "%d %s:", i, m.Role)
		for _, p := range m.Parts {
			fmt.Fprintf(&b, " %s(%s %.20q)", p.Kind, p.ID, p.Text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestResultsStandBehindTheirCallsInCallOrder(t *testing.T) {
	h := &history{Rand: rand.New(rand.NewPCG(1, 1)), run: "run_1"}
	h.add(mercury.Entry{Kind: mercury.UserEntry, RunID: "run_1", Text: "go", Actor: mercury.Actor{Role: mercury.Owner}})
	h.add(mercury.Entry{Kind: mercury.AssistantEntry, RunID: "run_1", Round: 1, Data: encode(assistantData{Parts: []llm.Part{
		{Kind: llm.ToolCall, ID: "a"}, {Kind: llm.ToolCall, ID: "b"}, {Kind: llm.ToolCall, ID: "c"}, {Kind: llm.ToolCall, ID: "d", Cut: true}}})})
	for _, id := range []string{"a", "b", "c"} {
		h.add(mercury.Entry{Kind: mercury.ToolCallEntry, RunID: "run_1", Round: 1, CallID: id,
			Data: encode(callData{Tool: "read_file", Args: json.RawMessage(`{}`)})})
	}
	h.add(resultEntry("run_1", 1, "b", resultData{Result: "B"}, nil))
	h.add(mercury.Entry{Kind: mercury.UserEntry, RunID: "run_1", Text: "and hurry", Actor: mercury.Actor{Role: mercury.Owner}})
	h.add(resultEntry("run_1", 1, "a", resultData{Result: "A"}, nil))

	req := Build(h.entries, Profile{ModelName: "one/a"}, "")
	var got []string
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			got = append(got, string(m.Role)+" "+p.ID+" "+p.Text)
		}
	}
	want := []string{"user  go", "assistant a ", "assistant b ", "assistant c ", "tool a A", "tool b B", "tool c " + textUnknown, "user  and hurry"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTheSameEntriesGiveTheSameBytes(t *testing.T) {
	for seed := range uint64(300) {
		entries := random(seed)
		p := Profile{ModelName: "one/a", System: []string{"s"}}
		a, _ := json.Marshal(Build(entries, p, ""))
		b, _ := json.Marshal(Build(slices.Clone(entries), p, ""))
		if string(a) != string(b) {
			t.Fatalf("seed %d: two builds differ", seed)
		}
	}
}

func TestOnlyTheNewestImagesAreSent(t *testing.T) {
	var entries []mercury.Entry
	for i := range llm.MaxImages + 5 {
		entries = append(entries, mercury.Entry{ID: fmt.Sprint("e", i), Seq: int64(i + 1), Kind: mercury.UserEntry, Text: "look",
			Data: encode(userData{Files: []mercury.File{{Name: fmt.Sprint(i), Path: "p", Type: "image/png", Size: 3}}})})
	}
	entries = append(entries, mercury.Entry{ID: "big", Seq: 99, Kind: mercury.UserEntry,
		Data: encode(userData{Files: []mercury.File{{Name: "huge", Path: "p", Type: "image/png", Size: llm.MaxImageBytes + 1}}})})
	req := Build(entries, Profile{Image: func(f mercury.File) ([]byte, string, error) {
		if f.Name == "huge" {
			return make([]byte, llm.MaxImageBytes+1), f.Type, nil
		}
		return []byte(f.Name), f.Type, nil
	}}, "")
	var sent []string
	for _, p := range req.Messages[0].Parts {
		if p.Kind == llm.Image {
			sent = append(sent, string(p.Data))
		}
	}
	if len(sent) != llm.MaxImages || sent[0] != "5" || sent[len(sent)-1] != "24" {
		t.Errorf("sent %q", sent)
	}
	if err := llm.Validate(req, llm.AnthropicWire); err != nil {
		t.Error(err)
	}
}

func TestTaintIsWhatTheRequestContains(t *testing.T) {
	owner := mercury.Actor{Role: mercury.Owner}
	entries := []mercury.Entry{
		{Seq: 1, Kind: mercury.ToolResultEntry, Taint: []string{"web:gone.example"}},
		{Seq: 2, Kind: mercury.ResetEntry},
		{Seq: 3, Kind: mercury.ToolResultEntry, Taint: []string{"web:b.example", "web:a.example"}},
		{Seq: 4, Kind: mercury.UserEntry, Actor: mercury.Actor{Role: mercury.Member, Channel: "telegram", ID: "7"}},
		{Seq: 5, Kind: mercury.UserEntry, Actor: mercury.Actor{Role: mercury.Admin, ID: "8"}},
	}
	want := []string{"person:telegram/7", "web:a.example", "web:b.example"}
	if got := taintOf(entries, owner); !slices.Equal(got, want) {
		t.Errorf("taint of the owner's request: %q, want %q", got, want)
	}
	if got := taintOf(entries, entries[3].Actor); !slices.Equal(got, want[1:]) {
		t.Errorf("taint of the member's own request: %q, want %q", got, want[1:])
	}
}

func TestAModelIsToldOfPicturesItIsNotShown(t *testing.T) {
	files := []mercury.File{{Name: "a.png", Path: "/a.png", Type: "image/png"}, {Name: "b.png", Path: "/b.png", Type: "image/png"}, {Name: "c.txt", Path: "/c.txt", Type: "text/plain"}}
	e := mercury.Entry{ID: "e", Seq: 1, Kind: mercury.UserEntry, Text: "look", Actor: owner, Data: encode(userData{Files: files})}
	for want, image := range map[string]func(mercury.File) ([]byte, string, error){
		"You are not shown the pictures": nil,
		"You are shown 1 of the 2": func(f mercury.File) ([]byte, string, error) {
			if f.Name == "a.png" {
				return []byte("x"), "image/jpeg", nil
			}
			return nil, "", errors.New("no")
		},
	} {
		req := Build([]mercury.Entry{e}, Profile{Image: image}, "")
		if text := req.Messages[0].Parts[0].Text; !strings.Contains(text, want) {
			t.Errorf("%q, want %q in it", text, want)
		}
	}
}
