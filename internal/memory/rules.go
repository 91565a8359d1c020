package memory

import (
	"math"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// Rules are the numbers by which memories are admitted, merged, weighed,
// recalled and put to rest. They are one value so that they can be read, and
// tested, as a table.
type Rules struct {
	SummaryMin, SummaryMax int     // of a summary, in characters; a character without an alphabet counts as three
	ConfidenceMin          float64 // below it nothing is kept
	DurabilityMin          float64 // one of these two must be reached
	ImportanceMin          float64

	Merge            float64       // shared words ÷ words of the longer one, from which two are one
	ConflictPair     float64       // the same, from which opposites such as likes and hates contradict
	ConflictNegation float64       // the same, for a plain not
	PromoteEvidence  int           // observations that make an active memory durable
	Rest             time.Duration // unseen for so long, it rests
	Recent           time.Duration // what counts as going on

	Memories   int     // in a request
	Characters int     // of them together
	Candidates int     // looked at for them
	Relevance  float64 // share of the best match, below which a candidate is none
	WeakBelow  int     // so few healthy conscious ones make the subconscious be asked
	Healthy    float64

	Card, CardProfile, CardActive           int // characters
	CardProfileMemories, CardActiveMemories int

	Batch       int           // talks that are learned from together
	Quiet       time.Duration // or after so long a silence
	MaxOutput   int           // tokens of what a lesson may answer
	PerLesson   int           // memories learned from one
	LessonShare float64       // of what the talk cost
}

// Standard are the rules in force.
var Standard = Rules{
	SummaryMin: 12, SummaryMax: 220, ConfidenceMin: 0.55, DurabilityMin: 0.4, ImportanceMin: 0.7,
	Merge: 0.74, ConflictPair: 0.5, ConflictNegation: 0.7, PromoteEvidence: 3,
	Rest: 30 * day, Recent: 14 * day,
	Memories: 5, Characters: 900, Candidates: 10, Relevance: 0.5, WeakBelow: 3, Healthy: 0.5,
	Card: 1500, CardProfile: 1100, CardActive: 360, CardProfileMemories: 16, CardActiveMemories: 3,
	Batch: 6, Quiet: 10 * time.Minute, MaxOutput: 400, PerLesson: 8, LessonShare: 0.05,
}

const day = 24 * time.Hour

// days is how long ago t was.
func days(now, t time.Time) float64 { return max(0, now.Sub(t).Hours()/24) }

// tierOf is where a new memory of a kind begins.
func tierOf(kind string) string {
	switch kind {
	case Goal, Project, Decision, Episode:
		return store.TierActive
	}
	return store.TierDurable
}

// effective is the confidence that counts now: what was read out of a talk
// fades, what was said or written holds better, what rests does not change.
func effective(m store.Memory, now time.Time) float64 {
	c := faded(m, now)
	switch m.Learned {
	case Manual:
		c += 0.06
	case Direct:
		c += 0.03
	}
	return min(1, max(0, c))
}

// faded is the confidence that is left. It decides between two memories that
// contradict each other: what was once written by hand must not hold for ever
// against what its person says today.
func faded(m store.Memory, now time.Time) float64 {
	d := days(now, m.SeenAt)
	if m.Tier == store.TierSubconscious {
		d = min(d, Standard.Rest.Hours()/24)
	}
	c := m.Confidence
	if m.Learned == Inferred {
		c -= min(0.20, d/365)
	}
	if m.Tier == store.TierActive {
		c -= min(0.18, d/120)
	}
	return max(0, c)
}

// health says how much a memory is worth by itself, apart from any question.
func health(m store.Memory, now time.Time) float64 {
	h := 0.35*m.Importance + 0.25*m.Durability + 0.25*effective(m, now) + 0.15*float64(min(m.Evidence, 5))/5
	switch m.Tier {
	case store.TierActive:
		h += 0.08
	case store.TierSubconscious:
		h -= 0.20
	}
	if m.State == store.MemorySuperseded {
		h -= 0.30
	}
	if now.Sub(m.SeenAt) > Standard.Rest {
		h -= 0.12
	}
	return h
}

// score ranks a memory for a question it matches by the share given, 0 to 1.
// In the subconscious layer the match weighs three times as much.
func score(m store.Memory, match float64, now time.Time) float64 {
	if m.Tier == store.TierSubconscious {
		return 0.20*m.Confidence + 0.20*m.Importance + 0.10*m.Durability +
			max(0, 0.20-0.001*min(days(now, m.SeenAt), 365)) + 0.30*match
	}
	return 0.30*m.Confidence + 0.25*m.Importance + 0.15*m.Durability +
		max(0, 0.20-0.005*days(now, m.SeenAt)) + 0.10*match
}

// known reports whether kind is one of the ten.
func known(kind string) bool { return slices.Contains(Kinds, kind) }

func clamp(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(1, max(0, v))
}
