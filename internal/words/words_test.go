package words

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// meets reports whether two texts share a form of a word that counts.
func meets(a, b string) bool {
	forms := Tokens(b)
	for _, w := range Of(a) {
		if w.Stop || w.Part {
			continue
		}
		for _, f := range w.Forms {
			if slices.Contains(forms, f) {
				return true
			}
		}
	}
	return false
}

func TestOneWordIsFoundHoweverItIsWritten(t *testing.T) {
	for _, tt := range []struct{ name, query, text string }{
		{"case", "OOLONG", "prefers oolong tea"},
		{"accents", "cafe", "meets people at the Café"},
		{"umlaut as two letters", "Muenchen", "wohnt in München"},
		{"umlaut left out", "Munchen", "wohnt in München"},
		{"umlaut decomposed", "Mu\u0308nchen", "wohnt in München"},
		{"sharp s", "STRASSE", "wohnt in der Goethestraße, nahe der Straße"},
		{"full width", "ｔｅａ", "prefers tea"},
		{"English stem", "allergies", "an allergy to nuts"},
		{"German stem", "Häuser", "ein Haus am See"},
		{"Chinese pair", "乌龙", "用户喜欢乌龙茶"},
		{"one Chinese character", "茶", "用户喜欢乌龙茶"},
		{"Japanese", "寿司", "彼は寿司が好きです"},
		{"Korean with another ending", "서울", "서울에서 산다"},
		{"Thai", "ชา", "ชอบชาเขียว"},
		{"Arabic vowel signs", "القهوة", "يحب القَهْوَة"},
		{"Arabic article", "قهوة", "يحب القهوة"},
		{"Arabic alif", "احمد", "أخوه أحمد"},
		{"Cyrillic", "ЧАЙ", "любит чай"},
		{"an emoji", "🦜", "has a parrot 🦜 called Rio"},
		{"digits", "2027", "moves in 2027"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !meets(tt.query, tt.text) {
				t.Errorf("%q does not find %q: %q against %q", tt.query, tt.text, Tokens(tt.query), Tokens(tt.text))
			}
		})
	}
	if meets("coffee", "prefers oolong tea") || meets("咖啡", "用户喜欢乌龙茶") {
		t.Error("other words meet")
	}
}

func TestQuestionsAreMadeOfStopWords(t *testing.T) {
	for _, q := range []string{"What is it that I have?", "Was habe ich denn?", "我是谁?", "ما هذا"} {
		for _, w := range Of(q) {
			if !w.Stop {
				t.Errorf("%q: %q is not known as a stop word", q, w.Forms)
			}
		}
	}
}

func TestAFewWordsAreFoundAmongManyAsAmongAll(t *testing.T) {
	text := "Prefers oolong tea; wohnt in München, isst Häppchen 用户喜欢乌龙茶 يحب القهوة 🦜 allergies 2027"
	all := Tokens(text)
	for _, q := range []string{"OOLONG", "Muenchen", "munchen", "乌龙", "قهوة", "🦜", "allergy", "2027", "wohne", "Haeppchen", "whisky", "a"} {
		for _, w := range Of(q) {
			forms := slices.Concat(w.Forms, w.Near)
			among := Among(text, Heads(forms))
			for _, f := range forms {
				if among[f] != slices.Contains(all, f) {
					t.Errorf("%q: form %q is found %v, in all %v", q, f, among[f], slices.Contains(all, f))
				}
			}
		}
	}
}

func FuzzAnyTextIsCutIntoValidTokens(f *testing.F) {
	for _, s := range []string{"", "Straße 5", "用户 likes お茶", "القَهْوَة", "\xff\xfe", "🦜🦜", "\u0301", strings.Repeat("a", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := Tokens(s)
		for i, token := range tokens {
			if token == "" || !utf8.ValidString(token) || strings.ContainsAny(token, " \"\x00") {
				t.Fatalf("token %q of %q", token, s)
			}
			if slices.Contains(tokens[:i], token) {
				t.Fatalf("token %q of %q twice", token, s)
			}
		}
	})
}
