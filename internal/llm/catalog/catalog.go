// Package catalog knows models by name: how much they read and write, what
// they can do, and what they cost. It is a dated table in models.json; what it
// does not know is unknown, never guessed. What a person configures goes
// before it, and so does what a provider says itself.
package catalog

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/mercury"
)

//go:embed models.json
var table []byte

// Model is what is known of one.
type Model struct {
	Name      string `json:"name"`       // a model's name, or with what the names of its versions begin
	Exact     bool   `json:"exact"`      // only this name and its dated versions
	Window    int    `json:"window"`     // tokens it reads and writes together
	MaxOutput int    `json:"max_output"` // tokens of one answer
	Tools     bool   `json:"tools"`      // it calls tools
	Images    bool   `json:"images"`     // it sees pictures
	Cache     bool   `json:"cache"`      // what was sent before costs less
	Price
}

// Price is in money per million tokens. All zero means unknown.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cached_input"` // read from the provider's cache
	CacheWrite  float64 `json:"cache_write"`  // put into it; 0: as Input
	Output      float64 `json:"output"`
}

// Known reports whether p is a price at all.
func (p Price) Known() bool { return p != Price{} }

// Of is what u costs. Tokens whose reduced price is not known cost the full one.
func (p Price) Of(u mercury.Usage) float64 {
	cached, write := p.CachedInput, p.CacheWrite
	if cached == 0 {
		cached = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	fresh := max(u.Input-u.Cached-u.CacheWrite, 0)
	return (float64(fresh)*p.Input + float64(u.Cached)*cached + float64(u.CacheWrite)*write + float64(u.Output)*p.Output) / 1e6
}

type file struct {
	Dated    string  `json:"dated"`
	Currency string  `json:"currency"`
	Models   []Model `json:"models"`
}

var read = sync.OnceValue(func() (f file) {
	if err := json.Unmarshal(table, &f); err != nil {
		panic("catalog: " + err.Error()) // a test reads it
	}
	return f
})

// Dated is the day on which the table was written, as 2006-01-02.
func Dated() string { return read().Dated }

// Currency is that of the table's prices.
func Currency() string { return read().Currency }

// Find looks a model up by the name its provider gives it, with or without the
// vendor in front, as in anthropic/claude-sonnet-4-5. The longest name that
// fits wins.
func Find(name string) (Model, bool) {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	name = strings.ToLower(name)
	var best Model
	for _, m := range read().Models {
		if m.fits(name) && len(m.Name) > len(best.Name) {
			best = m
		}
	}
	return best, best.Name != ""
}

// fits reports whether name is m's, one of its versions or, unless it is
// exact, of its family.
func (m Model) fits(name string) bool {
	rest, ok := strings.CutPrefix(name, m.Name)
	switch {
	case !ok:
		return false
	case rest == "" || !m.Exact:
		return true
	}
	// Dates and release marks, such as -2024-08-06 or :latest.
	return rest == ":latest" || rest == "-latest" || strings.HasPrefix(rest, "-20")
}
