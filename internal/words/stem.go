package words

import (
	"github.com/blevesearch/snowballstem"
	snowballenglish "github.com/blevesearch/snowballstem/english"
	snowballgerman "github.com/blevesearch/snowballstem/german"
)

// english is the stem of an English word; another language's word loses an
// ending at most.
func english(word string) string {
	env := snowballstem.NewEnv(word)
	snowballenglish.Stem(env)
	return env.Current()
}

// german is the stem of a German word in lower case, umlauts included.
func german(word string) string {
	env := snowballstem.NewEnv(word)
	snowballgerman.Stem(env)
	return env.Current()
}
