package memory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Overview says what is known in a scope, in numbers.
type Overview struct {
	Scope        string         `json:"scope"`
	Conscious    int            `json:"conscious"`
	Subconscious int            `json:"subconscious"`
	Superseded   int            `json:"superseded"`
	Forgotten    int            `json:"forgotten"`
	Kinds        map[string]int `json:"kinds"` // live ones
	Paused       bool           `json:"paused"`
	Card         string         `json:"card,omitempty"`
}

// Look counts what is known in a scope.
func Look(tx store.Tx, scope string) (Overview, error) {
	o := Overview{Scope: scope, Kinds: map[string]int{}}
	counts, err := tx.CountMemories(scope)
	if err != nil {
		return o, fmt.Errorf("count memories: %w", err)
	}
	for _, c := range counts {
		switch {
		case c.State == store.MemorySuperseded:
			o.Superseded += c.N
		case c.State == store.MemoryForgotten:
			o.Forgotten += c.N
		case c.Tier == store.TierSubconscious:
			o.Subconscious += c.N
			o.Kinds[c.Kind] += c.N
		default:
			o.Conscious += c.N
			o.Kinds[c.Kind] += c.N
		}
	}
	card, err := ReadCard(tx, scope)
	if err != nil {
		return o, err
	}
	o.Card = card.Text
	o.Paused, err = Paused(tx, scope)
	return o, err
}

func pauseKey(scope string) string { return MetaPrefix + "paused/" + scope }

// Paused reports whether nothing is learned in a scope.
func Paused(tx store.Tx, scope string) (bool, error) {
	v, err := tx.MetaValue(pauseKey(scope))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whether learning is paused: %w", err)
	}
	return v == "yes", nil
}

// Pause stops learning in a scope, or goes on with it. What is said meanwhile
// is not learned later.
func Pause(tx store.Tx, scope string, on bool, by mercury.Actor) error {
	v := "no"
	if on {
		v = "yes"
	}
	if err := tx.SetMeta(pauseKey(scope), v); err != nil {
		return fmt.Errorf("pause learning: %w", err)
	}
	return audit(tx, by, "memory.pause", scope, v)
}

func audit(tx store.Tx, by mercury.Actor, act, subject, detail string) error {
	return tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: by, Act: act, Subject: subject, Detail: detail})
}

// Get returns a memory of a scope. An empty scope is any.
func Get(tx store.Tx, scope, id string) (store.Memory, error) {
	if id == "" {
		return store.Memory{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("which memory?"), Help: "Name its id; looking for it by its words shows that."}
	}
	m, err := tx.Memory(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && scope != "" && m.Scope != scope {
		return store.Memory{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no memory %s", id),
			Help: "Look for it by its words to find its id."}
	}
	if err != nil {
		return store.Memory{}, fmt.Errorf("read memory: %w", err)
	}
	return m, nil
}

// Rival returns what contradicts a memory, if anything does.
func Rival(tx store.Tx, m store.Memory) (*store.Memory, error) {
	if m.Rival == "" {
		return nil, nil
	}
	r, err := tx.Memory(m.Rival)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Scope != m.Scope {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what contradicts it: %w", err)
	}
	return &r, nil
}

// Forget takes a memory out of use. It can be restored.
func Forget(tx store.Tx, scope, id string, by mercury.Actor) (store.Memory, error) {
	m, err := Get(tx, scope, id)
	if err != nil {
		return m, err
	}
	if m.State == store.MemoryForgotten {
		return m, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("%s is forgotten already", id), Help: "It is forgotten already."}
	}
	m.State, m.ChangedAt = store.MemoryForgotten, tx.Now()
	if err := tx.SaveMemory(m); err != nil {
		return m, fmt.Errorf("forget: %w", err)
	}
	if err := refreshCard(tx, m.Scope, m.ID); err != nil {
		return m, err
	}
	return m, audit(tx, by, "memory.forget", id, "")
}

// Restore brings a forgotten memory back, or one that lost against another:
// then that one is superseded instead.
func Restore(tx store.Tx, scope, id string, by mercury.Actor) (store.Memory, error) {
	m, err := Get(tx, scope, id)
	if err != nil {
		return m, err
	}
	if m.State == store.MemoryLive {
		return m, &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("%s is in use", id), Help: "It is in use already."}
	}
	now := tx.Now()
	if rival, err := Rival(tx, m); err != nil {
		return m, err
	} else if rival != nil && rival.State == store.MemoryLive && contradict(readAs(m.Kind, m.Summary), readAs(rival.Kind, rival.Summary)) {
		rival.State, rival.Rival, rival.ChangedAt = store.MemorySuperseded, m.ID, now
		if err := tx.SaveMemory(*rival); err != nil {
			return m, fmt.Errorf("restore: %w", err)
		}
		if err := refreshCard(tx, m.Scope, rival.ID); err != nil {
			return m, err
		}
	}
	m.State, m.SeenAt, m.ChangedAt = store.MemoryLive, now, now
	if m.Tier == store.TierSubconscious {
		m.Tier = tierOf(m.Kind)
	}
	if err := tx.SaveMemory(m); err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	return m, audit(tx, by, "memory.restore", id, "")
}

// Clear deletes all memories of a scope for good.
func Clear(tx store.Tx, scope string, by mercury.Actor) (int, error) {
	n, err := tx.ClearMemories(scope)
	if err != nil {
		return 0, fmt.Errorf("clear memories: %w", err)
	}
	if err := tx.SetMeta(cardKey(scope), "{}"); err != nil {
		return 0, fmt.Errorf("clear memories: %w", err)
	}
	return n, audit(tx, by, "memory.clear", scope, fmt.Sprintf("%d memories", n))
}

// Find returns live memories of both layers that hold words of a text, the
// best match first.
func Find(tx store.Tx, scope, text string, limit int) ([]Recalled, error) {
	query := counted(text)
	if len(query) == 0 || scope == "" {
		return nil, nil
	}
	q := store.MemoryQuery{Scope: scope, Limit: max(2*limit, 40)}
	found, err := holders(tx, q, query)
	if err != nil {
		return nil, fmt.Errorf("search memories: %w", err)
	}
	q.Subconscious = true
	resting, err := holders(tx, q, query)
	if err != nil {
		return nil, fmt.Errorf("search memories: %w", err)
	}
	out := match(query, append(found, resting...))
	slices.SortStableFunc(out, func(a, b Recalled) int { return cmp.Compare(b.Match, a.Match) })
	return out[:min(len(out), limit)], nil
}

// Describe is a memory as people read it, with what it rests on and what
// contradicts it.
func Describe(m store.Memory, rival *store.Memory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s, %s, %s\n%s\n", m.ID, m.Kind, m.Tier, m.State, m.Summary)
	if m.Detail != "" {
		fmt.Fprintf(&b, "%s\n", m.Detail)
	}
	fmt.Fprintf(&b, "confidence %.2f, importance %.2f, durability %.2f; %s, %s, last on %s\n",
		m.Confidence, m.Importance, m.Durability, m.Learned, mercury.Count(m.Evidence, "observation", "observations"), m.SeenAt.Local().Format("2006-01-02"))
	for _, s := range m.Sources {
		fmt.Fprintf(&b, "from %s on %s", orElse(s.EntryID, orElse(s.RunID, "hand")), s.At.Local().Format("2006-01-02 15:04"))
		if s.Said != "" {
			fmt.Fprintf(&b, ": %s", s.Said)
		}
		b.WriteByte('\n')
	}
	if len(m.Taint) > 0 {
		fmt.Fprintf(&b, "derives from outside text: %s\n", strings.Join(m.Taint, ", "))
	}
	if rival != nil {
		fmt.Fprintf(&b, "contradicted by %s (%s): %s\n", rival.ID, rival.State, rival.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
