package agent

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

//go:embed system.md
var systemText string

// System is the prompt of an agent without a soul of its own: who it is, for
// whom it works, and the habits its tools expect. Empty names have defaults.
// The same names give the same bytes.
func System(name, owner string) string {
	if name == "" {
		name = "Mercury"
	}
	if owner == "" {
		owner = "your owner"
	}
	return strings.TrimSpace(strings.NewReplacer("{name}", name, "{owner}", owner).Replace(systemText))
}

// closing are the words that stand around a tail.
var closing = regexp.MustCompile(`(?i)<(/?\s*status)`)

// enclosed is a tail whose text cannot end the place it stands in: memories
// and titles in it are other people's words.
func enclosed(tail string) string { return closing.ReplaceAllString(tail, "‹$1") }

// Tail is what a request says last: the time, and the delivery facts.
func Tail(_ context.Context, tx store.Tx, c mercury.Conversation) (string, error) {
	facts, err := DeliveryFacts(tx, c.ID)
	if err != nil {
		return "", err
	}
	now := "It is " + tx.Now().Local().Format("Monday 2006-01-02 15:04 MST") + "."
	if facts == "" {
		return now, nil
	}
	return now + "\n" + facts, nil
}

// How far the delivery facts look back, and how much of each answer they show.
const (
	factAnswers = 10
	factPreview = 1000 // characters
)

// DeliveryFacts tells the model which of its recent answers in a conversation
// the person may not have seen, so that the next one can say what is missing:
// those since the last with a receipt, with id, state, reason and a preview.
// It is empty when there is nothing to tell.
func DeliveryFacts(tx store.Tx, conversationID string) (string, error) {
	recent, err := tx.RecentAnswers(conversationID, factAnswers)
	if err != nil {
		return "", fmt.Errorf("read recent answers: %w", err)
	}
	var open []mercury.Delivery
	for _, d := range recent { // newest first
		if d.State == mercury.DeliverySent {
			break
		}
		open = append(open, d)
	}
	if len(open) == 0 {
		return "", nil
	}
	var b strings.Builder
	b.WriteString("Answers of yours without a receipt. Held ones were not shown, and your next answer replaces them: " +
		"carry over what still matters. Nobody knows whether an unknown one was seen.")
	for i := len(open) - 1; i >= 0; i-- {
		d := open[i]
		fmt.Fprintf(&b, "\n- %s %s", d.ID, factState(d))
		if d.Reason != "" {
			fmt.Fprintf(&b, " (%s)", d.Reason)
		}
		fmt.Fprintf(&b, ": %s", preview(d.Text, factPreview))
	}
	return b.String(), nil
}

func factState(d mercury.Delivery) string {
	if d.State == mercury.DeliveryPending {
		return "unattempted"
	}
	return string(d.State)
}

// preview is the first n characters of text, on one line.
func preview(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > n {
		return string(r[:n]) + "…"
	}
	return text
}
