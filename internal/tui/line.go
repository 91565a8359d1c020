// Package tui is the terminal: a client of the API that shows one
// conversation and says in it what a person types. It keeps nothing; whatever
// runs goes on when the terminal closes.
package tui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Line is the terminal line by line: it works on any terminal, at any width,
// through a pipe and with a screen reader, since it never redraws.
type Line struct {
	// Client speaks to the runtime. Reconnect, if not nil, is asked for a new
	// one after the stream broke: the runtime may have come back elsewhere.
	Client    *client.Client
	Reconnect func(context.Context) (*client.Client, error)

	Conversation string
	Lines        <-chan string // what is typed, from ReadLines
	Out          io.Writer
	Color        bool
	Prompt       string // shown when a line is awaited; default "> "
	// Quit are the lines that leave, besides the end of the input.
	Quit []string
	// Heard is told each event after it was shown; it may be nil. Typed is
	// asked for each line before it is sent: false keeps it from being sent.
	Heard func(client.Event)
	Typed func(line string) bool

	mu       sync.Mutex
	seq      int64             // last entry shown
	open     []api.Question    // waiting for an answer here, oldest first
	asked    time.Time         // when the first of them was shown
	streamed strings.Builder   // deltas since the last entry
	missed   bool              // the stream broke: the deltas may lack their beginning
	column   bool              // the cursor is inside a line
	tools    map[string]string // call id to tool
}

// Run shows the conversation and sends what is typed, until the input ends,
// a quit line is typed or ctx ends.
func (l *Line) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Prompt == "" {
		l.Prompt = "> "
	}
	l.tools = map[string]string{}
	if c, err := l.Client.Conversation(ctx, l.Conversation); err == nil {
		l.seq = c.LastSeq
	}
	ready := make(chan struct{})
	var once sync.Once
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.watch(ctx, func() { once.Do(func() { close(ready) }) })
	}()
	select {
	case <-ready:
	case <-time.After(5 * time.Second):
		return errors.New("the runtime does not answer")
	case <-ctx.Done():
		return nil
	}
	err := l.read(ctx)
	cancel()
	<-done
	return err
}

// ReadLines returns the lines of in as they come. The channel closes at the
// end of in. One call serves everyone who reads in after another: a line that
// was read and not taken waits for the next.
func ReadLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			lines <- scan.Text()
		}
	}()
	return lines
}

func (l *Line) read(ctx context.Context) error {
	l.prompt()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-l.Lines:
			if !ok {
				return nil
			}
			for _, q := range l.Quit {
				if strings.TrimSpace(line) == q {
					return nil
				}
			}
			l.typed(ctx, line)
		}
	}
}

// typed answers the open question, else says the line in the conversation.
func (l *Line) typed(ctx context.Context, line string) {
	l.mu.Lock()
	l.column = false
	var q api.Question
	// What was typed before the card could be read is no answer to it.
	if len(l.open) > 0 && time.Since(l.asked) > 150*time.Millisecond {
		q = l.open[0]
	}
	l.mu.Unlock()
	if q.ID != "" && !strings.HasPrefix(line, "/") {
		if answer, ok := AnswerTo(q, line); ok {
			l.answer(ctx, q, answer)
			return
		}
	}
	if strings.TrimSpace(line) == "" {
		l.prompt()
		return
	}
	if l.Typed != nil && !l.Typed(line) {
		return
	}
	sent, err := l.client().Send(ctx, l.Conversation, client.Message{Text: line, RequestID: mercury.NewID("rq"), Mode: string(mercury.Steer)})
	switch {
	case err != nil:
		l.say("! not sent: " + err.Error())
	case sent.Reply != "":
		l.say(sent.Reply)
		l.prompt()
	case sent.Outcome == "steered":
		l.say("  (joins the work in hand after its current step)")
	case sent.Outcome == "queued":
		l.say("  (waits its turn)")
	}
}

func (l *Line) answer(ctx context.Context, q api.Question, answer string) {
	if _, err := l.client().Answer(ctx, q.ID, answer); err != nil {
		l.say("! " + err.Error())
	}
	l.settled(q.ID)
}

// AnswerTo reads what a person typed at a card. Enter alone is no to an
// approval; a word that is no answer there is an ordinary message.
func AnswerTo(q api.Question, line string) (string, bool) {
	line = strings.ToLower(strings.TrimSpace(line))
	if q.Kind != "approval" {
		for i, c := range q.Choices {
			if line == fmt.Sprint(i+1) || line == strings.ToLower(c.Value) || line == strings.ToLower(c.Label) {
				return c.Value, true
			}
		}
		return line, line != "" && (q.Kind == "text" || q.Kind == "choice")
	}
	switch line {
	case "", "n", "no":
		return mercury.AnswerNo, true
	case "y", "yes", "once":
		return mercury.AnswerOnce, true
	case "r", "run":
		return mercury.AnswerRun, true
	case "h", "hour":
		return mercury.AnswerHour, true
	case "a", "always":
		return mercury.AnswerAlways, true
	}
	return "", false
}

func (l *Line) client() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Client
}

// watch follows the event stream and joins it again when it breaks.
func (l *Line) watch(ctx context.Context, ready func()) {
	after, broken := "", false
	for ctx.Err() == nil {
		for ev, err := range l.client().Events(ctx, l.Conversation, after, func() {
			if broken {
				l.say("  (connected again)")
				broken = false
			}
			l.catchUp(ctx)
			ready()
		}) {
			if err != nil {
				break
			}
			after = ev.ID
			if ev.Type == "reset" {
				l.catchUp(ctx)
				continue
			}
			l.show(ev)
			if l.Heard != nil {
				l.Heard(ev)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if !broken {
			l.say("  (the runtime is gone; waiting for it. Nothing you sent is lost)")
			broken = true
		}
		l.mu.Lock()
		l.streamed.Reset()
		l.missed = true
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
		if l.Reconnect != nil {
			if c, err := l.Reconnect(ctx); err == nil {
				l.mu.Lock()
				l.Client = c
				l.mu.Unlock()
			}
		}
	}
}

// catchUp shows what was written while nobody listened, and the questions
// that wait here.
func (l *Line) catchUp(ctx context.Context) {
	l.mu.Lock()
	after := l.seq
	l.mu.Unlock()
	entries, err := l.client().Entries(ctx, l.Conversation, after)
	if err == nil {
		for _, e := range entries {
			l.entry(e)
		}
	}
	questions, err := l.client().Questions(ctx, false)
	if err != nil {
		return
	}
	for _, q := range questions.Items {
		if q.ConversationID == l.Conversation {
			l.question(q)
		}
	}
}

func (l *Line) show(ev client.Event) {
	switch ev.Type {
	case "delta":
		var d struct {
			Text    string `json:"text"`
			Restart bool   `json:"restart"`
		}
		if json.Unmarshal(ev.Data, &d) == nil {
			l.delta(d.Text, d.Restart)
		}
	case "entry":
		var e api.Entry
		if json.Unmarshal(ev.Data, &e) == nil && e.Kind != "" {
			l.entry(e)
		}
	case "question":
		var q api.Question
		if json.Unmarshal(ev.Data, &q) != nil || q.ID == "" {
			return
		}
		if q.State == string(mercury.QuestionOpen) {
			l.question(q)
		} else {
			l.settled(q.ID)
		}
	case "run":
		var r api.Run
		if json.Unmarshal(ev.Data, &r) == nil && !mercury.RunState(r.State).Live() {
			l.prompt()
		}
	}
}

func (l *Line) delta(text string, restart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if restart {
		l.newline()
		fmt.Fprintln(l.Out, l.dim("  (once more)"))
		l.streamed.Reset()
		return
	}
	if l.streamed.Len() == 0 {
		l.newline()
	}
	l.streamed.WriteString(text)
	fmt.Fprint(l.Out, Safe(text))
	l.column = !strings.HasSuffix(text, "\n")
}

// entry shows one finished line of the conversation, once.
func (l *Line) entry(e api.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Seq <= l.seq {
		return
	}
	l.seq = e.Seq
	switch mercury.EntryKind(e.Kind) {
	case mercury.AssistantEntry:
		shown, missed := l.streamed.String(), l.missed
		l.streamed.Reset()
		l.missed = false
		if e.Hidden {
			if e.Text != "" {
				l.newline()
				fmt.Fprintln(l.Out, l.dim("  (broken off here; what follows begins again)"))
			}
			return
		}
		if rest, ok := strings.CutPrefix(e.Text, shown); ok && shown != "" {
			fmt.Fprint(l.Out, Safe(rest))
			l.column = true
		} else if e.Text != "" && !(missed && shown != "" && strings.HasSuffix(e.Text, shown)) {
			l.newline()
			fmt.Fprint(l.Out, Safe(e.Text))
			l.column = true
		}
		l.newline()
	case mercury.ToolCallEntry:
		l.tools[e.CallID] = e.Tool
		l.newline()
		fmt.Fprintln(l.Out, l.dim("→ "+e.Tool+" "+brief(string(e.Args), 100)))
	case mercury.ToolResultEntry:
		mark := "✓ "
		if e.Failed {
			mark = "× "
		}
		l.newline()
		name := e.Tool
		if name == "" {
			name = l.tools[e.CallID]
		}
		fmt.Fprintln(l.Out, l.dim(mark+name+": "+brief(e.Result, 100)))
		if e.Diff != "" {
			fmt.Fprintln(l.Out, Safe(strings.TrimRight(e.Diff, "\n")))
		}
	case mercury.NoteEntry:
		if !e.Hidden && e.Text != "" {
			l.newline()
			fmt.Fprintln(l.Out, l.dim("· "+Safe(e.Text)))
		}
	}
}

func (l *Line) question(q api.Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.open {
		if known.ID == q.ID {
			return
		}
	}
	l.open = append(l.open, q)
	if len(l.open) == 1 {
		l.asked = time.Now()
	}
	l.newline()
	Card(l.Out, q, l.Color)
	l.column = true
}

// Card prints a question: what and why first, then the exact thing, then what
// can be answered.
func Card(w io.Writer, q api.Question, color bool) {
	title := "? " + Safe(q.Title)
	if color {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintln(w, title)
	for line := range strings.Lines(Safe(q.Body)) {
		fmt.Fprintln(w, "    "+strings.TrimRight(line, "\n"))
	}
	if q.Kind == "approval" {
		always := "  a always"
		if q.Always != "" {
			always += " (" + Safe(q.Always) + ")"
		}
		fmt.Fprint(w, "  y once  r this run  h one hour"+always+"  Enter no: ")
		return
	}
	for i, c := range q.Choices {
		fmt.Fprintf(w, "  %d %s\n", i+1, Safe(c.Label))
	}
	fmt.Fprint(w, "  answer: ")
}

func (l *Line) settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.open {
		if q.ID == id {
			l.open = append(l.open[:i:i], l.open[i+1:]...)
			l.asked = time.Now()
			return
		}
	}
}

func (l *Line) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newline()
	fmt.Fprintln(l.Out, Safe(text))
}

func (l *Line) prompt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		return
	}
	l.newline()
	fmt.Fprint(l.Out, l.Prompt)
	l.column = l.Prompt != ""
}

// newline ends a line that was begun.
func (l *Line) newline() {
	if l.column {
		fmt.Fprintln(l.Out)
		l.column = false
	}
}

func (l *Line) dim(s string) string {
	if !l.Color {
		return Safe(s)
	}
	return "\x1b[2m" + Safe(s) + "\x1b[0m"
}

// Safe makes text from outside harmless on a terminal: control characters
// other than line feed and tab are shown, not obeyed.
func Safe(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		case r == '\u202a' || r == '\u202b' || r == '\u202d' || r == '\u202e' || r == '\u2066' || r == '\u2067' || r == '\u2068':
			return '\uFFFD' // direction overrides make text read as what it is not
		}
		return r
	}, s)
}

func brief(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
