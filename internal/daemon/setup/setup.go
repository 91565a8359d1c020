// Package setup asks a new owner the few things Mercury cannot find out by
// itself: which model answers, the Telegram bot if there is one, and the time
// of day. Every question proposes an answer that Enter takes, and each answer
// is tried and kept at once, so that an interrupted set-up goes on where it
// was. A key is never shown and never leaves for another provider than its
// own; it is kept in .env of the home, and mercury.yaml refers to it.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// ErrLeft says that the person left before the end. What was answered is kept.
var ErrLeft = errors.New("left")

// Login starts Mercury by itself when its owner logs in.
type Login interface {
	// Installed reports whether that is so already.
	Installed(ctx context.Context) (bool, error)
	// Install makes it so. The error says what was not done.
	Install(ctx context.Context) error
}

// Options say what is set up and how to ask. Source, Ask and Out are required.
type Options struct {
	Source config.Source
	// Ask shows a question and returns the line that is typed; io.EOF at the
	// end of the input.
	Ask func(ctx context.Context, question string, veil tui.Veil) (string, error)
	Out io.Writer
	// Width is how wide Out is; nil or 0 leaves the breaking of lines to it.
	Width func() int
	// Telegram says that this Mercury talks on Telegram; without it the
	// question is left out.
	Telegram bool
	Login    Login // nil: not offered
}

// wizard is one set-up.
type wizard struct {
	o    Options
	c    *config.Config
	done progress
}

// question is one of those that are counted.
type question struct {
	name string // in the progress file
	ask  func(context.Context) error
}

// Run asks everything and keeps it. It returns ErrLeft when the person leaves,
// and io.EOF inside an error when the input ends.
func Run(ctx context.Context, o Options) error {
	w := &wizard{o: o}
	if err := w.load(); err != nil {
		return err
	}
	w.done = readProgress(o.Source.Home)
	questions := []question{{"model", w.model}}
	if o.Telegram {
		questions = append(questions, question{"telegram", w.telegram})
	}
	questions = append(questions, question{"time", w.time})
	if len(w.done) > 0 {
		w.say("Going on where it was left.")
		if w.done["model"] {
			w.say("  " + w.c.Model + " answers.")
		}
	} else {
		w.say(fmt.Sprintf("%s questions. Enter takes what is proposed; Ctrl+C leaves, and what is answered is kept.", counted(len(questions))))
	}
	for i, q := range questions {
		if w.done[q.name] {
			continue
		}
		w.say(fmt.Sprintf("\n%d of %d", i+1, len(questions)))
		if err := w.settle(ctx, q); err != nil {
			return err
		}
	}
	for _, q := range []question{{"summary", w.summary}, {"login", w.login}} {
		if w.done[q.name] {
			continue
		}
		if err := w.settle(ctx, q); err != nil {
			return err
		}
	}
	w.done.forget(o.Source.Home)
	w.say(fmt.Sprintf("\nReady: %s\nTalk to it: mercury\nSee it work without a model: mercury demo", o.Source.Home.Config()))
	return nil
}

func counted(n int) string {
	if n == 2 {
		return "Two"
	}
	return "Three"
}

// settle asks one question and notes that it is answered.
func (w *wizard) settle(ctx context.Context, q question) error {
	if err := q.ask(ctx); err != nil {
		if errors.Is(err, tui.ErrInterrupted) || ctx.Err() != nil {
			return ErrLeft // pressed at the prompt, or while there was none
		}
		return err
	}
	return w.done.add(w.o.Source.Home, q.name)
}

// load reads the configuration as it is. A file with mistakes is shown, not
// written over.
func (w *wizard) load() (err error) {
	w.c, err = config.Load(w.o.Source)
	return err
}

// keep writes settings and takes up what results.
func (w *wizard) keep(settings ...config.Setting) error {
	if err := w.o.Source.Home.Create(); err != nil {
		return err
	}
	c, err := config.Change(w.o.Source, settings...)
	if err != nil {
		return err
	}
	w.c = c
	return nil
}

func (w *wizard) say(text string) { fmt.Fprintln(w.o.Out, w.wrap(text)) }

// wrap breaks a text between its words where the output has a width.
func (w *wizard) wrap(text string) string {
	if w.o.Width != nil {
		if width := w.o.Width(); width > 0 {
			return tui.Wrap(text, width)
		}
	}
	return text
}

// ask puts one question on a line of its own.
func (w *wizard) ask(ctx context.Context, text string, veil tui.Veil) (string, error) {
	line, err := w.o.Ask(ctx, w.wrap(text)+" ", veil)
	line = strings.TrimSpace(line)
	if line == "q" || line == "quit" {
		return "", ErrLeft
	}
	if errors.Is(err, io.EOF) {
		return "", fmt.Errorf("the input ended; what was answered is kept, and mercury setup goes on from there: %w", err)
	}
	return line, err
}

// yes reports whether a line says yes; Enter is what usual says.
func yes(line string, usual bool) bool {
	switch strings.ToLower(line) {
	case "":
		return usual
	case "y", "yes", "j", "ja", "si", "oui", "1":
		return true
	}
	return false
}

// complain shows why something was not taken, with the cure.
func (w *wizard) complain(err error) {
	text := err.Error()
	var problems config.Problems
	if errors.As(err, &problems) {
		text = problems.Error()
	}
	if help := mercury.HelpOf(err); help != "" && !strings.Contains(text, help) {
		text += "\n" + help
	}
	w.say("! " + tui.Safe(text))
}

// try asks a model one word and says how it went.
func (w *wizard) try(ctx context.Context, src config.Source, model string) error {
	w.say("Trying " + model + " …")
	begun := time.Now()
	if err := daemon.TryModel(ctx, src, model); err != nil {
		w.say("No.")
		return err
	}
	w.say(fmt.Sprintf("It answers (%.1f s).", time.Since(begun).Seconds()))
	return nil
}

// environment looks up a variable of the process.
func (w *wizard) environment(name string) string {
	if w.o.Source.Getenv != nil {
		return w.o.Source.Getenv(name)
	}
	return os.Getenv(name)
}
