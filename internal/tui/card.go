package tui

import (
	"fmt"
	"io"
	"strings"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/mercury"
)

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

// Card prints a question: what and why first, then the exact thing, then what
// can be answered. Titles and answers are broken for width columns, the exact
// thing is not.
func Card(w io.Writer, q api.Question, color bool, width int) {
	title := Wrap("? "+Safe(q.Title), width)
	if color {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintln(w, title)
	for line := range strings.Lines(Safe(q.Body)) {
		fmt.Fprintln(w, "    "+strings.TrimRight(line, "\n"))
	}
	if q.Kind == "approval" {
		always := "a always"
		if q.Always != "" {
			always += " (" + Safe(q.Always) + ")"
		}
		fmt.Fprint(w, pack([]string{"  y once", "r this run", "h one hour", always, "Enter no: "}, width))
		return
	}
	for i, c := range q.Choices {
		fmt.Fprintf(w, "  %d %s\n", i+1, Safe(c.Label))
	}
	fmt.Fprint(w, "  answer: ")
}
