package memory

import (
	"regexp"
	"slices"
	"sync"

	"github.com/mercury-agent/mercury/internal/words"
)

// A saying is what a memory's text says, taken apart: its words, and whether
// it says yes or no.
type saying struct {
	words    []words.Word
	opposite bool // it denies, or names a dislike
	polar    bool // it uses a word of liking, using or wanting, or its opposite
	topic    string
}

// Chinese says it within a piece without spaces.
var (
	chineseNo    = lazy(`讨厌|厌恶|不再|不喜欢|不爱|不想|不|没有|没|避免|拒绝|戒掉?`)
	chinesePolar = lazy(`讨厌|厌恶|喜欢|喜爱|偏好|偏爱|热爱|不爱|使用|爱|避免`)
	chineseLight = lazy(`喜欢|喜爱|偏好|偏爱|热爱|使用|爱|总是|通常|平时|经常|特别|非常|最|喝|吃|人|很`)
)

// Words that say yes or no, folded: English, German and Arabic.
var (
	negations = set("not", "never", "no", "dont", "doesnt", "didnt", "isnt", "wont", "cannot", "cant", "against", "disabled", "without", "stopped", "stops", "quit",
		"nicht", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner", "gegen", "ohne",
		"لا", "لم", "لن", "ليس", "ليست", "بدون", "ضد", "توقف")
	dislikes = set("avoid", "avoids", "hate", "hates", "dislike", "dislikes", "refuse", "refuses", "rejects", "detests", "meidet", "hasst", "verabscheut", "vermeidet", "ablehnt",
		"يكره", "تكره", "يتجنب", "تتجنب", "يرفض")
	likes = set("prefer", "prefers", "preferred", "love", "loves", "enjoy", "enjoys", "fond", "wants", "uses", "using", "use", "builds", "building", "enabled", "favours", "favors",
		"mag", "liebt", "bevorzugt", "gern", "gerne", "benutzt", "nutzt", "verwendet", "will", "mochte", "baut", "lieber",
		"يحب", "تحب", "يفضل", "تفضل", "يستخدم", "يريد")
	// light words carry little of what is said.
	light = set("drink", "drinks", "drinking", "eat", "eats", "eating", "take", "takes", "trinkt", "isst", "nimmt", "trinken", "essen", "person", "owner", "usually", "really", "especially", "most", "best", "very", "much",
		"generally", "always", "meistens", "immer", "besonders", "sehr", "am", "liebsten", "يشرب", "تشرب", "ياكل", "شرب", "اكل", "دائما")
)

// set is made when it is first needed.
func set(list ...string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		m := map[string]bool{}
		for _, w := range list {
			m[w] = true
		}
		return m
	})
}

// lazy is an expression compiled when it is first needed.
func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// topics are things of which a person has one at a time. Two memories of one
// topic with different words contradict each other.
var topics = []struct {
	name string
	re   func() *regexp.Regexp
}{
	{"home", lazy(`\b(lives?|living|resides?|residing) (in|at)\b|\bmov(ed|es|ing) (back )?to\b|\b(wohnt|lebt) (in|bei)\b|\b(zieht|zog) nach\b|\bnach .* (gezogen|umgezogen)\b|住在|居住|搬到|搬去|(يسكن|يعيش|تسكن|تعيش|يقيم) (في|ب)|انتقل (الى|الي|إلى)`)},
	{"name", lazy(`\bname is\b|\bis (called|named)\b|\bheisst\b|\bname ist\b|名字(是|叫)|名叫|(اسمه|اسمها) `)},
	{"birthday", lazy(`\bbirthday\b|\bborn on\b|\bgeburtstag\b|\bgeboren am\b|生日|出生于|عيد ميلاد|(ولد|ولدت) في`)},
	{"employer", lazy(`\bworks (at|for)\b|\barbeitet (bei|fur)\b|就职于|任职于|在.{1,12}(工作|上班)|(يعمل|تعمل) (في|لدى|لدي) `)},
	{"age", lazy(`\b\d+ years old\b|\b\d+ jahre alt\b|\d+ ?岁|(عمره|عمرها) \d+`)},
	{"favourite", lazy(`\bfavou?rite (\w+)|\blieblings(\w+)|最喜欢的?(.{2})是|(\S+) المفضل`)},
}

// read takes a text apart.
func read(text string) saying {
	s := saying{polar: chinesePolar().MatchString(text)}
	no := len(chineseNo().FindAllString(text, -1))
	bare := chineseLight().ReplaceAllString(chineseNo().ReplaceAllString(text, " "), " ")
	for _, w := range words.Of(bare) {
		form := w.Forms[0]
		switch {
		case w.Pair: // its characters are compared one by one
			continue
		case negations()[form]:
			no++
			continue
		case dislikes()[form]:
			no++
			s.polar = true
			continue
		case likes()[form]:
			s.polar = true
			continue
		case light()[form], w.Stop:
			continue
		}
		if !slices.ContainsFunc(s.words, func(v words.Word) bool { return same(v, w) }) {
			s.words = append(s.words, w)
		}
	}
	s.opposite = no%2 == 1
	fold := words.Fold(text)
	for _, t := range topics {
		if m := t.re().FindStringSubmatch(fold); m != nil {
			s.topic = t.name
			if t.name == "favourite" {
				for _, what := range m[1:] {
					s.topic += "/" + what
				}
			}
			break
		}
	}
	return s
}

// readAs takes the text of a memory apart. Only of the person themselves is it
// known that they have one home or one name: their relatives have others.
func readAs(kind, text string) saying {
	s := read(text)
	if kind != Identity && kind != Preference {
		s.topic = ""
	}
	return s
}

// same reports whether two words share a form.
func same(a, b words.Word) bool {
	return slices.ContainsFunc(a.Forms, func(f string) bool { return slices.Contains(b.Forms, f) })
}

// overlap is the shared words by those of the longer one. Texts without words
// that count share nothing.
func overlap(a, b saying) float64 {
	longer := max(len(a.words), len(b.words))
	if longer == 0 {
		return 0
	}
	shared := 0
	used := make([]bool, len(b.words))
	for _, w := range a.words {
		for j, v := range b.words {
			if !used[j] && same(w, v) {
				used[j] = true
				shared++
				break
			}
		}
	}
	return float64(shared) / float64(longer)
}

// numbers differ when both name some and not the same ones: "at 6" and "at 7"
// are two facts, however alike their words are.
func numbersDiffer(a, b saying) bool {
	digits := func(s saying) (out []string) {
		for _, w := range s.words {
			if f := w.Forms[0]; f[0] >= '0' && f[0] <= '9' {
				out = append(out, f)
			}
		}
		slices.Sort(out)
		return out
	}
	x, y := digits(a), digits(b)
	return len(x) > 0 && len(y) > 0 && !slices.Equal(x, y)
}

// agree reports whether two texts say the same, contradict whether one denies
// what the other says.
func agree(a, b saying) bool {
	return a.opposite == b.opposite && overlap(a, b) >= Standard.Merge && !numbersDiffer(a, b)
}

func contradict(a, b saying) bool {
	shared := overlap(a, b)
	if a.opposite != b.opposite {
		if a.polar || b.polar {
			return shared >= Standard.ConflictPair
		}
		return shared >= Standard.ConflictNegation
	}
	return a.topic != "" && a.topic == b.topic && !a.opposite && (shared < Standard.Merge || numbersDiffer(a, b))
}
