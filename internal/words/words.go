// Package words cuts text of any script into the words by which it can be
// found again. Storing and searching use the same cut, so both databases find
// the same things.
//
// Letters are compared without case, accents and Arabic vowel signs; German
// umlauts are found with and without their e. Where a script has no spaces,
// such as Chinese, each character and each pair of neighbours is a word. Words
// of Latin and Arabic script are found by their stems too.
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Word is one word of a text with the forms it is found by.
type Word struct {
	// Forms count as the word itself: folded, and stemmed.
	Forms []string
	// Near are looser forms: they hint at the word and may mean another one.
	Near []string
	// Stop says that the word is too common to tell texts apart.
	Stop bool
	// Part says that it is one character of a longer piece without spaces,
	// Pair that it is two neighbours of one.
	Part, Pair bool
}

// maxWords bounds what is cut from one text.
const maxWords = 4096

// Of cuts text, in order. Stop words are among them, marked.
func Of(text string) []Word {
	var out []Word
	for _, piece := range pieces(text) {
		if len(out) >= maxWords {
			break
		}
		switch {
		case unspaced(piece[0]):
			out = append(out, pairs(piece)...)
		case unicode.Is(unicode.Arabic, piece[0]):
			out = append(out, arabic(string(piece)))
		default:
			out = append(out, spelled(string(piece)))
		}
	}
	return out
}

// Tokens are all forms under which a text is kept, each once. Near forms begin
// with a mark, so that they never meet a whole word.
func Tokens(text string) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range Of(text) {
		for _, f := range slices.Concat(w.Forms, w.Near) {
			if !seen[f] {
				seen[f] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// headLength is how many letters of a word stemming never touches.
const headLength = 2

// Heads are the beginnings of forms, for Among.
func Heads(forms []string) map[string]bool {
	heads := map[string]bool{}
	for _, f := range forms {
		f = strings.TrimPrefix(f, "~")
		heads[f[:min(len(f), headLength)]] = true
	}
	return heads
}

// Among are those of a text's forms that may be among forms with the given
// heads, and perhaps others. It leaves out the work for words that cannot be,
// which is what makes comparing many texts with a few words cheap.
func Among(text string, heads map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, piece := range pieces(text) {
		var list []Word
		switch s := string(piece); {
		case unspaced(piece[0]):
			list = pairs(piece)
		case unicode.Is(unicode.Arabic, piece[0]):
			list = []Word{arabic(s)}
		case ascii(s) && !heads[strings.ToLower(s[:min(len(s), headLength)])]:
			continue
		default:
			list = []Word{spelled(s)}
		}
		for _, w := range list {
			for _, f := range w.Forms {
				out[f] = true
			}
			for _, f := range w.Near {
				out[f] = true
			}
		}
	}
	return out
}

// pieces are the runs of letters and digits of one writing system. Symbols
// such as emoji are pieces of their own.
func pieces(text string) [][]rune {
	var out [][]rune
	var run []rune
	end := func() {
		if len(run) > 0 {
			out = append(out, run)
			run = nil
		}
	}
	// NFKC makes full-width letters, ligatures and composed forms one.
	for _, r := range norm.NFKC.String(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.M, r):
			if len(run) > 0 && unspaced(run[0]) != unspaced(r) && !unicode.Is(unicode.M, r) {
				end()
			}
			if len(run) == 0 && unicode.Is(unicode.M, r) {
				continue
			}
			run = append(run, r)
		case r == '\'' || r == '’' || r == '\u0640': // inside a word; the Arabic stretch mark is no letter
		case unicode.Is(unicode.So, r):
			end()
			out = append(out, []rune{r})
		default:
			end()
		}
	}
	end()
	return out
}

// unspaced reports whether words of this script are written without spaces
// between them, or with endings too many to stem.
func unspaced(r rune) bool {
	if r < 0x0E00 { // before Thai every script has spaces
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar, unicode.Bopomofo) || r == 'ー'
}

// pairs cuts a piece without spaces into characters and neighbours.
func pairs(piece []rune) []Word {
	fold := []rune(folded(string(piece)))
	var out []Word
	for i, r := range fold {
		out = append(out, Word{Forms: []string{string(r)}, Stop: stopCharacters()[r], Part: len(fold) > 1})
		if i > 0 {
			out = append(out, Word{Forms: []string{string(fold[i-1 : i+1])}, Pair: true, Stop: stopCharacters()[fold[i-1]] && stopCharacters()[r]})
		}
	}
	return out
}

// Fold is s without case and accents.
func Fold(s string) string { return folded(s) }

func folded(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	s = lower(s)
	var b strings.Builder
	for _, r := range norm.NFD.String(s) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	return norm.NFC.String(b.String())
}

// special are letters whose small form is not what people type.
var special = strings.NewReplacer("ß", "ss", "ς", "σ")

func lower(s string) string { return special.Replace(strings.ToLower(s)) }

// ascii reports whether a text needs none of what other letters need.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

var umlauts = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ø", "oe", "å", "aa", "æ", "ae", "œ", "oe")

// nearLength is how many letters the loose form of a word of n letters has, 0
// for none.
func nearLength(n int) int {
	switch {
	case n < 5:
		return 0
	case n < 7:
		return 4
	}
	return 5
}

// spelled is a word of a script with spaces.
func spelled(piece string) Word {
	base := folded(piece)
	small := base
	w := Word{Forms: []string{base}}
	if !ascii(piece) {
		small = norm.NFC.String(lower(piece))
		if long := folded(umlauts.Replace(small)); long != base {
			w.add(long)
		}
	}
	w.Stop = stopWords()[base] || stopWords()[small]
	if r := []rune(base); len(r) > 2 && unicode.Is(unicode.Latin, r[0]) && !w.Stop {
		w.add(english(base))
		w.add(folded(german(small)))
	}
	w.near(base)
	return w
}

func (w *Word) add(form string) {
	if form != "" && !slices.Contains(w.Forms, form) {
		w.Forms = append(w.Forms, form)
	}
}

func (w *Word) near(base string) {
	r := []rune(base)
	if n := nearLength(len(r)); n > 0 && !w.Stop {
		w.Near = append(w.Near, "~"+string(r[:n]))
	}
}

var arabicLetters = strings.NewReplacer("أ", "ا", "إ", "ا", "آ", "ا", "ٱ", "ا", "ى", "ي", "ة", "ه", "ؤ", "و", "ئ", "ي", "ی", "ي", "ک", "ك")

// What may stand before and behind an Arabic word: and, with, the, my, his.
var (
	arabicFront = []string{"وال", "بال", "فال", "كال", "لل", "ال", "و", "ب", "ل", "ف", "س", "ي", "ت", "ا", "ن"}
	arabicBack  = []string{"تها", "تهم", "هما", "ها", "هم", "كم", "نا", "ات", "ون", "ين", "ان", "تي", "ته", "تك", "ه", "ي", "ك", "ا", "ت"}
)

// arabic is a word of Arabic script.
func arabic(piece string) Word {
	base := arabicLetters.Replace(folded(arabicLetters.Replace(piece)))
	w := Word{Forms: []string{base}, Stop: stopWords()[base]}
	if w.Stop {
		return w
	}
	bare := base
	for _, f := range arabicFront[:6] {
		if rest, ok := strings.CutPrefix(base, f); ok && len([]rune(rest)) >= 3 {
			bare = rest
			break
		}
	}
	if stopWords()[bare] {
		w.Stop = true
		return w
	}
	w.add(bare)
	// The looser root: without the most common letters around it.
	root := bare
	for _, f := range arabicFront[6:] {
		if rest, ok := strings.CutPrefix(root, f); ok && len([]rune(rest)) >= 3 {
			root = rest
			break
		}
	}
	for _, e := range arabicBack {
		if rest, ok := strings.CutSuffix(root, e); ok && len([]rune(rest)) >= 3 {
			root = rest
			break
		}
	}
	w.Near = append(w.Near, "~"+root)
	return w
}
