package intake

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// memories are the commands about what is remembered.
func memories() []Command {
	return []Command{
		{Name: "memory", Args: "[recent|search TEXT|why|show ID|add TEXT|forget ID|restore ID|pause|resume|clear]",
			Help: "what I remember of you, and how to correct it", Run: remembered, Complete: memoryWords},
		{Name: "people", Help: "the people I know of through you", Run: people},
	}
}

func memoryWords(*engine.Tx, Call) ([]string, error) {
	return []string{"overview", "recent", "search", "why", "show", "add", "forget", "restore", "pause", "resume", "clear"}, nil
}

// remembered is the command /memory: each person sees and changes what is
// remembered of them, in the place where they ask.
func remembered(tx *engine.Tx, call Call) (Reply, error) {
	scope := memory.ScopeOf(call.Actor, call.Conversation)
	if scope == "" {
		return Reply{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("nothing is remembered of you here")}
	}
	verb, rest, _ := strings.Cut(call.Args, " ")
	rest = strings.TrimSpace(rest)
	verb = strings.ToLower(verb)
	if slices.Contains([]string{"add", "forget", "restore", "pause", "resume", "clear"}, verb) &&
		!memory.Private(call.Actor, call.Conversation) && !call.Actor.Trusted() {
		return Reply{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("what is remembered here belongs to all who talk here"), Help: "Its owner can change it."}
	}
	text, err := "", error(nil)
	switch verb {
	case "", "overview":
		text, err = memoryOverview(tx, scope)
	case "recent", "list":
		text, err = recentMemories(tx, scope)
	case "search":
		text, err = findMemories(tx, scope, rest)
	case "why":
		text, err = whyMemories(tx, call.Conversation)
	case "show":
		text, err = showMemory(tx, scope, rest)
	case "add":
		text, err = addMemory(tx, scope, rest, call.Actor)
	case "forget":
		var m store.Memory
		m, err = memory.Forget(tx, scope, rest, call.Actor)
		text = fmt.Sprintf("Forgotten: %s\n/memory restore %s brings it back.", m.Summary, m.ID)
	case "restore":
		var m store.Memory
		m, err = memory.Restore(tx, scope, rest, call.Actor)
		text = "Remembered again: " + m.Summary
	case "pause":
		err = memory.Pause(tx, scope, true, call.Actor)
		text = "Paused: nothing said from now on is learned, now or later. /memory resume ends that."
	case "resume":
		err = memory.Pause(tx, scope, false, call.Actor)
		text = "Learning again."
	case "clear":
		text, err = clearMemories(tx, scope, rest, call.Actor)
	default:
		return Reply{}, invalid(fmt.Sprintf("%q is not known here", verb), "Say recent, search TEXT, why, show ID, add TEXT, forget ID, restore ID, pause, resume or clear.")
	}
	return Reply{Text: text}, err
}

func memoryOverview(tx store.Tx, scope string) (string, error) {
	o, err := memory.Look(tx, scope)
	if err != nil {
		return "", err
	}
	return OverviewText(o), nil
}

// OverviewText says in a few lines what is remembered.
func OverviewText(o memory.Overview) string {
	var b strings.Builder
	fmt.Fprintf(&b, "I remember %s", mercury.Count(o.Conscious, "thing", "things"))
	if o.Subconscious > 0 {
		fmt.Fprintf(&b, ", and %s at the back of my mind", mercury.Count(o.Subconscious, "more is", "more are"))
	}
	b.WriteByte('.')
	if o.Superseded+o.Forgotten > 0 {
		fmt.Fprintf(&b, " %s replaced by newer ones, %d forgotten on request.", mercury.Count(o.Superseded, "was", "were"), o.Forgotten)
	}
	for _, k := range memory.Kinds {
		if n := o.Kinds[k]; n > 0 {
			fmt.Fprintf(&b, "\n%4d  %s", n, k)
		}
	}
	if o.Paused {
		b.WriteString("\nLearning is paused.")
	}
	if o.Card != "" {
		b.WriteString("\n\nAlways at hand:\n" + o.Card)
	}
	return b.String()
}

func memoryLine(m store.Memory) string {
	return fmt.Sprintf("%s  %s (%s)", m.ID, m.Summary, m.Kind)
}

func recentMemories(tx store.Tx, scope string) (string, error) {
	list, _, err := tx.Memories(store.MemoryFilter{Scope: scope, Tiers: []string{store.TierActive, store.TierDurable}, Page: store.Page{Limit: 10}})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "Nothing yet. I learn from what you tell me, a while after you have said it.", nil
	}
	var lines []string
	for _, m := range list {
		lines = append(lines, memoryLine(m))
	}
	return strings.Join(lines, "\n"), nil
}

func findMemories(tx store.Tx, scope, text string) (string, error) {
	if text == "" {
		return "", invalid("what should be looked for?", "/memory search tea")
	}
	found, err := memory.Find(tx, scope, text, 10)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "Nothing is remembered of that.", nil
	}
	var lines []string
	for _, r := range found {
		lines = append(lines, memoryLine(r.Memory))
	}
	return strings.Join(lines, "\n"), nil
}

func showMemory(tx store.Tx, scope, id string) (string, error) {
	m, err := memory.Get(tx, scope, id)
	if err != nil {
		return "", err
	}
	rival, err := memory.Rival(tx, m)
	return memory.Describe(m, rival), err
}

func addMemory(tx store.Tx, scope, text string, by mercury.Actor) (string, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || !slices.Contains(memory.Kinds, strings.ToLower(strings.TrimSpace(kind))) {
		kind, rest = "", text
	}
	r, err := AddMemory(tx, scope, kind, rest, "", by)
	if err != nil {
		return "", err
	}
	return AddedText(r), nil
}

// AddMemory keeps what a person wrote by hand.
func AddMemory(tx store.Tx, scope, kind, text, detail string, by mercury.Actor) (memory.Result, error) {
	c := memory.ByHand(kind, text, detail, memory.Manual)
	c.Actor = by
	r, err := memory.Remember(tx, scope, c)
	if err == nil && r.Outcome == memory.Refused {
		err = &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("that was not kept: %s", r.Reason), Help: "The kinds are " + strings.Join(memory.Kinds, ", ") + "."}
	}
	return r, err
}

// AddedText says what became of it.
func AddedText(r memory.Result) string {
	text := map[string]string{memory.Added: "Remembered", memory.Merged: "Known already, noted once more", memory.Won: "Remembered",
		memory.Lost: "Kept, but something surer contradicts it"}[r.Outcome] + ": " + memoryLine(r.Memory)
	if r.Rival != nil {
		text += "\nIt contradicts " + memoryLine(*r.Rival)
	}
	return text
}

func clearMemories(tx store.Tx, scope, word string, by mercury.Actor) (string, error) {
	o, err := memory.Look(tx, scope)
	if err != nil {
		return "", err
	}
	n := o.Conscious + o.Subconscious + o.Superseded + o.Forgotten
	if !strings.EqualFold(word, "yes") {
		return fmt.Sprintf("This deletes everything I remember, %s, for good; nothing brings them back. /memory clear yes does it.", mercury.Count(n, "memory", "memories")), nil
	}
	if n, err = memory.Clear(tx, scope, by); err != nil {
		return "", err
	}
	return fmt.Sprintf("Deleted %s.", mercury.Count(n, "memory", "memories")), nil
}

// whyMemories names what the last answer had before it.
func whyMemories(tx store.Tx, conversation string) (string, error) {
	list, err := Why(tx, conversation)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No memory stood before my last answer here.", nil
	}
	lines := []string{"These stood before my last answer:"}
	for _, m := range list {
		lines = append(lines, memoryLine(m))
	}
	return strings.Join(append(lines, "/memory show ID says where one comes from."), "\n"), nil
}

// Why returns the memories that the requests of a conversation's last answer
// held.
func Why(tx store.Tx, conversation string) ([]store.Memory, error) {
	runs, _, err := tx.Runs(store.RunFilter{Key: memory.LearnKey(conversation), Page: store.Page{Limit: 1}})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	var due memory.Due
	if err := json.Unmarshal(runs[0].Input, &due); err != nil {
		return nil, fmt.Errorf("read what was used: %w", err)
	}
	var out []store.Memory
	for _, id := range due.Last {
		m, err := tx.Memory(id)
		if errors.Is(err, store.ErrNotFound) {
			continue // cleared since
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func people(tx *engine.Tx, call Call) (Reply, error) {
	list, err := memory.People(tx, memory.ScopeOf(call.Actor, call.Conversation))
	if err != nil {
		return Reply{}, err
	}
	if len(list) == 0 {
		return Reply{Text: "I know of nobody yet."}, nil
	}
	return Reply{Text: PeopleText(list)}, nil
}

// PeopleText lists people with what is known of them.
func PeopleText(list []memory.Person) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Name)
		if p.Role != "" {
			fmt.Fprintf(&b, " (%s)", p.Role)
		}
		for _, m := range p.Memories {
			b.WriteString("\n  " + m.Summary)
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
