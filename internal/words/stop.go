package words

import (
	_ "embed"
	"strings"
	"sync"
)

// stop.txt lists, folded, what is too common to tell texts apart: English,
// German and Arabic words. Questions consist of little else.
//
//go:embed stop.txt
var stopText string

var stopWords = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(stopText) {
		all[w] = true
		all[folded(w)] = true
		all[arabicLetters.Replace(w)] = true
	}
	return all
})

// stopCharacters are the particles and question words of Chinese and Japanese.
var stopCharacters = sync.OnceValue(func() map[rune]bool {
	all := map[rune]bool{}
	for _, r := range "我你您他她它们的了吗呢吧啊么什怎哪谁几是在有和与或就都也很这那个一请问为因所以用户会把被给从到对于之其些着过还再又才只" +
		"のはがをにでとも へやからまでよりねよかなですますしたいるれらあこそど" {
		all[r] = true
	}
	return all
})
