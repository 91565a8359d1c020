package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

type askOptions struct {
	goOn         bool
	conversation string
	files        []string
	timeout      time.Duration
	asJSON       bool
}

func askCommand() *cobra.Command {
	var o askOptions
	c := &cobra.Command{
		Use:   "ask [TEXT|-]",
		Short: "Ask one question and print the answer",
		Long: `Ask one question and print the answer. Standard input, if it is not a terminal,
is added to the text; "-" reads the whole text from it:

  mercury ask "what is in my workspace?"
  git diff | mercury ask "review this"
  mercury ask --file report.txt "sum this up"

Its files are those of the workspace (~/mercury), wherever you ask from; another
folder is named in the question, and reading there asks you first.

A running Mercury is used if there is one; otherwise one runs for this question
alone. Exit codes: 3 not configured, 4 a decision is needed (see mercury
questions), 5 still working when the time ran out.`,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := question(args, c.InOrStdin())
			if err != nil {
				return err
			}
			return ask(c, text, o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.goOn, "continue", false, "go on in the conversation that was last active")
	f.StringVar(&o.conversation, "conversation", "", "conversation to ask in (default a new one)")
	f.StringArrayVar(&o.files, "file", nil, "file to name to the model; may be repeated")
	f.DurationVar(&o.timeout, "timeout", 0, "how long to wait for the answer, such as 90s (default no limit)")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object: answer, state, conversation_id, run_id, usage")
	c.MarkFlagsMutuallyExclusive("continue", "conversation")
	return c
}

// question puts the text together from the arguments and standard input.
func question(args []string, stdin io.Reader) (string, error) {
	text := strings.Join(args, " ")
	if text != "" && text != "-" && !piped(stdin) {
		return text, nil
	}
	if text == "" && !piped(stdin) {
		return "", usage("what should be asked? mercury ask TEXT, or mercury ask - to read it from standard input")
	}
	in, err := io.ReadAll(io.LimitReader(stdin, 1<<20+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if text == "-" {
		text = ""
	}
	text = strings.TrimSpace(text + "\n\n" + strings.TrimRight(string(in), "\n"))
	if text == "" {
		return "", usage("what should be asked? The text and standard input are empty")
	}
	return text, nil
}

// piped reports whether standard input brings something: a pipe or a file,
// but not a terminal and not the null device.
func piped(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

func ask(c *cobra.Command, text string, o askOptions) error {
	ctx := c.Context()
	if o.timeout < 0 {
		return usage("--timeout %s: a time to wait is not negative", o.timeout)
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	files, err := attachments(o.files)
	if err != nil {
		return err
	}
	home, cfg, cfgErr := loadConfig(ctx)
	conversation := o.conversation
	if conversation == "" && !o.goOn {
		conversation = "ask-" + strings.TrimPrefix(mercury.NewID("c"), "c_")[:16]
	}
	if conversation != "" {
		conversation = mercury.LocalConversation(conversation)
	}
	r, err := attachOrRun(ctx, home, func() (daemon.Options, error) {
		if cfgErr != nil {
			return daemon.Options{}, cfgErr
		}
		return daemon.Options{Home: home, Config: cfg, Version: version, Helper: helper(), Only: conversation, OnlyLatest: o.goOn,
			AnyPort: true, Log: logger(c.ErrOrStderr(), quieter(cfg.Log.Level))}, nil
	})
	if err != nil {
		return err
	}
	defer r.close()
	if o.goOn {
		if conversation, err = latest(ctx, r.Client); err != nil {
			return err
		}
	}
	a := asking{r: r, conversation: conversation, out: c.OutOrStdout(), err: c.ErrOrStderr(), json: o.asJSON}
	a.stream, a.width = !o.asJSON && isTerminal(a.out), columns(a.err)
	if isTerminal(c.InOrStdin()) && isTerminal(a.err) && !o.asJSON {
		a.person = bufio.NewReader(c.InOrStdin())
	}
	err = a.run(ctx, client.Message{Text: text, RequestID: mercury.NewID("rq"), Files: files})
	switch kept := "it is kept and goes on while a Mercury runs.\nSee it: mercury conversations show " + conversation; {
	case errors.Is(err, context.DeadlineExceeded) && o.timeout > 0:
		return a.unfinished(exitWorking, "working", "still working after "+o.timeout.String()+"; "+kept)
	case errors.Is(err, context.Canceled) && a.run_ != "":
		a.breakLine()
		return a.unfinished(exitWorking, "working", "interrupted; "+kept+"\nEnd it: mercury runs cancel "+a.run_)
	}
	return err
}

// quieter keeps a one-shot command's log out of the way of its answer.
func quieter(level string) string {
	if level == "debug" {
		return level
	}
	return "error"
}

func attachments(paths []string) ([]mercury.File, error) {
	var files []mercury.File
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, usage("file %s: %v", p, err)
		}
		info, err := os.Stat(abs)
		if err != nil {
			return nil, usage("file %s: %v", p, errors.Unwrap(err))
		}
		files = append(files, mercury.File{Name: info.Name(), Path: abs, Size: info.Size()})
	}
	return files, nil
}

// latest is the local conversation that was last active.
func latest(ctx context.Context, c *client.Client) (string, error) {
	page, err := c.Conversations(ctx, url.Values{"limit": {"1000"}})
	if err != nil {
		return "", err
	}
	for _, conversation := range page.Items {
		if mercury.ChannelOf(conversation.ID) == "local" {
			return conversation.ID, nil
		}
	}
	return "", usage("there is no conversation to continue yet; ask without --continue")
}

// asking is one question on its way.
type asking struct {
	r            *running
	conversation string
	out, err     io.Writer
	json         bool
	stream       bool          // print the answer as it comes
	width        func() int    // columns of the terminal; nil where there is none
	person       *bufio.Reader // nil: nobody is there to decide

	input string
	run_  string
	wrote bool
}

// answer is what --json prints.
type answer struct {
	Answer         string `json:"answer"`
	State          string `json:"state"`
	ConversationID string `json:"conversation_id"`
	RunID          string `json:"run_id"`
	Usage          struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error    string        `json:"error,omitempty"`
	Question *api.Question `json:"question,omitempty"`
}

// run sends the message and follows it to its end.
func (a *asking) run(ctx context.Context, m client.Message) error {
	ready := make(chan struct{})
	events := make(chan client.Event)
	broken := make(chan error, 1)
	ectx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for ev, err := range a.r.Events(ectx, a.conversation, "", func() { close(ready) }) {
			if err != nil {
				broken <- err
				return
			}
			select {
			case events <- ev:
			case <-ectx.Done():
				return
			}
		}
	}()
	select {
	case <-ready:
	case err := <-broken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	// What was asked is stored even if the time runs out just now: whoever is
	// told that it is kept can rely on that.
	sctx, cancelSend := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancelSend()
	sent, err := a.r.Send(sctx, a.conversation, m)
	if err != nil {
		return err
	}
	if sent.Outcome == "command" || sent.Outcome == "answer" {
		return a.print(answer{Answer: sent.Reply, State: "done", ConversationID: a.conversation})
	}
	a.input = sent.InputID
	if sent.RunID != nil {
		a.run_ = *sent.RunID
	}
	if done, err := a.check(ctx); done || err != nil {
		return err
	}
	for {
		select {
		case ev := <-events:
			done, err := a.event(ctx, ev)
			if done || err != nil {
				return err
			}
		case err := <-broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// event shows what belongs to our run and reports whether that was the end.
func (a *asking) event(ctx context.Context, ev client.Event) (bool, error) {
	switch ev.Type {
	case "entry": // a message that waited its turn learns its run from its entry
		var e api.Entry
		if json.Unmarshal(ev.Data, &e) == nil && e.InputID == a.input && e.RunID != "" {
			a.run_ = e.RunID
		}
		switch ours := e.RunID == a.run_ && a.run_ != ""; {
		case ours && a.stream && e.Kind == string(mercury.ToolCallEntry):
			a.line("→ " + e.Tool + " " + tui.Args(e.Args))
		case ours && !e.Hidden && e.Kind == string(mercury.NoteEntry):
			a.note(e.Text)
		}
	case "delta":
		var d struct {
			Text    string `json:"text"`
			Restart bool   `json:"restart"`
		}
		if a.stream && ev.RunID == a.run_ && json.Unmarshal(ev.Data, &d) == nil {
			if d.Restart {
				a.line("(once more)")
			}
			fmt.Fprint(a.out, tui.Safe(d.Text))
			a.wrote = a.wrote || d.Text != ""
		}
	case "question", "run", "reset":
		return a.check(ctx)
	}
	return false, nil
}

// line prints a remark beside the answer.
func (a *asking) line(s string) {
	a.breakLine()
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	fmt.Fprintln(a.err, tui.Safe(s))
}

// note prints what Mercury itself has to say about the work, such as that the
// model cannot be reached, beside the answer and whole.
func (a *asking) note(s string) {
	a.breakLine()
	fmt.Fprintln(a.err, tui.Wrap("· "+tui.Safe(s), a.columns()))
}

// breakLine ends the line that the answer has begun.
func (a *asking) breakLine() {
	if a.wrote {
		fmt.Fprintln(a.out)
		a.wrote = false
	}
}

func (a *asking) columns() int {
	if a.width == nil {
		return 0
	}
	return a.width()
}

// check looks where the run stands: at its end it prints the answer, at a
// question it asks the person or leaves.
func (a *asking) check(ctx context.Context) (bool, error) {
	if a.run_ == "" {
		return false, nil
	}
	r, err := a.r.Run(ctx, a.run_)
	if err != nil {
		return false, err
	}
	if mercury.RunState(r.State) == mercury.RunWaiting {
		return a.decide(ctx)
	}
	if mercury.RunState(r.State).Live() {
		return false, nil
	}
	text, err := a.answerText(ctx)
	if err != nil {
		return false, err
	}
	out := answer{Answer: text, State: r.State, ConversationID: a.conversation, RunID: r.ID, Error: r.Error}
	out.Usage.Input, out.Usage.Output = r.Usage.Input, r.Usage.Output
	if err := a.print(out); err != nil {
		return false, err
	}
	if r.State == string(mercury.RunDone) {
		return true, nil
	}
	code := exitFailed
	if strings.Contains(r.Code, "setup") || strings.Contains(r.Code, "auth") {
		code = exitSetup
	}
	reason := r.Error
	if reason == "" {
		reason = "the run ended " + r.State
	}
	if mercury.RunState(r.State) == mercury.RunDead {
		if with := strings.Replace(reason, "`mercury runs replay`", "`mercury runs replay "+r.ID+"`", 1); with != reason {
			reason = with
		} else {
			reason += "\nThe question is kept: mercury runs replay " + r.ID
		}
	}
	return true, &exit{code: code, err: errors.New(reason)}
}

// answerText is the last thing the model said in the run.
func (a *asking) answerText(ctx context.Context) (string, error) {
	entries, err := a.r.Entries(ctx, a.conversation, 0)
	text := ""
	for _, e := range entries {
		if e.RunID == a.run_ && e.Kind == string(mercury.AssistantEntry) && !e.Hidden && e.Text != "" {
			text = e.Text
		}
	}
	return text, err
}

// decide puts the run's open questions to the person at the terminal; without
// one it says how they can be answered and leaves the run parked.
func (a *asking) decide(ctx context.Context) (bool, error) {
	page, err := a.r.Questions(ctx, false)
	if err != nil {
		return false, err
	}
	for _, q := range page.Items {
		if q.RunID != a.run_ {
			continue
		}
		if a.person == nil {
			q := q
			if a.json {
				out := answer{State: "waiting", ConversationID: a.conversation, RunID: a.run_, Question: &q}
				if err := a.print(out); err != nil {
					return false, err
				}
			}
			yes := "mercury questions answer " + q.ID + " once   (or run, hour, always, no)"
			if q.Kind != "approval" {
				yes = "mercury questions answer " + q.ID + " ANSWER"
			}
			return true, &exit{code: exitApproval, err: fmt.Errorf("a decision is needed: %s\n%s\nThe run waits for it: %s", q.Title, q.Body, yes)}
		}
		a.breakLine()
		tui.Card(a.err, q, isTerminal(a.err) && os.Getenv("NO_COLOR") == "", a.columns())
		reply, ok := "", false
		for !ok {
			line, err := a.read(ctx)
			if err != nil {
				fmt.Fprintln(a.err)
				return true, &exit{code: exitApproval, err: fmt.Errorf("nobody answered; the run waits for it: mercury questions answer %s ANSWER", q.ID)}
			}
			if reply, ok = tui.AnswerTo(q, line); !ok {
				fmt.Fprint(a.err, "  that is none of the answers; which one? ")
			}
		}
		var late *client.Error
		if _, err := a.r.Answer(ctx, q.ID, reply); errors.As(err, &late) {
			a.line(late.Detail)
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// read returns the next line that the person types, or the error that ended
// the waiting for it.
func (a *asking) read(ctx context.Context) (string, error) {
	type typed struct {
		line string
		err  error
	}
	next := make(chan typed, 1)
	go func() {
		line, err := a.person.ReadString('\n')
		next <- typed{line, err}
	}()
	select {
	case t := <-next:
		return t.line, t.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// unfinished reports a run that did not end while somebody waited.
func (a *asking) unfinished(code int, state, text string) error {
	if a.json {
		_ = a.print(answer{State: state, ConversationID: a.conversation, RunID: a.run_})
	}
	return &exit{code: code, err: errors.New(text)}
}

func (a *asking) print(out answer) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(out)
	}
	if a.stream && a.wrote {
		_, err := fmt.Fprintln(a.out)
		return err
	}
	if out.Answer == "" {
		return nil
	}
	text := out.Answer
	if isTerminal(a.out) {
		text = tui.Safe(text)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}
