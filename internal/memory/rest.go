package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// restBatch bounds how many memories are put to rest at once.
const restBatch = 500

// Consolidate tidies up after a lesson that changed something: what was not
// seen for a month goes to rest, what is known of one side of a person is
// summed up, and the card is made anew if it is of another day.
func Consolidate(tx store.Tx, scope string, zone *time.Location) error {
	now := tx.Now()
	stale, err := tx.StaleMemories(scope, now.Add(-Standard.Rest), restBatch)
	if err != nil {
		return fmt.Errorf("consolidate: %w", err)
	}
	for _, m := range stale {
		m.Tier, m.ChangedAt = store.TierSubconscious, now
		if err := tx.SaveMemory(m); err != nil {
			return fmt.Errorf("put memory to rest: %w", err)
		}
	}
	for _, r := range reflections {
		if err := r.reflect(tx, scope, now); err != nil {
			return err
		}
	}
	return MakeCard(tx, scope, zone)
}

// A reflection sums up what several memories say together.
type reflection struct {
	name, head                         string
	kinds                              []string
	confidence, importance, durability float64
}

// reflections are made of at least two memories.
var reflections = []reflection{
	{"preferences", "Preferences together: ", []string{Preference}, 0.86, 0.86, 0.90},
	{"direction", "Working towards: ", []string{Goal, Project}, 0.84, 0.90, 0.86},
	{"routine", "Routine and limits: ", []string{Habit, Constraint}, 0.82, 0.80, 0.82},
}

func (r reflection) reflect(tx store.Tx, scope string, now time.Time) error {
	best, err := tx.BestMemories(scope, r.kinds, time.Time{}, 4)
	if err != nil {
		return fmt.Errorf("reflect: %w", err)
	}
	best = slices.DeleteFunc(best, func(m store.Memory) bool { return len(m.Taint) > 0 })
	if len(best) < 2 {
		return nil
	}
	text, sources := r.head, []store.MemorySource(nil)
	for i, m := range best {
		more := strings.TrimRight(m.Summary, ".。")
		if i > 0 {
			more = "; " + more
		}
		if len([]rune(text+more)) > Standard.SummaryMax {
			break
		}
		text += more
		sources = append(sources, store.MemorySource{EntryID: m.ID, At: now})
	}
	if len(sources) < 2 {
		return nil
	}
	sum := sha256.Sum256([]byte(scope + "\n" + r.name))
	id := "mem_reflection_" + hex.EncodeToString(sum[:8])
	old, err := tx.Memory(id)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("reflect: %w", err)
	}
	if known && (old.State != store.MemoryLive || old.Summary == text) {
		return nil // a person did not want it, or it says so already
	}
	m := store.Memory{ID: id, Scope: scope, Kind: Reflection, Summary: text, Tier: store.TierDurable, State: store.MemoryLive,
		Confidence: r.confidence, Importance: r.importance, Durability: r.durability, Evidence: len(sources), Learned: Inferred,
		Sources: sources, CreatedAt: now, SeenAt: now, ChangedAt: now}
	if known {
		m.CreatedAt = old.CreatedAt
		return tx.SaveMemory(m)
	}
	return tx.InsertMemory(m)
}
