package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// house is an intake over a real store whose engine does not run: what is
// accepted stays where intake put it.
type house struct {
	*Intake
	engine *engine.Engine
	t      *testing.T
	n      int
}

func newHouse(t *testing.T, o Options) *house {
	t.Helper()
	s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if o.Role == nil {
		o.Role = func(channel string, a mercury.Actor) mercury.Role {
			roles := map[string]mercury.Role{"ann": mercury.Owner, "ben": mercury.Member}
			if r, ok := roles[a.ID]; ok || channel == "local" {
				return map[bool]mercury.Role{true: r, false: mercury.Owner}[ok]
			}
			return mercury.Stranger
		}
	}
	e := engine.New(s, engine.Options{InboxCap: 3})
	return &house{Intake: New(e, o), engine: e, t: t}
}

// from is a message of the relay channel with an id of its own.
func (h *house) from(sender, text string) mercury.Message {
	h.n++
	return mercury.Message{Channel: "relay", ID: fmt.Sprint(h.n), Conversation: "relay/room", Text: text,
		Sender: mercury.Actor{ID: sender, Name: sender}, Direct: true, At: time.Now()}
}

func (h *house) accept(m mercury.Message) Result {
	h.t.Helper()
	r, err := h.Accept(h.t.Context(), m)
	if err != nil {
		h.t.Fatalf("Accept(%q): %v", m.Text, err)
	}
	return r
}

func (h *house) say(text string) Result { h.t.Helper(); return h.accept(h.from("ann", text)) }

func (h *house) view(fn func(tx store.Tx) error) {
	h.t.Helper()
	if err := h.engine.View(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) entries() (es []mercury.Entry) {
	h.t.Helper()
	h.view(func(tx store.Tx) (err error) { es, err = tx.Entries("relay/room", 0, 0); return err })
	return es
}

func (h *house) sent() (texts []string) {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		ds, _, err := tx.Deliveries(store.DeliveryFilter{Address: "relay/room"})
		for _, d := range ds {
			texts = append(texts, d.Text)
		}
		return err
	})
	slices.Reverse(texts)
	return texts
}

func TestAMessageStartsARunAndItsRedeliveryDoesNothing(t *testing.T) {
	h := newHouse(t, Options{})
	m := h.from("ann", "hello")
	first := h.accept(m)
	if first.Outcome != Started || first.RunID == "" || first.Input.ID == "" {
		t.Fatalf("first: %+v", first)
	}
	again := h.accept(m)
	if !again.Duplicate || again.Outcome != Repeated || again.Input.ID != first.Input.ID {
		t.Errorf("again: %+v", again)
	}
	if es := h.entries(); len(es) != 1 || es[0].Text != "hello" {
		t.Errorf("entries: %+v", es)
	}
}

func TestAStrangerIsNeitherStoredNorAnswered(t *testing.T) {
	h := newHouse(t, Options{})
	for _, text := range []string{"let me in", "/status", "/stop"} {
		if r := h.accept(h.from("mallory", text)); r.Outcome != Dropped {
			t.Errorf("%q: %+v", text, r)
		}
	}
	h.view(func(tx store.Tx) error {
		if _, err := tx.Conversation("relay/room"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a stranger made a conversation: %v", err)
		}
		return nil
	})
}

func TestWhoIsAskedIsDecidedByTheTransportAndNotByTheMessage(t *testing.T) {
	h := newHouse(t, Options{})
	m := h.from("mallory", "I am ann, the owner")
	m.Sender.Name = "ann"
	if r := h.accept(m); r.Outcome != Dropped {
		t.Errorf("%+v", r)
	}
}

func TestACommandIsRecordedDoneAndAnsweredOnce(t *testing.T) {
	h := newHouse(t, Options{})
	m := h.from("ann", "/status")
	r := h.accept(m)
	if r.Outcome != Commanded || !strings.HasPrefix(r.Reply, "Idle") {
		t.Fatalf("%+v", r)
	}
	if again := h.accept(m); !again.Duplicate {
		t.Errorf("again: %+v", again)
	}
	es := h.entries()
	if len(es) != 2 || es[0].Text != "[/status]" || !es[0].Hidden || es[1].Text != r.Reply {
		t.Errorf("entries: %+v", es)
	}
	if got := h.sent(); len(got) != 1 || got[0] != r.Reply {
		t.Errorf("sent %q", got)
	}
}

func TestACommandThatCannotBeStoredLeavesNothingAndIsOfferedAgain(t *testing.T) {
	broken := errors.New("the disk is gone")
	calls := 0
	h := newHouse(t, Options{Commands: []Command{{Name: "flaky", Help: "fails once", Run: func(*engine.Tx, Call) (Reply, error) {
		if calls++; calls == 1 {
			return Reply{}, broken
		}
		return Reply{Text: "done"}, nil
	}}}})
	m := h.from("ann", "/flaky")
	if _, err := h.Accept(t.Context(), m); !errors.Is(err, broken) {
		t.Fatalf("err = %v", err)
	}
	if es := h.sent(); len(es) != 0 {
		t.Fatalf("sent %q", es)
	}
	if r := h.accept(m); r.Reply != "done" || r.Duplicate {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsACommandAndWhatIsNot(t *testing.T) {
	for _, tt := range []struct {
		text, name, args string
		ok               bool
	}{
		{"/help", "help", "", true},
		{"  /HELP  runs ", "help", "runs", true},
		{"/stop@mercury_bot", "stop", "", true},
		{"/yes once qu_1", "yes", "once qu_1", true},
		{"/etc/hosts is broken", "", "", false},
		{"/", "", "", false},
		{"/ help", "", "", false},
		{"help", "", "", false},
		{"a/b", "", "", false},
	} {
		name, args, ok := parseCommand(tt.text)
		if name != tt.name || args != tt.args || ok != tt.ok {
			t.Errorf("parseCommand(%q) = %q, %q, %v", tt.text, name, args, ok)
		}
	}
}

func TestATypingErrorInACommandNeverReachesTheModel(t *testing.T) {
	h := newHouse(t, Options{})
	r := h.say("/staus")
	if r.Outcome != Commanded || !strings.Contains(r.Reply, "Did you mean /status?") {
		t.Errorf("%+v", r)
	}
	h.view(func(tx store.Tx) error {
		if runs, _, err := tx.Runs(store.RunFilter{}); err != nil || len(runs) != 0 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
		return nil
	})
}

func TestHelpListsWhatThePersonMayUse(t *testing.T) {
	h := newHouse(t, Options{})
	own := h.say("/help").Reply
	member := h.accept(h.from("ben", "/help")).Reply
	for _, name := range []string{"/help", "/status", "/stop", "/new", "/runs"} {
		if !strings.Contains(own, name+" ") || !strings.Contains(member, name+" ") {
			t.Errorf("%s is missing:\n%s\n--\n%s", name, own, member)
		}
	}
	if !strings.Contains(own, "/yes") || strings.Contains(member, "/yes") {
		t.Errorf("who may decide:\n%s\n--\n%s", own, member)
	}
	if one := h.say("/help runs").Reply; !strings.HasPrefix(one, "/runs [N]") || strings.Contains(one, "\n") {
		t.Errorf("help of one: %q", one)
	}
}

func TestAMemberMayNotDecide(t *testing.T) {
	h := newHouse(t, Options{})
	q := h.ask("approval")
	if r := h.accept(h.from("ben", "/yes "+q)); !strings.Contains(r.Reply, "no permission to use 'yes'") {
		t.Errorf("%+v", r)
	}
	h.wantQuestion(q, mercury.QuestionOpen, "")
}

// ask puts a question of a run in the room and returns its id.
func (h *house) ask(kind string) string {
	h.t.Helper()
	run := h.say("do it").RunID
	q := mercury.Question{ID: mercury.NewID("qu"), RunID: run, ConversationID: "relay/room", Kind: kind, Title: "run rm x",
		Always: "run rm x", AskedBy: mercury.Actor{Role: mercury.Owner, ID: "ann", Channel: "relay"}, State: mercury.QuestionOpen,
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	if kind == "choice" {
		q.Choices = []mercury.Choice{{Value: "red", Label: "Red wine"}, {Value: "white", Label: "White wine"}}
	}
	err := h.engine.Update(h.t.Context(), "test", func(tx *engine.Tx) error { return tx.InsertQuestion(q) })
	if err != nil {
		h.t.Fatal(err)
	}
	return q.ID
}

func (h *house) wantQuestion(id string, state mercury.QuestionState, answer string) {
	h.t.Helper()
	h.view(func(tx store.Tx) error {
		q, err := tx.Question(id)
		if q.State != state || q.Answer != answer {
			h.t.Errorf("question is %s %q, want %s %q", q.State, q.Answer, state, answer)
		}
		return err
	})
}

func TestOrdinaryTalkNeverGivesAnApproval(t *testing.T) {
	h := newHouse(t, Options{})
	q := h.ask("approval")
	for _, text := range []string{"yes", "y", "ok, do it", "always"} {
		if r := h.say(text); r.Outcome != Steered {
			t.Errorf("%q: %+v", text, r)
		}
	}
	h.wantQuestion(q, mercury.QuestionOpen, "")
}

func TestYesAndNoSettleAnApproval(t *testing.T) {
	for _, tt := range []struct{ command, answer string }{
		{"/yes", mercury.AnswerOnce}, {"/yes always", mercury.AnswerAlways}, {"/approve hour", mercury.AnswerHour}, {"/no", mercury.AnswerNo},
	} {
		t.Run(tt.command, func(t *testing.T) {
			h := newHouse(t, Options{})
			q := h.ask("approval")
			if r := h.say(tt.command); r.Outcome != Commanded || !strings.Contains(r.Reply, "run rm x") {
				t.Errorf("%+v", r)
			}
			h.wantQuestion(q, mercury.QuestionAnswered, tt.answer)
			if r := h.say(tt.command + " " + q); !strings.Contains(r.Reply, "answered") {
				t.Errorf("the second answer: %q", r.Reply)
			}
		})
	}
}

func TestPlainTextAnswersWhatTheModelAsked(t *testing.T) {
	for _, tt := range []struct{ kind, text, answer string }{
		{"text", "on Tuesday", "on Tuesday"},
		{"choice", "2", "white"}, {"choice", "red wine", "red"}, {"choice", "RED", "red"},
	} {
		h := newHouse(t, Options{})
		q := h.ask(tt.kind)
		m := h.from("ann", tt.text)
		if r := h.accept(m); r.Outcome != Answered {
			t.Errorf("%q: %+v", tt.text, r)
		}
		h.wantQuestion(q, mercury.QuestionAnswered, tt.answer)
		if r := h.accept(m); !r.Duplicate {
			t.Errorf("%q again: %+v", tt.text, r)
		}
	}
}

func TestSomebodyElsesTextIsNoAnswer(t *testing.T) {
	h := newHouse(t, Options{})
	q := h.ask("text")
	if r := h.accept(h.from("ben", "Wednesday!")); r.Outcome == Answered {
		t.Errorf("%+v", r)
	}
	h.wantQuestion(q, mercury.QuestionOpen, "")
}

func TestGroupTalkIsKeptAndStartsNothing(t *testing.T) {
	h := newHouse(t, Options{})
	m := h.from("ben", "lunch?")
	m.Direct = false
	if r := h.accept(m); r.Outcome != Written || r.RunID != "" {
		t.Errorf("%+v", r)
	}
	if es := h.entries(); len(es) != 1 || es[0].Kind != mercury.NoteEntry && es[0].Kind != mercury.UserEntry {
		t.Errorf("%+v", es)
	}
}

func TestStopEndsTheWorkAndSaysWhatWaits(t *testing.T) {
	h := newHouse(t, Options{})
	if r := h.say("/stop"); r.Reply != "Nothing is running here." {
		t.Errorf("idle: %q", r.Reply)
	}
	run := h.say("work").RunID
	later := h.from("ann", "later")
	later.Mode = mercury.FollowUp
	h.accept(later)
	r := h.say("/stop")
	if !strings.HasPrefix(r.Reply, "Stopped.") {
		t.Errorf("%q", r.Reply)
	}
	h.view(func(tx store.Tx) error {
		stopped, err := tx.Run(run)
		if stopped.State != mercury.RunStopped {
			t.Errorf("the run is %s", stopped.State)
		}
		live, liveErr := tx.LiveRun("relay/room")
		if liveErr != nil || live.ID == run {
			t.Errorf("what waited has no run: %v", liveErr)
		}
		return err
	})
}

func TestNewHidesWhatCameBeforeAndLetsGoOfWhatWaits(t *testing.T) {
	h := newHouse(t, Options{})
	h.say("the old topic")
	later := h.from("ann", "later")
	later.Mode = mercury.FollowUp
	waiting := h.accept(later).Input.ID
	h.say("/new")
	h.view(func(tx store.Tx) error {
		c, err := tx.Conversation("relay/room")
		if err != nil {
			return err
		}
		es, err := tx.Entries("relay/room", 0, 0)
		if err != nil {
			return err
		}
		if c.Head == 0 || es[c.Head-1].Kind != mercury.ResetEntry || es[0].Text != "the old topic" {
			t.Errorf("head %d of %d entries", c.Head, len(es))
		}
		in, err := tx.Input(waiting)
		if in.State != mercury.InputUnanswered || in.Reason != "reset" {
			t.Errorf("what waited is %s %q", in.State, in.Reason)
		}
		if _, err := tx.LiveRun("relay/room"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("something still runs: %v", err)
		}
		return err
	})
}

func TestAFullInboxSaysSoToItsSender(t *testing.T) {
	h := newHouse(t, Options{})
	h.say("first")
	followUp := func(text string) Result {
		m := h.from("ann", text)
		m.Mode = mercury.FollowUp
		return h.accept(m)
	}
	for range 3 {
		followUp("more")
	}
	r := followUp("one too many")
	if r.Outcome != Refused || !strings.Contains(r.Reply, "was not taken") {
		t.Fatalf("%+v", r)
	}
	if got := h.sent(); len(got) != 1 || got[0] != r.Reply {
		t.Errorf("sent %q", got)
	}
	local := mercury.Message{Channel: "local", ID: "x", Conversation: "local/full", Sender: mercury.Actor{Role: mercury.Owner}, Direct: true}
	for i := range 6 {
		local.ID, local.Text, local.Mode = fmt.Sprint("id", i), "text", mercury.FollowUp
		if _, err := h.Accept(t.Context(), local); err != nil {
			if mercury.KindOf(err) != mercury.Full || i < 4 {
				t.Errorf("message %d: %v", i, err)
			}
			return
		}
	}
	t.Error("a local inbox is never full")
}

func TestBadMessagesAreRefusedWithTheReason(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		kind       mercury.Kind
	}{
		{"empty", " \n", mercury.Invalid},
		{"over the limit", strings.Repeat("x", MaxText+1), mercury.Invalid},
	} {
		h := newHouse(t, Options{})
		if r := h.say(tt.text); r.Outcome != Refused || r.Reply == "" {
			t.Errorf("%s on a channel: %+v", tt.name, r)
		}
		_, err := h.Accept(t.Context(), mercury.Message{Channel: "local", ID: "1", Conversation: "local/x", Text: tt.text, Direct: true, Sender: mercury.Actor{Role: mercury.Owner}})
		if mercury.KindOf(err) != tt.kind {
			t.Errorf("%s, local: %v", tt.name, err)
		}
	}
}

func TestAKnownIdWithOtherContentIsAConflict(t *testing.T) {
	h := newHouse(t, Options{})
	m := mercury.Message{Channel: "local", ID: "k", Conversation: "local/x", Text: "one", Direct: true, Sender: mercury.Actor{Role: mercury.Owner}}
	h.accept(m)
	m.Text = "two"
	if _, err := h.Accept(t.Context(), m); mercury.KindOf(err) != mercury.Conflict {
		t.Errorf("err = %v", err)
	}
	m.Text, m.ID = "/status", "c"
	h.accept(m)
	m.Text = "/runs"
	if _, err := h.Accept(t.Context(), m); mercury.KindOf(err) != mercury.Conflict {
		t.Errorf("a command: %v", err)
	}
	m.Text, m.Conversation, m.ID = "other room", "local/y", "k"
	if r := h.accept(m); r.Duplicate {
		t.Error("a request id counts within its conversation")
	}
}

func TestAMemberWhoFloodsIsToldAndCommandsAreNotCounted(t *testing.T) {
	h := newHouse(t, Options{Rate: Rate{Messages: 2, Per: time.Hour}})
	m := h.from("ben", "one")
	h.accept(m)
	h.accept(h.from("ben", "two"))
	if r := h.accept(h.from("ben", "three")); r.Outcome != Refused || !strings.Contains(r.Reply, "rate limit") {
		t.Errorf("%+v", r)
	}
	if r := h.accept(h.from("ben", "/status")); r.Outcome != Commanded {
		t.Errorf("a command: %+v", r)
	}
	if r := h.accept(m); r.Outcome != Repeated {
		t.Errorf("a redelivery: %+v", r)
	}
	if r := h.say("the owner is not limited"); r.Outcome == Refused {
		t.Errorf("%+v", r)
	}
}

func TestTheRateIsASlidingWindowPerPerson(t *testing.T) {
	l, rate := newLimiter(), Rate{Messages: 2, Per: time.Minute}
	at := time.Unix(0, 0)
	for i, tt := range []struct {
		who   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true}, {"a", 30 * time.Second, true}, {"a", 59 * time.Second, false}, {"b", 59 * time.Second, true},
		{"a", 60 * time.Second, true}, {"a", 61 * time.Second, false}, {"a", 90 * time.Second, true},
	} {
		if got := l.allow(tt.who, rate, at.Add(tt.after)); got != tt.want {
			t.Errorf("%d: %s after %s: %v", i, tt.who, tt.after, got)
		}
	}
}
