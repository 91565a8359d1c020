package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mercury-agent/mercury/internal/store"
)

// Person is somebody whom relationship memories tell of.
type Person struct {
	Name     string         `json:"name"`
	Role     string         `json:"role,omitempty"` // such as sister or colleague, in the words of the memory
	Memories []store.Memory `json:"memories"`
}

// roleWords are what people are to each other.
var roleWords = []string{
	"stepmother", "stepfather", "grandmother", "grandfather", "mother", "father", "mom", "mum", "dad", "sister", "brother", "wife", "husband", "partner", "girlfriend", "boyfriend", "daughter", "son", "child", "cousin", "aunt", "uncle", "niece", "nephew", "friend", "colleague", "coworker", "boss", "manager", "neighbour", "neighbor", "doctor", "dentist", "teacher", "lawyer", "landlord", "client", "assistant", "mentor", "trainer", "therapist", "flatmate", "roommate", "dog", "cat",
	"schwiegermutter", "schwiegervater", "großmutter", "großvater", "oma", "opa", "mutter", "vater", "schwester", "bruder", "ehefrau", "ehemann", "frau", "mann", "partnerin", "freundin", "freund", "tochter", "sohn", "kind", "cousine", "tante", "onkel", "nichte", "neffe", "kollegin", "kollege", "chefin", "chef", "nachbarin", "nachbar", "ärztin", "arzt", "zahnarzt", "lehrerin", "lehrer", "anwalt", "vermieter", "kundin", "kunde", "hund", "katze",
}

var (
	named       = lazy(`(?:called|named|name is|heißt|namens)\s+(\p{Lu}[\p{L}'’-]*(?:\s+\p{Lu}[\p{L}'’-]*)?)`)
	capitalised = lazy(`\p{Lu}[\p{L}'’-]+(?:\s+\p{Lu}[\p{L}'’-]+)?`)
	chinese     = lazy(`(母亲|妈妈|父亲|爸爸|姐姐|妹妹|哥哥|弟弟|妻子|太太|丈夫|先生|女儿|儿子|朋友|同事|老板|经理|邻居|医生|牙医|老师|律师|房东|奶奶|爷爷|外婆|外公|表妹|表弟|女朋友|男朋友)(?:的名字)?(?:叫做?|名叫|是|，)?(\p{Han}{2,3}?)(?:$|[，。,.、；\s]|住|在|是|和|喜|有|会|从|工|不|对|的|正|生|去|来|今|已|很|养|教)`)
	arabicRole  = lazy(`(أخته|أخوه|أخت|أخ|والدته|والده|والدة|والد|أمه|أبوه|زوجته|زوجها|زوجة|زوج|ابنته|ابنه|ابنة|ابن|صديقته|صديقه|صديقة|صديق|زميلته|زميله|زميلة|زميل|مديرته|مديره|مدير|جارته|جاره|طبيبته|طبيبه|طبيب|معلمته|معلمه|عمه|خاله)\s+(?:اسمه |اسمها |تدعى |يدعى )?(?:المستخدم )?(?:اسمه |اسمها )?([\p{Arabic}]{2,15})`)
)

// How long a name is, in characters.
const (
	nameMin = 2
	nameMax = 48
)

// People lists the people whom a scope's live relationship memories tell of,
// those with the most memories first.
func People(tx store.Tx, scope string) ([]Person, error) {
	byName := map[string]*Person{}
	for after := ""; ; {
		page, next, err := tx.Memories(store.MemoryFilter{Scope: scope, Kinds: []string{Relationship}, Page: store.Page{After: after, Limit: 1000}})
		if err != nil {
			return nil, fmt.Errorf("list people: %w", err)
		}
		for _, m := range page {
			name, role := whois(m.Summary)
			if name == "" {
				continue
			}
			p := byName[strings.ToLower(name)]
			if p == nil {
				p = &Person{Name: name}
				byName[strings.ToLower(name)] = p
			}
			p.Role = orElse(role, p.Role)
			p.Memories = append(p.Memories, m)
		}
		if after = next; next == "" {
			break
		}
	}
	out := []Person{}
	for _, p := range byName {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Person) int {
		return cmp.Or(cmp.Compare(len(b.Memories), len(a.Memories)), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// whois finds the person a relationship memory is about.
func whois(text string) (name, role string) {
	if m := chinese().FindStringSubmatch(text); m != nil {
		return m[2], m[1]
	}
	if m := arabicRole().FindStringSubmatch(text); m != nil {
		return m[2], m[1]
	}
	at := -1
	lower := strings.ToLower(text)
	for _, w := range roleWords {
		if i := wordAt(lower, w); i >= 0 && (at < 0 || i < at) {
			at, role = i, w
		}
	}
	if m := named().FindStringSubmatch(text); m != nil {
		return fit(m[1]), role
	}
	// The nearest capitalised words that are neither the sentence's first nor
	// the role itself, as German writes it.
	best := -1
	for _, loc := range capitalised().FindAllStringIndex(text, -1) {
		word := text[loc[0]:loc[1]]
		first, rest, two := strings.Cut(word, " ")
		if slices.Contains(roleWords, strings.ToLower(first)) {
			if !two {
				continue
			}
			loc[0], word = loc[0]+len(first)+1, rest
		}
		if word == "The" || word == "User" || word == "The User" || word == "Der" || word == "Die" || word == "His" || word == "Her" || word == "Nutzer" ||
			strings.HasPrefix(word, "Seine") || strings.HasPrefix(word, "Ihr") || strings.HasSuffix(word, " Nutzer") {
			continue
		}
		d := loc[0] - at
		if d < 0 {
			d = -d
		}
		if at < 0 {
			d = loc[0]
		}
		if best < 0 || d < best {
			best, name = d, word
		}
	}
	return fit(strings.TrimSuffix(strings.TrimSuffix(name, "'s"), "’s")), role
}

// wordAt is where a word stands in a text by itself, or -1.
func wordAt(text, word string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		before, after := []rune(text[:i]), []rune(text[i+len(word):])
		if (len(before) == 0 || !unicode.IsLetter(before[len(before)-1])) && (len(after) == 0 || !unicode.IsLetter(after[0])) {
			return i
		}
		from = i + len(word)
	}
}

func fit(name string) string {
	if n := len([]rune(name)); n < nameMin || n > nameMax {
		return ""
	}
	return name
}
