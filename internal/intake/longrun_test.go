package intake

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/llm/openai"
	"github.com/mercury-agent/mercury/internal/longrun"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/tool"
)

// workshop is an intake whose engine runs turns against a scripted model, with
// a clock that the test can move on.
type workshop struct {
	*house
	ahead atomic.Int64 // how far the agent's clock is in front
	model *llmtest.Running
	dir   string
	end   func()
}

type allowAll struct{}

func (allowAll) Judge(context.Context, tool.Request) mercury.Judgement {
	return mercury.Judgement{Verdict: mercury.Allow, Rule: "test"}
}

func newWorkshop(t *testing.T, script llmtest.Script) *workshop {
	t.Helper()
	w := &workshop{model: llmtest.Start(t, script), dir: t.TempDir()}
	w.open(t)
	t.Cleanup(func() { w.end() })
	return w
}

func (w *workshop) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// open begins a life on the home.
func (w *workshop) open(t *testing.T) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), w.dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turns := agent.New(w, agent.Options{Now: w.now})
	e := engine.New(s, engine.Options{Spool: w.dir, Cure: turns.Cure, Failure: turns.Failure,
		Plan: func(c mercury.Conversation, in mercury.Input) (engine.NewRun, error) {
			return engine.NewRun{Kind: "turn", Lane: mercury.Chat, Mandate: mercury.Mandate{Actor: in.Actor, Mode: "ask", Interactive: true, Destination: mercury.ChatOf(c.ID)}}, nil
		}})
	e.Handle("turn", turns.Turn)
	e.Ended("turn", longrun.Ended)
	w.house = &house{Intake: New(e, Options{}), engine: e, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	w.end = func() {
		cancel()
		<-done
		s.Close()
		w.end = func() {}
	}
}

// Profile makes the workshop agent.Profiles.
func (w *workshop) Profile(_ context.Context, r mercury.Run, c mercury.Conversation) (agent.Profile, error) {
	client := openai.New(openai.Options{Provider: "one", BaseURL: w.model.URL + "/v1", Key: "k"})
	p := agent.Profile{Name: "main", ModelName: "one/model", Limits: agent.Limits{Steps: 3},
		Model: llm.NewChain([]llm.Model{{Provider: "one", Name: "model", Client: client}}, llm.ChainOptions{}),
		Tools: tool.NewSet(allowAll{}, longrun.Tool(), look())}
	longrun.Shape(&p, r, c, w.now)
	return p, nil
}

// look is a tool that does nothing.
func look() tool.Tool {
	return tool.New("look", "Looks.", mercury.Read, func(struct{}) []mercury.Access { return []mercury.Access{{Kind: mercury.OwnState, Target: "x"}} },
		func(context.Context, tool.Call, struct{}) (tool.Output, error) { return tool.Output{Text: "seen"}, nil })
}

const study = "local/study"

func (w *workshop) says(text string) Result {
	w.t.Helper()
	w.n++
	return w.accept(mercury.Message{Channel: "local", ID: mercury.NewID("m"), Conversation: study, Text: text, Direct: true, At: time.Now()})
}

// until waits until what the conversation shows fits.
func (w *workshop) until(what string, fits func(shown []string) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	news := make(chan struct{}, 1)
	go func() {
		for range w.engine.Bus().Subscribe(ctx, "") {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}()
	for !fits(w.shown()) {
		select {
		case <-news:
		case <-time.After(100 * time.Millisecond): // it may have happened before anybody listened
		case <-ctx.Done():
			w.t.Fatalf("waited in vain for %s; shown: %q", what, w.shown())
		}
	}
}

// shown is what a person reads in the conversation.
func (w *workshop) shown() (lines []string) {
	w.t.Helper()
	err := w.engine.View(context.Background(), func(tx store.Tx) error {
		lines = nil
		entries, err := tx.Entries(study, 0, 0)
		for _, e := range entries {
			if !e.Hidden {
				lines = append(lines, string(e.Kind)+": "+e.Text)
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return lines
}

func ends(text string) func([]string) bool {
	return func(shown []string) bool { return len(shown) > 0 && strings.Contains(shown[len(shown)-1], text) }
}

func holds(text string) func([]string) bool {
	return func(shown []string) bool { return strings.Contains(strings.Join(shown, "\n"), text) }
}

func endRun(summary string) []llmtest.Call {
	args, _ := json.Marshal(map[string]string{"summary": summary})
	return []llmtest.Call{{Name: longrun.EndRun, Args: args}}
}

func TestALongRunGoesOnAfterEachAnswerUntilItSaysThatItIsDone(t *testing.T) {
	// Four answers under a limit of three steps: each stretch counts anew.
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{
		{Call: 1, Any: true, Reply: "One."}, {Call: 2, Any: true, Reply: "Two."},
		{Call: 3, Any: true, Tools: []llmtest.Call{{Name: "look", Args: json.RawMessage("{}")}}}, {Call: 4, Any: true, Reply: "Three."}, {Call: 5, Any: true, Reply: "Four."},
		{Call: 6, Any: true, Tools: endRun("All four are done.")},
	}, Default: "more?"})
	if r := w.says("/run 30m count"); !strings.HasPrefix(r.Reply, "Working until ") {
		t.Fatalf("reply: %q", r.Reply)
	}
	w.until("its end", ends("it says that it is done"))
	got := strings.Join(w.shown(), "\n")
	want := "note: [/run 30m count]\nassistant: One.\nassistant: Two.\nassistant: Three.\nassistant: Four.\nassistant: All four are done.\nnote: The run ended after 0s: it says that it is done."
	if got != want {
		t.Errorf("the conversation shows\n%s\nwant\n%s", got, want)
	}
	if n := len(w.model.Requests()); n != 6 {
		t.Errorf("%d requests, want 6: end_run ends the run without another", n)
	}
	// Afterwards the conversation is itself again.
	w.says("hello")
	w.until("an answer of its own", ends("assistant: more?"))
}

func TestTheDeadlineEndsALongRunAfterTheAnswerInHand(t *testing.T) {
	var w *workshop
	asked := make(chan struct{}, 10)
	w = newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Do: func(n int, _ llm.Request) llmtest.Rule {
		asked <- struct{}{}
		if n == 2 {
			w.ahead.Store(int64(29*time.Minute + 30*time.Second)) // half a minute is left
		}
		return llmtest.Rule{Any: true, Reply: "Stretch."}
	}}}})
	w.says("/run 30m")
	w.until("its end", ends("is over"))
	if n := len(asked); n != 2 {
		t.Errorf("asked %d times, want 2: under a minute is no stretch", n)
	}
}

func TestALongRunThatOnlyTalksEndsByItself(t *testing.T) {
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{{Any: true, Reply: "Nothing is left."}}})
	w.says("/run 1h tidy up")
	w.until("its end", ends("did nothing more"))
	if n := len(w.model.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestWhatIsSaidDuringALongRunReachesItAndIsKeptInTheConversation(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{
		{Call: 1, Any: true, Do: func(int, llm.Request) llmtest.Rule {
			close(asked)
			<-release
			return llmtest.Rule{Any: true, Reply: "First."}
		}},
		{Match: "use blue", Any: true, Tools: endRun("Blue it is.")},
	}, Default: "Again."})
	w.says("/run 1h paint")
	<-asked
	m := mercury.Message{Channel: "local", ID: "blue", Conversation: study, Text: "use blue", Direct: true}
	r := w.accept(m)
	if r.Outcome != Steered || mercury.ChatOf(r.Input.ConversationID) != study || r.Input.ConversationID == study {
		t.Errorf("what became of it: %+v", r)
	}
	if again := w.accept(m); again.Outcome != Repeated {
		t.Errorf("a repeated message: %+v", again)
	}
	// Commands are not steers, and another run does not begin beside it.
	if r := w.says("/status"); !strings.Contains(r.Reply, "A run works on this until ") {
		t.Errorf("status: %q", r.Reply)
	}
	if r := w.says("/run 2h"); !strings.HasPrefix(r.Reply, "The run goes on until ") {
		t.Errorf("another time: %q", r.Reply)
	}
	close(release)
	w.until("its end", ends("it says that it is done"))
	if !holds("user: use blue")(w.shown()) || !holds("assistant: Blue it is.")(w.shown()) {
		t.Errorf("shown: %q", w.shown())
	}
	if again := w.accept(m); again.Outcome != Repeated { // also when the run is over
		t.Errorf("a repeated message after the run: %+v", again)
	}
}

func TestStopEndsALongRunAndWithdrawsWhatItWasTold(t *testing.T) {
	asked := make(chan struct{})
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{{Call: 1, Any: true, Fault: llmtest.Hang,
		Do: func(int, llm.Request) llmtest.Rule { close(asked); return llmtest.Rule{Any: true, Fault: llmtest.Hang} }}}, Default: "Hello."})
	w.says("/run 1h paint")
	<-asked
	w.says("use blue")
	if r := w.says("/stop"); r.Reply != "Stopped the run. 1 message that waited for it was withdrawn." {
		t.Errorf("reply: %q", r.Reply)
	}
	w.until("its end", holds("was stopped after"))
	if r := w.says("/stop"); r.Reply != "Nothing is running here." {
		t.Errorf("once more: %q", r.Reply)
	}
	w.says("hello")
	w.until("an answer", ends("assistant: Hello."))
	if n := len(w.model.Requests()); n != 2 {
		t.Errorf("%d requests, want 2: what was withdrawn is not asked", n)
	}
}

func TestALongRunWaitsForAnIdleConversationAndATime(t *testing.T) {
	asked := make(chan struct{})
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{{Call: 1,
		Do: func(int, llm.Request) llmtest.Rule { close(asked); return llmtest.Rule{Fault: llmtest.Hang} }}}})
	for args, want := range map[string]string{"": "is no time", "soon": "is no time", "10s": "a run lasts from 1m to 24h", "25h": "a run lasts from 1m to 24h"} {
		if r := w.says("/run " + args); !strings.Contains(r.Reply, want) && !strings.Contains(r.Reply, strings.ToUpper(want[:1])+want[1:]) {
			t.Errorf("/run %s: %q, want %q in it", args, r.Reply, want)
		}
	}
	w.says("hello")
	<-asked
	if r := w.says("/run 30m"); !strings.HasPrefix(r.Reply, "Busy") {
		t.Errorf("in a busy conversation: %q", r.Reply)
	}
}

func TestALongRunOutlivesARestartWithItsDeadline(t *testing.T) {
	asked := make(chan struct{})
	w := newWorkshop(t, llmtest.Script{Rules: []llmtest.Rule{
		{Call: 1, Any: true, Reply: "Before."},
		{Call: 2, Any: true, Do: func(int, llm.Request) llmtest.Rule { close(asked); return llmtest.Rule{Fault: llmtest.Hang, Any: true} }},
		{Call: 3, Any: true, Reply: "After."},
	}, Default: "Too much."})
	w.says("/run 30m go")
	<-asked
	w.end()
	w.ahead.Store(int64(29*time.Minute + 30*time.Second))
	w.open(t)
	w.until("its end", ends("is over"))
	got := strings.Join(w.shown(), "\n")
	if !strings.Contains(got, "assistant: Before.\nassistant: After.\nnote: The run ended") {
		t.Errorf("shown:\n%s", got)
	}
}
