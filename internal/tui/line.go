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
	// Quiet leaves out the prompt: what is read is not typed here.
	Quiet bool
	// Width returns the columns of the terminal, asked whenever something is
	// shown; nil or 0 leaves the breaking of lines to the terminal.
	Width func() int
	// Quit are the lines that leave, besides the end of the input.
	Quit []string
	// Heard is told each event after it was shown; it may be nil. Typed is
	// given each line before it is sent and returns what to send in its
	// place; empty sends nothing.
	Heard func(client.Event)
	Typed func(line string) string

	mu       sync.Mutex
	text     fold              // where the answer is written
	busy     bool              // a run is live here
	sending  bool              // a line is on its way; the prompt follows what comes of it
	owed     bool              // a prompt was due meanwhile
	command  string            // the last line sent, as its record reads
	mine     map[string]bool   // inputs that were typed here
	unsure   []api.Entry       // what was said while a line was on its way: maybe that line
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
	l.tools, l.mine, l.text.out = map[string]string{}, map[string]bool{}, l.Out
	if c, err := l.Client.Conversation(ctx, l.Conversation); err == nil {
		l.seq, l.busy = c.LastSeq, c.RunID != ""
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
	l.mu.Lock()
	unexplained := l.busy && len(l.open) == 0
	l.mu.Unlock()
	if unexplained {
		l.say("  (work is in hand here: /status says what, /stop ends it)")
	}
	err := l.read(ctx)
	cancel()
	<-done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newline() // the shell's own prompt begins a line
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
					l.mu.Lock()
					l.enter()
					l.mu.Unlock()
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
	l.enter()
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
	if l.Typed != nil {
		if line = l.Typed(line); line == "" {
			return
		}
	}
	l.mu.Lock()
	l.sending, l.owed, l.command = true, false, "["+strings.TrimSpace(line)+"]"
	l.mu.Unlock()
	sent, err := l.client().Send(ctx, l.Conversation, client.Message{Text: line, RequestID: mercury.NewID("rq"), Mode: string(mercury.Steer)})
	l.mu.Lock()
	l.sending = false
	l.mine[sent.InputID] = true
	for _, e := range l.unsure {
		l.said(e)
	}
	l.unsure = nil
	owed := l.owed
	l.mu.Unlock()
	switch {
	case err != nil:
		l.say("! not sent: " + err.Error())
		owed = true
	case sent.Reply != "":
		l.say(sent.Reply)
		if word := strings.TrimSpace(line); word == "/help" || word == "/start" {
			l.say("/quit – leave; what is in hand is kept")
		}
		owed = true
	case sent.Outcome == "steered":
		l.say("  (joins the work in hand after its current step)")
	case sent.Outcome == "queued":
		l.say("  (waits its turn)")
	}
	if owed {
		l.prompt()
	}
}

func (l *Line) answer(ctx context.Context, q api.Question, answer string) {
	if _, err := l.client().Answer(ctx, q.ID, answer); err != nil {
		l.say("! " + err.Error())
	}
	l.settled(q.ID)
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
			again := broken
			if broken {
				l.say("  (connected again)")
				broken = false
				l.mu.Lock()
				l.open = nil // shown again below, if they still wait
				l.mu.Unlock()
			}
			l.catchUp(ctx)
			if again {
				l.prompt()
			}
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
	if c, err := l.client().Conversation(ctx, l.Conversation); err == nil {
		l.mu.Lock()
		l.busy = c.RunID != ""
		l.mu.Unlock()
	}
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
		if mercury.ChatOf(q.ConversationID) == l.Conversation {
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
		if json.Unmarshal(ev.Data, &r) != nil {
			return
		}
		l.mu.Lock()
		l.busy = mercury.RunState(r.State).Live()
		ended := !l.busy
		l.mu.Unlock()
		if ended {
			l.prompt()
		}
	}
}

func (l *Line) delta(text string, restart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if restart {
		l.newline()
		l.remark("  (once more)")
		l.streamed.Reset()
		return
	}
	if l.streamed.Len() == 0 {
		l.newline()
	}
	l.streamed.WriteString(text)
	l.put(text)
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
	case mercury.UserEntry:
		if l.sending {
			l.unsure = append(l.unsure, e)
		} else {
			l.said(e)
		}
	case mercury.AssistantEntry:
		shown, missed := l.streamed.String(), l.missed
		l.streamed.Reset()
		if e.Hidden { // what comes next may have begun already, so missed stays
			if e.Text != "" {
				l.newline()
				l.remark("  (broken off here; what follows begins again)")
			}
			return
		}
		l.missed = false
		// What is kept has lost the blanks around it.
		text, seen := strings.TrimSpace(e.Text), strings.TrimSpace(shown)
		rest, whole := strings.CutPrefix(text, seen)
		head, ended := strings.CutSuffix(text, seen)
		switch {
		case text == "":
		case seen != "" && whole:
			if rest != "" {
				l.put(rest)
			}
		case seen != "" && missed && ended:
			l.newline()
			l.remark("  (it began: " + strings.TrimSpace(head) + ")")
		default:
			l.newline()
			l.put(e.Text)
		}
		l.newline()
	case mercury.ToolCallEntry:
		l.tools[e.CallID] = e.Tool
		l.newline()
		l.remark("→ " + e.Tool + " " + brief(Args(e.Args), 100))
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
		l.remark(mark + name + ": " + brief(strings.TrimPrefix(e.Result, name+": "), 100))
		if diff := hunks(e.Diff); diff != "" {
			fmt.Fprintln(l.Out, Safe(diff))
		}
	case mercury.NoteEntry:
		if !e.Hidden && e.Text != "" && e.Text != l.command {
			l.newline()
			l.remark("· " + e.Text)
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
	Card(l.Out, q, l.Color, l.width())
	l.column = true
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
