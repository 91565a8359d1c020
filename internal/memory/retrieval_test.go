package memory

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

// A sample is a memory of the data set with the question it answers, if any.
type sample struct{ language, kind, text, question string }

func samples(t testing.TB) (out []sample) {
	t.Helper()
	f, err := os.Open("testdata/retrieval.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	language := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "== "); ok {
			language = name
			continue
		}
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		f := strings.Split(line, "|")
		if len(f) != 3 || !known(strings.TrimSpace(f[0])) {
			t.Fatalf("line %q", line)
		}
		out = append(out, sample{language, strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2])})
	}
	return out
}

// The bar is what a request may hold: five memories. Beside it stands what the
// words alone would choose, without weights.
func TestTheRightMemoryIsAmongTheFive(t *testing.T) {
	const bar = 0.85
	list := samples(t)
	b := onSQLite(t)
	b.update(func(tx store.Tx) error {
		for i, s := range list {
			at := b.at.AddDate(0, 0, -i%40) // of four people, so nothing contradicts
			err := tx.InsertMemory(store.Memory{ID: fmt.Sprintf("mem_%03d", i), Scope: OwnerScope, Kind: s.kind, Summary: s.text,
				Tier: tierOf(s.kind), State: store.MemoryLive, Confidence: 0.6 + 0.05*float64(i%8), Importance: 0.4 + 0.05*float64(i%11),
				Durability: 0.5 + 0.05*float64(i%7), Evidence: 1, Learned: Inferred, CreatedAt: at, SeenAt: at, ChangedAt: at})
			if err != nil {
				return err
			}
		}
		return nil
	})
	hits, plain, asked := map[string]int{}, map[string]int{}, map[string]int{}
	total := [3]int{}
	for _, s := range list {
		if s.question == "" {
			continue
		}
		asked[s.language]++
		total[0]++
		got := b.recall(OwnerScope, s.question)
		if slices.Contains(got, s.text) {
			hits[s.language]++
			total[1]++
		} else {
			t.Logf("missed %q: %q; got %q", s.question, s.text, got)
		}
		var words5 []string
		b.view(func(tx store.Tx) error {
			found, err := tx.MemoriesWith(store.MemoryQuery{Scope: OwnerScope, Words: plainWords(s.question), Limit: 5})
			for _, m := range found {
				words5 = append(words5, m.Summary)
			}
			return err
		})
		if slices.Contains(words5, s.text) {
			plain[s.language]++
			total[2]++
		}
	}
	if len(list) < 300 || total[0] < 120 {
		t.Fatalf("%d memories and %d questions are too few", len(list), total[0])
	}
	for language, n := range asked {
		t.Logf("%-8s recall@5 %.2f, by words alone %.2f, of %d questions", language, float64(hits[language])/float64(n), float64(plain[language])/float64(n), n)
		if float64(hits[language])/float64(n) < bar {
			t.Errorf("%s: below %.2f", language, bar)
		}
	}
	t.Logf("recall@5 %.3f, by words alone %.3f", float64(total[1])/float64(total[0]), float64(total[2])/float64(total[0]))
}

// plainWords are all words of a question as they stand.
func plainWords(text string) [][]string {
	var out [][]string
	for _, w := range words.Of(text) {
		if !w.Part {
			out = append(out, w.Forms[:1])
		}
	}
	return out
}
