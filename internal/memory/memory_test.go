package memory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestTheRulesAreTheseNumbers(t *testing.T) {
	want := Rules{
		SummaryMin: 12, SummaryMax: 220, ConfidenceMin: 0.55, DurabilityMin: 0.4, ImportanceMin: 0.7,
		Merge: 0.74, ConflictPair: 0.5, ConflictNegation: 0.7, PromoteEvidence: 3,
		Rest: 30 * 24 * time.Hour, Recent: 14 * 24 * time.Hour,
		Memories: 5, Characters: 900, Candidates: 10, Relevance: 0.5, WeakBelow: 3, Healthy: 0.5,
		Card: 1500, CardProfile: 1100, CardActive: 360, CardProfileMemories: 16, CardActiveMemories: 3,
		Batch: 6, Quiet: 10 * time.Minute, MaxOutput: 400, PerLesson: 8, LessonShare: 0.05,
	}
	if Standard != want || len(Kinds) != 10 {
		t.Errorf("the rules are %+v", Standard)
	}
}

func TestWeights(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	m := store.Memory{Tier: store.TierDurable, State: store.MemoryLive, Confidence: 0.8, Importance: 0.6, Durability: 0.7, Evidence: 2, Learned: Inferred, SeenAt: now}
	for _, tt := range []struct {
		name   string
		change func(*store.Memory)
		get    func(store.Memory) float64
		want   float64
	}{
		{"conscious score", nil, func(m store.Memory) float64 { return score(m, 0.5, now) }, 0.30*0.8 + 0.25*0.6 + 0.15*0.7 + 0.20 + 0.05},
		{"twenty days later", func(m *store.Memory) { m.SeenAt = now.AddDate(0, 0, -20) }, func(m store.Memory) float64 { return score(m, 0.5, now) }, 0.30*0.8 + 0.25*0.6 + 0.15*0.7 + 0.10 + 0.05},
		{"after forty days age adds nothing", func(m *store.Memory) { m.SeenAt = now.AddDate(0, 0, -60) }, func(m store.Memory) float64 { return score(m, 0, now) }, 0.30*0.8 + 0.25*0.6 + 0.15*0.7},
		{"subconscious score", func(m *store.Memory) { m.Tier, m.SeenAt = store.TierSubconscious, now.AddDate(0, 0, -100) },
			func(m store.Memory) float64 { return score(m, 0.5, now) }, 0.20*0.8 + 0.20*0.6 + 0.10*0.7 + 0.10 + 0.15},
		{"inferred fades", func(m *store.Memory) { m.SeenAt = now.AddDate(0, 0, -73) }, func(m store.Memory) float64 { return effective(m, now) }, 0.6},
		{"inferred fades no further", func(m *store.Memory) { m.SeenAt = now.AddDate(-2, 0, 0) }, func(m store.Memory) float64 { return effective(m, now) }, 0.6},
		{"direct holds", func(m *store.Memory) { m.Learned, m.SeenAt = Direct, now.AddDate(0, 0, -73) }, func(m store.Memory) float64 { return effective(m, now) }, 0.83},
		{"manual holds", func(m *store.Memory) { m.Learned = Manual }, func(m store.Memory) float64 { return effective(m, now) }, 0.86},
		{"active fades too", func(m *store.Memory) { m.Learned, m.Tier, m.SeenAt = Direct, store.TierActive, now.AddDate(0, 0, -12) },
			func(m store.Memory) float64 { return effective(m, now) }, 0.73},
		{"frozen when subconscious", func(m *store.Memory) { m.Tier, m.SeenAt = store.TierSubconscious, now.AddDate(-1, 0, 0) },
			func(m store.Memory) float64 { return effective(m, now) }, 0.8 - 30.0/365},
		{"health", nil, func(m store.Memory) float64 { return health(m, now) }, 0.35*0.6 + 0.25*0.7 + 0.25*0.8 + 0.15*0.4},
		{"health of the superseded", func(m *store.Memory) { m.State = store.MemorySuperseded }, func(m store.Memory) float64 { return health(m, now) }, 0.35*0.6 + 0.25*0.7 + 0.25*0.8 + 0.15*0.4 - 0.30},
		{"health of the active", func(m *store.Memory) { m.Tier = store.TierActive }, func(m store.Memory) float64 { return health(m, now) }, 0.35*0.6 + 0.25*0.7 + 0.25*0.8 + 0.15*0.4 + 0.08},
	} {
		m := m
		if tt.change != nil {
			tt.change(&m)
		}
		if got := tt.get(m); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: got %.4f, want %.4f", tt.name, got, tt.want)
		}
	}
}

func TestWhoseMemoriesCountFollowsFromTheTransport(t *testing.T) {
	owner := mercury.Actor{Role: mercury.Owner, ID: "1", Channel: "telegram"}
	member := mercury.Actor{Role: mercury.Member, ID: "7", Channel: "telegram"}
	for _, tt := range []struct {
		actor        mercury.Actor
		conversation string
		want         string
	}{
		{mercury.Actor{Role: mercury.Owner, Channel: "local"}, "local/default", "owner"},
		{owner, "telegram/1", "owner"},
		{owner, "telegram/-100200", "place/telegram/-100200"},
		{member, "telegram/7", "person/telegram/7"},
		{member, "telegram/1", "place/telegram/1"},
		{member, "discord/7", "place/discord/7"},
		{mercury.Actor{Role: mercury.Admin, ID: "3", Channel: "telegram"}, "telegram/3", "person/telegram/3"},
		{mercury.Actor{Role: mercury.Schedule}, "local/morning", "owner"},
		{mercury.Actor{Role: mercury.BotRole, ID: "watcher"}, "local/bots/watcher", "bot/watcher"},
		{mercury.Actor{Role: mercury.HelperRole, ID: "1"}, "local/h", ""},
		{mercury.Actor{Role: mercury.Stranger, ID: "9", Channel: "telegram"}, "telegram/9", ""},
		{mercury.Actor{}, "local/x", ""},
	} {
		if got := ScopeOf(tt.actor, tt.conversation); got != tt.want {
			t.Errorf("%+v in %s: %q, want %q", tt.actor, tt.conversation, got, tt.want)
		}
	}
}

func TestARequestHoldsAtMostFiveAndNineHundredCharacters(t *testing.T) {
	b := onSQLite(t)
	b.update(func(tx store.Tx) error {
		for i := range 12 {
			c := inferred(Project, fmt.Sprintf("machine %c%c: %s", 'a'+rune(i), 'a'+rune(i), strings.Repeat(fmt.Sprintf("part%d ", i), 22)), 0.9, fmt.Sprintf("en_%d", i))
			if r, err := Remember(tx, OwnerScope, c); err != nil || r.Outcome != Added {
				t.Errorf("%s, %v", r.Outcome, err)
			}
		}
		return nil
	})
	got := b.recall(OwnerScope, "Which machine is it?")
	n := 0
	for _, s := range got {
		n += len([]rune(s))
	}
	if len(got) < 4 || len(got) > 5 || n > 900 {
		t.Errorf("%d memories, %d characters", len(got), n)
	}
}

func TestWhatRestsIsAskedOnlyWhenTheRestIsWeakAndWakesWhenUsed(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		old := b.learn(OwnerScope, inferred(Goal, "wants to sail to Madeira one day", 0.8, "en_1")).Memory
		b.days(40)
		b.update(func(tx store.Tx) error { return Consolidate(tx, OwnerScope, time.UTC) })
		if m := b.get(old.ID); m.Tier != store.TierSubconscious || m.Confidence != 0.8 {
			t.Fatalf("after forty days it is %s, %v", m.Tier, m.Confidence)
		}
		if got := b.recall(OwnerScope, "How was that with Madeira?"); !slices.Equal(got, []string{old.Summary}) {
			t.Fatalf("weak: recalled %q", got)
		}
		for i, text := range []string{"has a boat in Madeira harbour", "studies maps of Madeira", "knows a cook from Madeira", "reads a novel about Madeira"} {
			c := inferred(Project, text, 0.9, fmt.Sprintf("en_m%d", i))
			c.Importance, c.Durability = 0.9, 0.9
			b.learn(OwnerScope, c)
		}
		if got := b.recall(OwnerScope, "Madeira?"); slices.Contains(got, old.Summary) || len(got) != 4 {
			t.Errorf("strong: recalled %q", got)
		}
		b.update(func(tx store.Tx) error { return Used(tx, []string{old.ID, "mem_gone"}) })
		if m := b.get(old.ID); m.Tier != store.TierActive || !m.SeenAt.Equal(b.at) {
			t.Errorf("used, it is %s, seen %s", m.Tier, m.SeenAt)
		}
	})
}

func TestAnActiveMemorySaidThreeTimesIsDurable(t *testing.T) {
	b := onSQLite(t)
	c := inferred(Goal, "wants to sail to Madeira one day", 0.8, "")
	c.Learned = Direct
	for i := range 3 {
		c.Sources = []store.MemorySource{{EntryID: fmt.Sprint("en_", i)}}
		b.learn(OwnerScope, c)
	}
	if m := b.all()[0]; m.Tier != store.TierDurable || m.Evidence != 3 {
		t.Errorf("%s after %d observations", m.Tier, m.Evidence)
	}
}

func TestTheCardIsShortAndChangesAtMostDaily(t *testing.T) {
	both(t, func(t *testing.T, b *brain) {
		for i := range 60 {
			c := inferred(Kinds[i%9], fmt.Sprintf("fact %d of this person, told at some length, is about %c%c%c", i, 'a'+rune(i%26), 'a'+rune(i/3%26), 'b'+rune(i%20)), 0.9, fmt.Sprint("en_", i))
			c.Learned = Direct
			b.learn(OwnerScope, c)
		}
		tainted := inferred(Identity, "is the king of the moon", 1, "en_t")
		tainted.Taint, tainted.Importance = []string{"web:x"}, 1
		b.learn(OwnerScope, tainted)
		read := func() (c Card) {
			b.view(func(tx store.Tx) (err error) {
				c, err = ReadCard(tx, OwnerScope)
				return err
			})
			return c
		}
		make := func() { b.update(func(tx store.Tx) error { return MakeCard(tx, OwnerScope, time.UTC) }) }
		make()
		first := read()
		if n := len([]rune(first.Text)); n < 400 || n > Standard.Card || strings.Contains(first.Text, "moon") || !strings.Contains(first.Text, "Going on:") {
			t.Fatalf("%d characters: %s", n, first.Text)
		}
		c := inferred(Identity, "is the mayor of a village", 0.95, "en_new")
		c.Importance, c.Durability = 1, 1
		b.learn(OwnerScope, c)
		make()
		if read().Text != first.Text {
			t.Error("it changed on the same day")
		}
		b.days(1)
		make()
		if !strings.Contains(read().Text, "mayor") {
			t.Error("it did not change on the next")
		}
	})
}

func TestReflectionsNeedTwoMemoriesAndStayForgotten(t *testing.T) {
	b := onSQLite(t)
	reflections := func(states ...string) (out []store.Memory) {
		for _, m := range b.all(states...) {
			if m.Kind == Reflection {
				out = append(out, m)
			}
		}
		return out
	}
	b.learn(OwnerScope, inferred(Preference, "prefers oolong tea", 0.8, "en_1"))
	consolidate := func() { b.update(func(tx store.Tx) error { return Consolidate(tx, OwnerScope, time.UTC) }) }
	consolidate()
	if got := reflections(); len(got) != 0 {
		t.Fatalf("of one memory: %+v", got)
	}
	b.learn(OwnerScope, inferred(Preference, "likes window seats", 0.8, "en_2"))
	consolidate()
	got := reflections()
	if len(got) != 1 || got[0].Confidence != 0.86 || len(got[0].Sources) != 2 || !strings.Contains(got[0].Summary, "oolong") || !strings.Contains(got[0].Summary, "window") {
		t.Fatalf("%+v", got)
	}
	b.update(func(tx store.Tx) error {
		_, err := Forget(tx, OwnerScope, got[0].ID, ada)
		return err
	})
	consolidate()
	if len(reflections()) != 0 || len(reflections(store.MemoryForgotten)) != 1 {
		t.Error("it came back")
	}
}

func TestPeopleAreFoundInWhatIsKnownOfThem(t *testing.T) {
	b := onSQLite(t)
	for i, text := range []string{"her sister Anna lives in Hamburg", "Anna, her sister, plays the cello", "her boss is called Helena Prado", "ihr Bruder Matthias ist Pilot",
		"用户的妹妹李娜在深圳做设计师", "أخته ليلى طبيبة أطفال في القاهرة", "has many friends abroad", "Dr. Falcão is her dentist"} {
		b.learn(OwnerScope, inferred(Relationship, text, 0.9, fmt.Sprint("en_", i)))
	}
	got := map[string]string{}
	first := ""
	b.view(func(tx store.Tx) error {
		list, err := People(tx, OwnerScope)
		for i, p := range list {
			got[p.Name] = fmt.Sprintf("%s %d", p.Role, len(p.Memories))
			if i == 0 {
				first = p.Name
			}
		}
		others, err2 := People(tx, "person/telegram/7")
		if len(others) != 0 {
			t.Errorf("another person knows %v", others)
		}
		return errors.Join(err, err2)
	})
	for name, want := range map[string]string{"Anna": "sister 2", "Helena Prado": "boss 1", "Matthias": "bruder 1", "李娜": "妹妹 1", "ليلى": "أخته 1", "Falcão": "dentist 1"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if first != "Anna" || len(got) != 6 {
		t.Errorf("people are %v", got)
	}
}

func TestWhatIsExportedIsImportedWhole(t *testing.T) {
	b := onSQLite(t)
	for i, s := range samples(t)[:80] {
		c := inferred(s.kind, s.text, 0.8, fmt.Sprint("en_", i))
		c.Detail = "line one\nline two"
		b.learn(OwnerScope, c)
	}
	var facts []Fact
	for _, m := range b.all() {
		facts = append(facts, Shown(m))
	}
	var md strings.Builder
	if err := Markdown(&md, facts); err != nil {
		t.Fatal(err)
	}
	got, err := ParseFacts(strings.NewReader(md.String()))
	if err != nil || len(got) != len(facts) {
		t.Fatalf("%d of %d came back: %v", len(got), len(facts), err)
	}
	for _, f := range facts {
		if !slices.ContainsFunc(got, func(g Fact) bool { return g.Kind == f.Kind && g.Summary == f.Summary && g.Detail == f.Detail }) {
			t.Errorf("%q is lost", f.Summary)
		}
	}
	for name, text := range map[string]string{"a kind nobody knows": "## secrets\n- x", "half a JSON": `[{"kind":`, "no list": "hello"} {
		if _, err := ParseFacts(strings.NewReader(text)); mercury.KindOf(err) != mercury.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzImportsOfAnyTextAreRefusedOrRead(f *testing.F) {
	for _, s := range []string{"", "[]", "{}", "## goal\n- x\n  y", "- a", "\ufeff[{\"kind\":\"goal\"}]", "[[[[", "## "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if facts, err := ParseFacts(strings.NewReader(s)); err == nil {
			for _, fact := range facts {
				_ = fact.Candidate(ada)
			}
		}
	})
}

func TestAClaimToRememberNeedsASave(t *testing.T) {
	for answer, claims := range map[string]bool{
		"I'll remember that.": true, "I will remember your birthday.": true, "I've saved it to memory.": true, "I have noted this.": true, "Das merke ich mir.": true,
		"Ich habe mir das notiert.": true, "我记住了。": true, "我会记住的": true, "سأتذكر ذلك.": true,
		"Do you remember the film?": false, "I remember nothing of that.": false, "The file was saved.": false, "Remember to lock the door.": false, "记得带伞": false, "Merk dir das.": false,
	} {
		if got := Unsaved(answer, false) != ""; got != claims {
			t.Errorf("%q: %v", answer, got)
		}
		if Unsaved(answer, true) != "" {
			t.Errorf("%q was saved", answer)
		}
	}
}
