package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

// A Candidate is something that may be worth knowing.
type Candidate struct {
	Kind       string
	Summary    string
	Detail     string
	Confidence float64
	Importance float64
	Durability float64
	Learned    string // Inferred, Direct or Manual
	Sources    []store.MemorySource
	Taint      []string
	Actor      mercury.Actor

	// Of the run and call that brought it; they make it possible to undo.
	RunID          string
	ConversationID string // empty for a lesson, which nobody undoes in passing
	CallID         string
	Tool           string
}

// What became of a candidate.
const (
	Added   = "added"
	Merged  = "merged"  // it was known; the evidence grew
	Won     = "won"     // it took the place of what it contradicts
	Lost    = "lost"    // what it contradicts holds; it is kept beside it
	Refused = "refused" // not kept; Reason says why
)

// Result is what became of a candidate.
type Result struct {
	Outcome string
	Reason  string
	Memory  store.Memory  // as it stands now
	Rival   *store.Memory // what it contradicts
}

// Remember keeps a candidate in a scope: as a new memory, merged into what it
// repeats, or against what it contradicts. Of two that contradict each other
// the surer one holds, at equal sureness the newer; the other one stays,
// superseded, with a link to it. What derives from outside text never wins
// against what does not.
func Remember(tx store.Tx, scope string, c Candidate) (Result, error) {
	r, old, err := decide(tx, scope, c)
	if err != nil || r.Outcome == Refused {
		return r, err
	}
	switch r.Outcome {
	case Merged:
		return r, save(tx, c, old, r.Memory)
	case Won:
		loser := *r.Rival
		loser.State, loser.Rival, loser.ChangedAt = store.MemorySuperseded, r.Memory.ID, r.Memory.ChangedAt
		r.Rival = &loser
		if err := save(tx, c, old, loser); err != nil {
			return r, err
		}
		if err := save(tx, c, nil, r.Memory); err != nil {
			return r, err
		}
		return r, refreshCard(tx, scope, loser.ID)
	}
	return r, save(tx, c, nil, r.Memory)
}

// decide finds out what would become of a candidate and writes nothing. old is
// the memory that would change, as it stands.
func decide(tx store.Tx, scope string, c Candidate) (r Result, old *store.Memory, err error) {
	if scope == "" {
		return Result{Outcome: Refused, Reason: "nobody's memories are kept here"}, nil, nil
	}
	now := tx.Now()
	c = tidy(c, now)
	if reason := admit(c); reason != "" {
		return Result{Outcome: Refused, Reason: reason}, nil, nil
	}
	fresh := store.Memory{ID: mercury.NewID("mem"), Scope: scope, Kind: c.Kind, Summary: c.Summary, Detail: c.Detail,
		Tier: tierOf(c.Kind), State: store.MemoryLive, Confidence: c.Confidence, Importance: c.Importance, Durability: c.Durability,
		Evidence: 1, Learned: c.Learned, Sources: c.Sources, Taint: c.Taint, Actor: c.Actor, RunID: c.RunID,
		CreatedAt: now, SeenAt: now, ChangedAt: now}
	near, err := alike(tx, scope, c)
	if err != nil {
		return r, nil, err
	}
	said := readAs(c.Kind, c.Summary)
	var rival *store.Memory
	for i, m := range near {
		if m.Kind != c.Kind || m.Kind == Reflection {
			continue
		}
		held := readAs(m.Kind, m.Summary)
		exact := words.Fold(m.Summary) == words.Fold(c.Summary)
		if exact || agree(said, held) {
			return Result{Outcome: Merged, Memory: merge(m, c, now)}, &near[i], nil
		}
		if rival == nil && contradict(said, held) {
			rival = &near[i]
		}
	}
	if rival == nil {
		return Result{Outcome: Added, Memory: fresh}, nil, nil
	}
	fresh.Rival = rival.ID
	r = Result{Outcome: Won, Memory: fresh, Rival: rival}
	weaker := faded(fresh, now) < faded(*rival, now)
	if len(fresh.Taint) > 0 && len(rival.Taint) == 0 || weaker {
		r.Outcome = Lost
		r.Memory.State = store.MemorySuperseded
	}
	return r, rival, nil
}

// alike are the memories of a scope that may say the same or the opposite: in
// both layers, by their words, and for things a person has one of, by kind.
func alike(tx store.Tx, scope string, c Candidate) ([]store.Memory, error) {
	q := store.MemoryQuery{Scope: scope, Words: asked(c.Summary), Limit: 20}
	near, err := tx.MemoriesWith(q)
	if err != nil {
		return nil, fmt.Errorf("look for what is like it: %w", err)
	}
	q.Subconscious = true
	resting, err := tx.MemoriesWith(q)
	if err != nil {
		return nil, fmt.Errorf("look for what is like it: %w", err)
	}
	near = append(near, resting...)
	if readAs(c.Kind, c.Summary).topic == "" && len(q.Words) > 0 {
		return near, nil
	}
	ofKind, _, err := tx.Memories(store.MemoryFilter{Scope: scope, Kinds: []string{c.Kind}, Page: store.Page{Limit: 200}})
	if err != nil {
		return nil, fmt.Errorf("look for what is like it: %w", err)
	}
	for _, m := range ofKind {
		if !slices.ContainsFunc(near, func(n store.Memory) bool { return n.ID == m.ID }) {
			near = append(near, m)
		}
	}
	return near, nil
}

// merge adds an observation. The longer wording stays, the other is kept with
// its source, so that no word is lost.
func merge(m store.Memory, c Candidate, now time.Time) store.Memory {
	said := m.Summary
	if len([]rune(c.Summary)) > len([]rune(m.Summary)) {
		m.Summary = c.Summary
	} else {
		said = c.Summary
	}
	for i := range c.Sources {
		if said != m.Summary && !slices.ContainsFunc(m.Sources, func(s store.MemorySource) bool { return s.Said == said }) {
			c.Sources[i].Said = said
		}
	}
	if c.Detail != "" && !strings.Contains(m.Detail, c.Detail) {
		m.Detail = strings.TrimSpace(m.Detail + "\n" + c.Detail)
	}
	fresh := slices.DeleteFunc(slices.Clone(c.Sources), func(s store.MemorySource) bool {
		return s.EntryID != "" && slices.ContainsFunc(m.Sources, func(o store.MemorySource) bool { return o.EntryID == s.EntryID })
	})
	if len(fresh) > 0 {
		m.Evidence++ // the same words read twice are one observation
	}
	m.Sources = append(slices.Clone(m.Sources), fresh...)
	m.Confidence, m.Importance, m.Durability = max(m.Confidence, c.Confidence), max(m.Importance, c.Importance), max(m.Durability, c.Durability)
	m.SeenAt, m.ChangedAt = now, now
	if rank(c.Learned) > rank(m.Learned) {
		m.Learned = c.Learned
	}
	if len(c.Taint) == 0 || len(m.Taint) == 0 {
		m.Taint = nil // somebody here has said it too
	} else {
		m.Taint = union(m.Taint, c.Taint)
	}
	if m.Tier == store.TierSubconscious {
		m.Tier = tierOf(m.Kind)
	}
	return promote(m)
}

// promote makes durable what was observed often enough and not just guessed.
func promote(m store.Memory) store.Memory {
	if m.Tier == store.TierActive && m.Evidence >= Standard.PromoteEvidence && m.Learned != Inferred {
		m.Tier = store.TierDurable
	}
	return m
}

func rank(learned string) int { return slices.Index([]string{Inferred, Direct, Manual}, learned) }

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// tidy puts a candidate into the shape in which it is kept. What is too long
// for a summary goes into the detail.
func tidy(c Candidate, now time.Time) Candidate {
	c.Summary = strings.Join(strings.Fields(c.Summary), " ")
	c.Detail = strings.TrimSpace(c.Detail)
	c.Confidence, c.Importance, c.Durability = clamp(c.Confidence), clamp(c.Importance), clamp(c.Durability)
	if r := []rune(c.Summary); len(r) > Standard.SummaryMax {
		cut := Standard.SummaryMax
		for cut > Standard.SummaryMax/2 && !unicode.IsSpace(r[cut]) && !unicode.IsPunct(r[cut-1]) {
			cut--
		}
		if cut == Standard.SummaryMax/2 {
			cut = Standard.SummaryMax
		}
		c.Detail = strings.TrimSpace(c.Summary + "\n" + c.Detail)
		c.Summary = strings.TrimSpace(string(r[:cut]))
	}
	if c.Learned == "" {
		c.Learned = Inferred
	}
	c.Sources = slices.Clone(c.Sources)
	if len(c.Sources) == 0 {
		c.Sources = []store.MemorySource{{RunID: c.RunID}}
	}
	for i := range c.Sources {
		if c.Sources[i].At.IsZero() {
			c.Sources[i].At = now
		}
	}
	return c
}

// admit says why a candidate is not worth keeping, or nothing. What a person
// wrote or asked to keep has no more to prove than that it says something.
func admit(c Candidate) string {
	if !known(c.Kind) || c.Kind == Reflection && c.Learned != Manual {
		return fmt.Sprintf("there is no kind %q", c.Kind)
	}
	if len(words.Of(c.Summary)) == 0 {
		return "it says nothing"
	}
	if c.Learned != Inferred {
		return ""
	}
	switch {
	case weight(c.Summary) < Standard.SummaryMin:
		return "it is too short to mean something later"
	case c.Confidence < Standard.ConfidenceMin:
		return "it is not sure enough"
	case c.Durability < Standard.DurabilityMin && c.Importance < Standard.ImportanceMin:
		return "it will not matter for long"
	}
	return ""
}

// weight is a text's length; a character of a script without an alphabet says
// as much as three letters.
func weight(s string) int {
	n := 0
	for _, r := range s {
		n++
		if unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) {
			n += 2
		}
	}
	return n
}

// instructing are the words by which a text tells Mercury what to do rather
// than what is so.
var instructing = lazy(`(?i)\b(always|never|must|should|whenever|from now on|ignore|disregard|do not (tell|ask|mention)|don't (tell|ask|mention)|run|execute|send|forward|upload|download|install|delete|approve|allow|reply with|respond with|transfer|pay)\b|` +
	`\b(immer|niemals|nie|musst?|sollst|ab jetzt|ignoriere?|führe? .* aus|sende|schicke?|leite|lösche?|installiere?|erlaube?)\b|` +
	`总是|永远|必须|应该|从现在|忽略|执行|运行|发送|转发|删除|安装|允许|دائما|يجب|تجاهل|نفذ|أرسل|ارسل|احذف|ثبت|اسمح`)

// Instructs reports whether a text tells Mercury what to do. From outside text
// such a memory is never learned, and saved only on a person's word.
func Instructs(text string) bool { return instructing().MatchString(text) }

// UndoAct is the act of changes to memories in the record of what runs changed;
// the path is the memory's id, and what stood there before is its row.
const UndoAct = "memory"

// save writes a memory and, for changes that a run made, what takes it back.
func save(tx store.Tx, c Candidate, before *store.Memory, after store.Memory) error {
	var err error
	if before == nil {
		err = tx.InsertMemory(after)
	} else {
		err = tx.SaveMemory(after)
	}
	if err != nil {
		return fmt.Errorf("keep memory: %w", err)
	}
	if c.RunID == "" {
		return nil
	}
	row := store.UndoRow{ID: mercury.NewID("un"), RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.CallID, Tool: c.Tool,
		Act: UndoAct, Path: after.ID, After: encode(after), Taint: after.Taint, At: tx.Now()}
	if before != nil {
		row.Before = encode(*before)
	}
	if err := tx.PutUndo(row); err != nil {
		return fmt.Errorf("keep what takes it back: %w", err)
	}
	return nil
}

// Undo takes back what a run did to a memory, or says what it would do. One
// that has changed since is left alone.
func Undo(_ context.Context, tx store.Tx, r store.UndoRow, apply bool) (can bool, text string, err error) {
	now, err := tx.Memory(r.Path)
	if errors.Is(err, store.ErrNotFound) {
		return false, "is no longer there", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("read memory: %w", err)
	}
	var after store.Memory
	if err := json.Unmarshal([]byte(r.After), &after); err != nil {
		return false, "what was changed cannot be read", nil
	}
	if now.State != after.State || now.Summary != after.Summary || now.Detail != after.Detail || now.Evidence != after.Evidence {
		return false, "has changed since", nil
	}
	if r.Before == "" {
		now.State, text = store.MemoryForgotten, "is forgotten again: "+now.Summary
	} else {
		if err := json.Unmarshal([]byte(r.Before), &now); err != nil {
			return false, "what it was before cannot be read", nil
		}
		text = "is again: " + now.Summary
	}
	if !apply {
		return true, text, nil
	}
	now.ChangedAt = tx.Now()
	if err := tx.SaveMemory(now); err != nil {
		return false, "", fmt.Errorf("undo memory: %w", err)
	}
	return true, text, refreshCard(tx, now.Scope, now.ID)
}

func encode(m store.Memory) string {
	b, err := json.Marshal(m)
	if err != nil {
		panic("memory: encode: " + err.Error()) // strings and numbers always encode
	}
	return string(b)
}
