package memory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestTheSameFactInThreeWordingsIsOneMemoryWithThreeSources(t *testing.T) {
	for script, wordings := range map[string][3]string{
		"Latin":   {"prefers oolong tea", "The user really loves oolong tea", "Enjoys drinking oolong tea most"},
		"German":  {"mag Oolong-Tee am liebsten", "Der Nutzer trinkt gerne Oolong-Tee", "Bevorzugt Oolong-Tee"},
		"Chinese": {"用户喜欢喝乌龙茶", "特别喜欢乌龙茶", "用户平时最爱喝乌龙茶"},
		"Arabic":  {"يحب القهوة العربية", "المستخدم يفضل القهوة العربية", "يحب شرب القهوة العربية جدا"},
	} {
		t.Run(script, func(t *testing.T) {
			both(t, func(t *testing.T, b *brain) {
				for i, text := range wordings {
					r := b.learn(OwnerScope, inferred(Preference, text, 0.8, fmt.Sprintf("en_%d", i)))
					want := Merged
					if i == 0 {
						want = Added
					}
					if r.Outcome != want {
						t.Fatalf("%q: %s, %s", text, r.Outcome, r.Reason)
					}
				}
				all := b.all()
				if len(all) != 1 || all[0].Evidence != 3 || len(all[0].Sources) != 3 {
					t.Fatalf("got %+v", all)
				}
				whole := all[0].Summary
				for _, s := range all[0].Sources {
					whole += "\n" + s.Said
				}
				for _, text := range wordings {
					if !strings.Contains(whole, text) {
						t.Errorf("the wording %q is lost: %q", text, whole)
					}
				}
			})
		})
	}
}

func TestTheSameEntryReadTwiceIsOneObservation(t *testing.T) {
	b := onSQLite(t)
	for range 2 {
		b.learn(OwnerScope, inferred(Preference, "prefers oolong tea", 0.8, "en_1"))
	}
	if m := b.all()[0]; m.Evidence != 1 || len(m.Sources) != 1 {
		t.Errorf("got %d observations, %v", m.Evidence, m.Sources)
	}
}

func TestWhatDiffersStaysApart(t *testing.T) {
	for _, pair := range [][3]string{
		{"prefers oolong tea", "prefers black coffee", ""},
		{"wakes up at 6", "wakes up at 7", ""},
		{"用户喜欢乌龙茶", "用户喜欢普洱茶和咖啡"},
		{"يحب القهوة العربية", "يحب الشاي الأخضر"},
		{"her mother lives in Aveiro", "her brother lives in Marseille", Relationship},
		{"arbeitet an einer App für Imker", "arbeitet an einem Buch über Imker"},
		{"plays the cello on Sundays", "plays chess on Sundays with Tom"},
	} {
		b := onSQLite(t)
		kind := orElse(pair[2], Preference)
		b.learn(OwnerScope, inferred(kind, pair[0], 0.8, "en_1"))
		if r := b.learn(OwnerScope, inferred(kind, pair[1], 0.8, "en_2")); r.Outcome != Added {
			t.Errorf("%q after %q: %s", pair[1], pair[0], r.Outcome)
		}
	}
}

func TestWhatIsNotWorthKeepingIsNotKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Candidate
		ok   bool
	}{
		{"a fact", inferred(Preference, "prefers oolong tea", 0.55, ""), true},
		{"not sure enough", inferred(Preference, "prefers oolong tea", 0.54, ""), false},
		{"eleven letters", inferred(Preference, "likes a tea", 0.9, ""), false},
		{"four Chinese characters", inferred(Preference, "喜欢喝茶", 0.9, ""), true},
		{"three Chinese characters", inferred(Preference, "喜欢茶", 0.9, ""), false},
		{"an unknown kind", inferred("fact", "prefers oolong tea", 0.9, ""), false},
		{"no words", inferred(Preference, "… — …, … — …!", 0.9, ""), false},
		{"soon over but important", Candidate{Kind: Episode, Summary: "has a broken arm now", Confidence: 0.9, Importance: 0.7, Durability: 0.1}, true},
		{"soon over and unimportant", Candidate{Kind: Episode, Summary: "had soup for lunch", Confidence: 0.9, Importance: 0.69, Durability: 0.39}, false},
		{"short, but asked for", Candidate{Kind: Preference, Summary: "tea", Learned: Direct, Confidence: 0.1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := onSQLite(t)
			if r := b.learn(OwnerScope, tt.c); (r.Outcome != Refused) != tt.ok {
				t.Errorf("%s: %s", r.Outcome, r.Reason)
			}
		})
	}
}

func TestALongSummaryIsCutAtAWordAndLosesNothing(t *testing.T) {
	b := onSQLite(t)
	long := strings.TrimSpace(strings.Repeat("works on a very long description of a project ", 10))
	m := b.learn(OwnerScope, inferred(Project, long, 0.8, "en_1")).Memory
	if len([]rune(m.Summary)) > Standard.SummaryMax || !strings.HasPrefix(long, m.Summary) || !strings.Contains(m.Detail, long) {
		t.Errorf("summary %q, detail %q", m.Summary, m.Detail)
	}
}

func TestContradictionsOverSixtyDays(t *testing.T) {
	for _, tt := range []struct {
		name          string
		kind          string
		first, second string
		a, b          float64 // confidence
		wait          int     // days between them
		winner        string
	}{
		{"the newer of equals", Preference, "prefers oolong tea", "does not like oolong tea any more", 0.8, 0.8, 0, "second"},
		{"the surer one", Preference, "prefers oolong tea", "avoids oolong tea", 0.9, 0.6, 0, "first"},
		{"what was read out of talk fades", Preference, "prefers oolong tea", "avoids oolong tea", 0.8, 0.75, 60, "second"},
		{"but not at once", Preference, "prefers oolong tea", "avoids oolong tea", 0.8, 0.75, 10, "first"},
		{"another home", Identity, "lives in Berlin", "moved to Munich", 0.9, 0.9, 30, "second"},
		{"another home in German", Identity, "wohnt in Berlin", "ist nach München gezogen", 0.9, 0.9, 30, "second"},
		{"another home in Chinese", Identity, "用户住在北京", "用户搬到上海了", 0.9, 0.9, 30, "second"},
		{"another home in Arabic", Identity, "يسكن في القاهرة", "انتقل إلى دبي", 0.9, 0.9, 30, "second"},
		{"no in German", Preference, "mag Rosenkohl", "mag keinen Rosenkohl", 0.8, 0.8, 1, "second"},
		{"no in Chinese", Preference, "用户喜欢香菜", "用户不喜欢香菜", 0.8, 0.8, 1, "second"},
		{"no in Arabic", Preference, "يحب السفر بالقطار", "لا يحب السفر بالقطار", 0.8, 0.8, 1, "second"},
		{"a favourite", Preference, "favourite colour is blue", "favourite colour is green", 0.8, 0.8, 5, "second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, b *brain) {
				first := b.learn(OwnerScope, inferred(tt.kind, tt.first, tt.a, "en_1")).Memory
				b.days(tt.wait)
				r := b.learn(OwnerScope, inferred(tt.kind, tt.second, tt.b, "en_2"))
				if r.Outcome != Won && r.Outcome != Lost {
					t.Fatalf("%s", r.Outcome)
				}
				first, second := b.get(first.ID), b.get(r.Memory.ID)
				winner, loser := first, second
				if tt.winner == "second" {
					winner, loser = second, first
				}
				if winner.State != store.MemoryLive || loser.State != store.MemorySuperseded || loser.Rival != winner.ID {
					t.Fatalf("first is %s, second %s, the loser points to %q", first.State, second.State, loser.Rival)
				}
				recalled := b.recall(OwnerScope, tt.first+" "+tt.second)
				if !slices.Equal(recalled, []string{winner.Summary}) {
					t.Errorf("recalled %q", recalled)
				}
				// Both sides are shown, and a person can turn it round.
				b.view(func(tx store.Tx) error {
					rival, err := Rival(tx, loser)
					if rival == nil || rival.ID != winner.ID || !strings.Contains(Describe(loser, rival), winner.Summary) {
						t.Errorf("the other side is not shown: %v", rival)
					}
					return err
				})
				b.update(func(tx store.Tx) error {
					_, err := Restore(tx, OwnerScope, loser.ID, ada)
					return err
				})
				if got := b.recall(OwnerScope, tt.first+" "+tt.second); !slices.Equal(got, []string{loser.Summary}) {
					t.Errorf("turned round, recalled %q", got)
				}
			})
		})
	}
}

func TestOutsideTextNeverWinsAgainstWhatAPersonSaid(t *testing.T) {
	b := onSQLite(t)
	first := b.learn(OwnerScope, inferred(Identity, "lives in Berlin", 0.6, "en_1")).Memory
	c := inferred(Identity, "lives in Atlantis", 1, "en_2")
	c.Taint = []string{"web:evil.example"}
	if r := b.learn(OwnerScope, c); r.Outcome != Lost || b.get(first.ID).State != store.MemoryLive {
		t.Errorf("%s", r.Outcome)
	}
	again := b.learn(OwnerScope, func() Candidate { c := c; c.Kind, c.Summary = Habit, "orders pizza on Fridays"; return c }())
	if m := b.get(again.Memory.ID); len(m.Taint) != 1 {
		t.Errorf("the taint is gone: %v", m.Taint)
	}
	b.learn(OwnerScope, inferred(Habit, "orders pizza on Fridays", 0.8, "en_3"))
	if m := b.get(again.Memory.ID); len(m.Taint) != 0 || m.Evidence != 2 {
		t.Errorf("said by the person too, it keeps %v", m.Taint)
	}
}

// A year of talk, a fact a day, in which nobody asks to forget anything: each
// fact and each of its wordings is still there.
func TestNothingIsLostOverAYear(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		subjects := []string{"astronomy", "beekeeping", "ceramics", "dressage", "espresso", "fencing", "gardening", "heraldry", "ikebana", "juggling",
			"karaoke", "lacemaking", "macrame", "needlework", "origami", "papercraft", "quilting", "rowing", "sculpture", "taxidermy"}
		said := map[string]bool{}
		const lesson = 10 // facts that are learned together, and then tidied up
		for from := 0; from < 365; from += lesson {
			b.update(func(tx store.Tx) error {
				for d := from; d < min(from+lesson, 365); d++ {
					tx := clock{tx.(clock).Tx, b.at.AddDate(0, 0, d)}
					kind := Kinds[d%9]
					text := fmt.Sprintf("%s number %d is about %s", kind, d/3, subjects[d%len(subjects)])
					if d%3 == 1 {
						text += " as always and in every detail"
					}
					said[text] = true
					if _, err := Remember(tx, OwnerScope, inferred(kind, text, 0.6+float64(d%4)/10, fmt.Sprintf("en_%d", d))); err != nil {
						return err
					}
				}
				return Consolidate(clock{tx.(clock).Tx, b.at.AddDate(0, 0, from+lesson)}, OwnerScope, time.UTC)
			})
			b.recall(OwnerScope, "What is it about?")
		}
		b.days(365)
		var whole strings.Builder
		sources := 0
		subconscious := 0
		for _, m := range b.all(store.MemoryLive, store.MemorySuperseded, store.MemoryForgotten) {
			if m.Kind == Reflection {
				continue
			}
			whole.WriteString(m.Summary + "\n" + m.Detail + "\n")
			for _, s := range m.Sources {
				whole.WriteString(s.Said + "\n")
				sources++
			}
			if m.Tier == store.TierSubconscious {
				subconscious++
			}
		}
		for text := range said {
			if !strings.Contains(whole.String(), text) {
				t.Errorf("%q is lost", text)
			}
		}
		if sources != 365 || subconscious < 200 {
			t.Errorf("%d sources, %d at rest", sources, subconscious)
		}
		// What rested for most of a year comes back when it is asked for.
		old := "identity number 0 is about astronomy"
		if got := b.recall(OwnerScope, "What was number 0 about astronomy?"); !slices.Contains(got, old) {
			t.Errorf("recalled %q", got)
		}
	})
}

func TestAMemoryIsForgottenAndComesBack(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		m := b.learn(OwnerScope, inferred(Preference, "prefers oolong tea", 0.8, "en_1")).Memory
		b.update(func(tx store.Tx) error { return MakeCard(tx, OwnerScope, time.UTC) })
		card := func() (c Card) {
			b.view(func(tx store.Tx) (err error) {
				c, err = ReadCard(tx, OwnerScope)
				return err
			})
			return c
		}
		if !strings.Contains(card().Text, "oolong") {
			t.Errorf("card %q", card().Text)
		}
		b.update(func(tx store.Tx) error {
			_, err := Forget(tx, OwnerScope, m.ID, ada)
			return err
		})
		if got := b.recall(OwnerScope, "oolong tea"); got != nil || strings.Contains(card().Text, "oolong") {
			t.Errorf("forgotten, recalled %q, on the card %q", got, card().Text)
		}
		b.update(func(tx store.Tx) error {
			_, err := Restore(tx, OwnerScope, m.ID, ada)
			return err
		})
		if got := b.recall(OwnerScope, "oolong tea"); len(got) != 1 {
			t.Errorf("restored, recalled %q", got)
		}
		err := b.store.Update(t.Context(), func(tx store.Tx) error {
			_, err := Forget(tx, "person/telegram/7", m.ID, ada)
			return err
		})
		if mercury.KindOf(err) != mercury.NotFound {
			t.Errorf("another person's memory: %v", err)
		}
	})
}

func TestWhatARunRememberedCanBeTakenBack(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		by := func(c Candidate, run string) Candidate {
			c.RunID, c.ConversationID, c.CallID, c.Tool = run, "local/a", "c1", SaveTool
			return c
		}
		first := b.learn(OwnerScope, by(inferred(Identity, "lives in Berlin", 0.8, "en_1"), "run_1")).Memory
		second := b.learn(OwnerScope, by(inferred(Identity, "moved to Munich", 0.8, "en_2"), "run_2")).Memory
		undo := func(run string, apply bool) (texts []string) {
			b.update(func(tx store.Tx) error {
				rows, err := tx.UndoRows(run)
				for _, r := range slices.Backward(rows) {
					_, text, err := Undo(t.Context(), tx, r, apply)
					if err != nil {
						return err
					}
					texts = append(texts, text)
				}
				return err
			})
			return texts
		}
		if got := undo("run_2", false); len(got) != 2 || b.get(second.ID).State != store.MemoryLive {
			t.Fatalf("looked: %q", got)
		}
		undo("run_2", true)
		if b.get(first.ID).State != store.MemoryLive || b.get(second.ID).State != store.MemoryForgotten {
			t.Errorf("first is %s, second %s", b.get(first.ID).State, b.get(second.ID).State)
		}
		b.learn(OwnerScope, inferred(Identity, "lives in Berlin", 0.8, "en_9"))
		if got := undo("run_1", true); got[0] != "has changed since" || b.get(first.ID).State != store.MemoryLive {
			t.Errorf("changed since: %q", got)
		}
	})
}

func TestNothingIsKeptForNobody(t *testing.T) {
	b := onSQLite(t)
	if r := b.learn("", inferred(Preference, "prefers oolong tea", 0.9, "en_1")); r.Outcome != Refused {
		t.Error(r.Outcome)
	}
}

func TestALeftoverOfAClearedScopeIsGone(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		b.learn(OwnerScope, inferred(Preference, "prefers oolong tea", 0.8, "en_1"))
		b.learn("person/telegram/7", inferred(Preference, "prefers oolong tea", 0.8, "en_2"))
		b.update(func(tx store.Tx) error {
			n, err := Clear(tx, OwnerScope, ada)
			if n != 1 {
				t.Errorf("cleared %d", n)
			}
			return err
		})
		if mine, theirs := b.recall(OwnerScope, "oolong"), b.recall("person/telegram/7", "oolong"); mine != nil || len(theirs) != 1 {
			t.Errorf("mine %q, theirs %q", mine, theirs)
		}
	})
}

func TestPausingHoldsUntilResumed(t *testing.T) {
	b := onSQLite(t)
	is := func() (on bool) {
		b.view(func(tx store.Tx) (err error) {
			on, err = Paused(tx, OwnerScope)
			return err
		})
		return on
	}
	before := is()
	b.update(func(tx store.Tx) error { return Pause(tx, OwnerScope, true, ada) })
	during := is()
	b.update(func(tx store.Tx) error { return errors.Join(Pause(tx, OwnerScope, false, ada)) })
	if before || !during || is() {
		t.Error("pausing does not hold")
	}
}
