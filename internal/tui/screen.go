package tui

import (
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/api"
)

// What a Line writes, and where its cursor stands. All but say, prompt and
// Busy are called with mu held.

func (l *Line) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newline()
	fmt.Fprintln(l.Out, Wrap(Safe(text), l.width()))
}

func (l *Line) prompt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.sending:
		l.owed = true
	case len(l.open) > 0 || l.busy:
	default:
		l.newline()
		if !l.Quiet {
			fmt.Fprint(l.Out, "> ")
			l.column = true
		}
	}
}

// said shows what a person wrote somewhere else, such as in another terminal.
func (l *Line) said(e api.Entry) {
	if e.InputID == "" || l.mine[e.InputID] {
		return
	}
	l.newline()
	l.remark("  (said elsewhere) " + brief(e.Text, 200))
}

// Busy reports whether work of the conversation was in hand when last heard of.
func (l *Line) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// put shows a piece of an answer.
func (l *Line) put(text string) {
	if text == "" {
		return
	}
	l.text.width = l.width()
	l.text.write(Safe(text))
	l.text.settle()
	l.column = !strings.HasSuffix(text, "\n")
}

// remark shows a line beside the talk.
func (l *Line) remark(text string) {
	text = Wrap(Safe(text), l.width())
	if l.Color {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(l.Out, text)
}

func (l *Line) width() int {
	if l.Width == nil {
		return 0
	}
	return l.Width()
}

// enter follows the Enter key, which has ended the line on the screen.
func (l *Line) enter() {
	l.column = false
	l.text.restart()
}

// newline ends a line that was begun.
func (l *Line) newline() {
	l.text.end()
	if l.column {
		fmt.Fprintln(l.Out)
	}
	l.column, l.text.code = false, false
	l.text.restart()
}
