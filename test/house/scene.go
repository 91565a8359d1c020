//go:build unix

package house

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

// Canaries are the files to which the scene's Once commands append a line,
// by the conversation that runs them.
var Canaries = map[string]string{
	"local/once": "once.canary",
	"relay/ann":  "asked.canary",
	"local/duo":  "duo.canary",
}

// onceCommand says that it runs, waits for a word from outside, and leaves its
// mark. It goes on when Mercury is killed, as commands do.
const onceCommand = `echo started >> once.started; until [ -e once.go ]; do sleep 0.01; done; echo mark >> once.canary; echo marked`

func call(name string, args any) llmtest.Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // maps of strings
	}
	return llmtest.Call{Name: name, Args: b}
}

func read(path string) llmtest.Call { return call("read_file", map[string]string{"path": path}) }

func command(text string) llmtest.Call {
	return call("run_command", map[string]string{"command": text})
}

// SceneScript is the model's part of the scene.
func SceneScript() llmtest.Script {
	var long strings.Builder
	for i := range 180 {
		fmt.Fprintf(&long, "Line %03d of the long story, which goes on and on without end.\n\n", i)
	}
	return llmtest.Script{NeedsThought: true, Rules: []llmtest.Rule{
		{Match: "^reads: look", Reasoning: "Both at once.", Tools: []llmtest.Call{read("a.txt"), read("b.txt")}},
		{Match: "^reads: look", After: "bravo", Reply: "reads: seen both"},
		{Match: "^reads: more", Reply: "reads: nothing more"},
		{Match: "^once: mark", Tools: []llmtest.Call{command(onceCommand)}},
		{Match: "^once: mark", After: ".", Reply: "once: marked"},
		{Match: "^once: hurry", Reply: "once: marked in a hurry"},
		{Match: "^duo: work", Tools: []llmtest.Call{command("echo duo >> duo.canary"), read("a.txt"), read("b.txt")}},
		{Match: "^duo: work", After: "^blue$", Reply: "duo: blue it is"},
		{Match: "^duo: work", After: "bravo", Tools: []llmtest.Call{call("ask_user", map[string]any{"question": "Which colour?"})}},
		{Match: "^flaky: after", Reply: "flaky: still there"},
		{Match: "^flaky: try", Fault: "500", Times: 1},
		{Match: "^flaky: try", Reply: "flaky: worked at last"},
		{Match: "^story: tell", Reply: long.String()},
		{Match: "^asked: mark", Tools: []llmtest.Call{command("echo mark >> asked.canary")}},
		{Match: "^asked: mark", After: ".", Reply: "asked: marked"},
		{Match: "^asked: hurry", Reply: "asked: marked in a hurry"},
		// What was said before a stop has no answer, so it stands in the same
		// message as what is said after it.
		{Match: "after: go on", Reply: "after: here I am"},
		{Match: "^slow: think", Reply: "slow: " + strings.Repeat("and so on ", 2000), TokenMS: 20},
	}}
}

// Quick is the script without what takes time: thinking that a new server
// would not know as its own, failures, slow answers.
func Quick(s llmtest.Script) llmtest.Script {
	rules := make([]llmtest.Rule, 0, len(s.Rules))
	for _, r := range s.Rules {
		if r.Fault != "" {
			continue
		}
		r.Reasoning, r.TokenMS = "", 0
		rules = append(rules, r)
	}
	s.Rules, s.NeedsThought = rules, false
	return s
}

// Play runs the scene: three conversations through the API and two over the
// bridge, side by side. It says each thing once, however often the process
// dies meanwhile, and returns when nothing is left to do.
func (w *World) Play(ctx context.Context) error {
	if err := w.Furnish(); err != nil {
		return err
	}
	answers, enough := context.WithCancel(ctx)
	defer enough()
	var answering errgroup.Group
	answering.Go(func() error { return w.Answering(answers, "blue") })
	g, gctx := errgroup.WithContext(ctx)
	for name, act := range map[string]func(context.Context) error{
		"reads": w.reads, "once": w.once, "duo": w.duo, "flaky": w.flaky, "ann": w.ann, "den": w.den,
	} {
		g.Go(func() error {
			if err := act(gctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := w.Quiescent(ctx); err != nil {
		return fmt.Errorf("wait for the end of all work: %w", err)
	}
	enough()
	return answering.Wait()
}

// Furnish writes the files that the scene reads.
func (w *World) Furnish() error {
	for name, text := range map[string]string{"a.txt": "alpha\n", "b.txt": "bravo\n"} {
		if err := os.WriteFile(w.Path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Conversations are those of the scene.
func Conversations() []string {
	return []string{"local/reads", "local/once", "local/duo", "local/flaky", "relay/ann", "relay/den"}
}

// Finish answers what is asked until nothing is left to do.
func (w *World) Finish(ctx context.Context) error {
	w.Free(Conversations()...)
	answers, enough := context.WithCancel(ctx)
	defer enough()
	answered := make(chan error, 1)
	go func() { answered <- w.Answering(answers, "blue") }()
	if err := w.Quiescent(ctx); err != nil {
		return fmt.Errorf("wait for the end of all work: %w", err)
	}
	enough()
	return <-answered
}

// reads: two parallel tools, a follow-up behind them, a command.
func (w *World) reads(ctx context.Context) error {
	return inOrder(
		func() error { return w.Say(ctx, "reads", "reads: look at both", "follow-up") },
		func() error { return w.Say(ctx, "reads", "reads: more", "follow-up") },
		func() error { return w.Say(ctx, "reads", "/status", "") },
		func() error { return w.Quiet(ctx, "local/reads") },
	)
}

// once: an approval, a command that a steer overtakes.
func (w *World) once(ctx context.Context) error {
	if err := w.Say(ctx, "once", "once: mark it", "follow-up"); err != nil {
		return err
	}
	if _, err := w.Asked(ctx, "local/once"); err != nil {
		return err
	}
	w.Free("local/once")
	err := Until(ctx, func() (bool, error) {
		busy, err := w.Busy(ctx, "local/once")
		return w.Exists("once.started") || !busy, err
	})
	if err != nil {
		return err
	}
	if err := w.released(ctx, "once"); err != nil {
		return err
	}
	if err := w.Say(ctx, "once", "once: hurry", "steer"); err != nil {
		return err
	}
	if err := os.WriteFile(w.Path("once.go"), nil, 0o600); err != nil {
		return err
	}
	return w.Quiet(ctx, "local/once")
}

// duo: parallel calls of which one asks first, then a question of the model.
func (w *World) duo(ctx context.Context) error {
	w.Free("local/duo")
	return inOrder(
		func() error { return w.Say(ctx, "duo", "duo: work", "follow-up") },
		func() error { return w.Quiet(ctx, "local/duo") },
	)
}

// flaky: the model fails, then works.
func (w *World) flaky(ctx context.Context) error {
	return inOrder(
		func() error { return w.Say(ctx, "flaky", "flaky: try", "follow-up") },
		func() error { return w.Quiet(ctx, "local/flaky") },
	)
}

// ann: an answer in several parts, then an approval with a steer before it,
// and a command, all over the bridge.
func (w *World) ann(ctx context.Context) error {
	w.Push("ann", "story: tell me")
	if err := w.Quiet(ctx, "relay/ann"); err != nil {
		return err
	}
	if err := w.Shown(ctx, "relay/ann"); err != nil {
		return err
	}
	w.Push("ann", "asked: mark it")
	if err := Until(ctx, func() (bool, error) { return w.Taken(), nil }); err != nil {
		return err
	}
	open, err := w.Asked(ctx, "relay/ann")
	if err != nil {
		return err
	}
	if !open {
		return errors.New("no approval was asked for")
	}
	w.Push("ann", "asked: hurry")
	w.Push("ann", "/status")
	if err := Until(ctx, func() (bool, error) { return w.Taken(), nil }); err != nil {
		return err
	}
	w.Free("relay/ann")
	return w.Quiet(ctx, "relay/ann")
}

// den: a slow turn is stopped, and the next one answers.
func (w *World) den(ctx context.Context) error {
	w.Push("den", "slow: think")
	if err := Until(ctx, func() (bool, error) { return w.AskedFor("slow: think"), nil }); err != nil {
		return err
	}
	if err := w.released(ctx, "den"); err != nil {
		return err
	}
	w.Push("den", "/stop")
	if err := w.Quiet(ctx, "relay/den"); err != nil {
		return err
	}
	w.Push("den", "after: go on")
	return w.Quiet(ctx, "relay/den")
}

// AskedFor reports whether the model was asked about a text.
func (w *World) AskedFor(text string) bool {
	for _, r := range w.Model.Requests() {
		if user, _, _ := llmtest.Said(r.Request); strings.HasPrefix(user, text) {
			return true
		}
	}
	return false
}

// Hold keeps an act of the scene, "once" or "den", before its last word, until
// Release: what runs, goes on running.
func (w *World) Hold(act string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[act] = true
}

// Release lets an act go on.
func (w *World) Release(act string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, act)
}

func (w *World) released(ctx context.Context, act string) error {
	return Until(ctx, func() (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.held[act], nil
	})
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// patience bounds one whole scene, deaths included.
const patience = 90 * time.Second

// Patience is a context for one scene.
func Patience() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), patience, errors.New("the scene does not end"))
}

// PlayOn plays the scene in a house that was started, and starts it again
// whenever it dies. It returns how often that was.
func (w *World) PlayOn(ctx context.Context, h *House) (deaths int, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	tending, leave := context.WithCancel(ctx)
	defer leave()
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		var err error
		if deaths, err = h.Tend(tending); err != nil {
			fail(err)
		}
	}()
	err = w.Play(ctx)
	leave()
	<-tended
	return deaths, err
}
