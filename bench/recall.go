package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// knownMemories is how many memories there are when something is recalled.
const knownMemories = 100_000

// measureRecall: choosing the memories of a request among very many, for
// questions as people ask them, made of stop words for the most part.
func measureRecall(ctx context.Context, b *bench) (rows []Row, err error) {
	known := knownMemories
	if b.flags.quick {
		known /= 10
	}
	s, err := sqlite.Open(ctx, filepath.Join(b.dir, "recall"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	v := newVocabulary()
	if err := v.remember(ctx, s, known); err != nil {
		return nil, fmt.Errorf("remember: %w", err)
	}
	recall := func(question string) (took float64, n int, err error) {
		start := time.Now()
		err = s.View(ctx, func(tx store.Tx) error {
			found, err := memory.Recall(tx, memory.OwnerScope, question)
			n = len(found)
			return err
		})
		return ms(time.Since(start)), n, err
	}
	begun := time.Now()
	if _, _, err := recall("What is it?"); err != nil {
		return nil, err
	}
	if _, _, err := recall(v.question()); err != nil { // makes the index
		return nil, err
	}
	index := time.Since(begun).Seconds()
	var asked, common []float64
	found := 0
	for range b.times(1000) {
		took, n, err := recall(v.question())
		if err != nil {
			return nil, err
		}
		asked, found = append(asked, took), found+n
		if took, _, err = recall(v.common()); err != nil {
			return nil, err
		}
		common = append(common, took)
	}
	return []Row{
		row(fmt.Sprintf("recall from %d memories", known), "ms", asked, noTarget).p99(5).others("–", "–", "–").note("%.1f memories a question", float64(found)/float64(len(asked))),
		row("… of the most common words", "ms", common, noTarget).p99(5),
		row("… making its index", "s", []float64{index}, noTarget),
	}, nil
}

// A vocabulary makes memories and questions whose words are as common as words
// are: few stand everywhere, most nearly nowhere.
type vocabulary struct {
	words []string
	r     *rand.Rand
	zipf  *rand.Zipf
}

func newVocabulary() *vocabulary {
	v := &vocabulary{r: rand.New(rand.NewPCG(7, 11))}
	syllables := []string{"ba", "ko", "ri", "ten", "lu", "mar", "so", "vi", "den", "pa", "ho", "ne", "gal", "ti", "zu", "fen"}
	for i := range 20_000 {
		word := ""
		for n, left := 0, i*7919%1_000_003; n < 4; n++ {
			word += syllables[left%len(syllables)]
			left /= len(syllables)
		}
		v.words = append(v.words, word)
	}
	v.zipf = rand.NewZipf(v.r, 1.1, 4, uint64(len(v.words)-1))
	return v
}

func (v *vocabulary) some(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = v.words[v.zipf.Uint64()]
	}
	return strings.Join(list, " ")
}

// question is four words among those that every question has.
func (v *vocabulary) question() string {
	return "What is it that I told you about the " + v.some(2) + ", and when will we have the " + v.some(2) + "?"
}

// common is a question of the eight words that stand nearly everywhere.
func (v *vocabulary) common() string {
	list := v.words[:12]
	out := make([]string, 8)
	for i := range out {
		out[i] = list[v.r.IntN(len(list))]
	}
	return strings.Join(out, " ")
}

func (v *vocabulary) remember(ctx context.Context, s store.Store, n int) error {
	const batch = 1000
	kinds := memory.Kinds[:9]
	now := time.Now().UTC()
	for from := 0; from < n; from += batch {
		err := s.Update(ctx, func(tx store.Tx) error {
			for i := from; i < from+batch; i++ {
				at := now.Add(-time.Duration(i%(40*24)) * time.Hour)
				m := store.Memory{ID: fmt.Sprintf("mem_%d", i), Scope: memory.OwnerScope, Kind: kinds[i%len(kinds)],
					Summary: "the user has " + v.some(10), Tier: store.TierDurable, State: store.MemoryLive, Confidence: 0.8, Importance: 0.6,
					Durability: 0.7, Evidence: 1, Learned: memory.Inferred, CreatedAt: at, SeenAt: at, ChangedAt: at,
					Sources: []store.MemorySource{{EntryID: "en_1", At: at}}}
				if i%5 == 0 {
					m.Tier = store.TierSubconscious
				}
				if err := tx.InsertMemory(m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
