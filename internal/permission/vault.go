package permission

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"sort"
	"strings"
	"sync"
)

// shortest is the length below which a value is too common to be replaced
// wherever it occurs, in bytes.
const shortest = 6

// Vault knows the secrets that Mercury keeps, so that they can be taken out of
// every text exactly, also in the encodings in which they travel. The zero
// value knows none. It is safe for use by many goroutines.
type Vault struct {
	mu       sync.RWMutex
	names    map[string]string // value → name
	replacer *strings.Replacer
}

// Add makes the vault know value under name. Values shorter than six bytes are
// not added: they would take ordinary words out of texts.
func (v *Vault) Add(name, value string) {
	if len(value) < shortest {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names == nil {
		v.names = map[string]string{}
	}
	v.names[value] = name
	v.replacer = replacerOf(v.names)
}

// Forget removes every value known under name.
func (v *Vault) Forget(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for value, n := range v.names {
		if n == name {
			delete(v.names, value)
		}
	}
	v.replacer = replacerOf(v.names)
}

// Mask takes the vault's secrets out of text, and then those that Mask
// recognises by their form.
func (v *Vault) Mask(text string) string {
	return Mask(v.exact(text))
}

// Screen is the package's Screen, which also knows the vault's secrets.
func (v *Vault) Screen(text string) (shown string, suppressed bool) {
	if v.exact(text) != text || v.exact(undressed(text)) != undressed(text) {
		return Hidden, true
	}
	return Screen(text)
}

func (v *Vault) exact(text string) string {
	v.mu.RLock()
	r := v.replacer
	v.mu.RUnlock()
	if r == nil {
		return text
	}
	return r.Replace(text)
}

// replacerOf replaces each value, and each encoding of it, by its name.
func replacerOf(names map[string]string) *strings.Replacer {
	if len(names) == 0 {
		return nil
	}
	var pairs [][2]string
	for value, name := range names {
		for _, form := range forms(value) {
			pairs = append(pairs, [2]string{form, "[secret " + name + "]"})
		}
	}
	// At one place the longest form wins, so no tail of a secret is left.
	sort.Slice(pairs, func(i, j int) bool {
		if len(pairs[i][0]) != len(pairs[j][0]) {
			return len(pairs[i][0]) > len(pairs[j][0])
		}
		return pairs[i][0] < pairs[j][0]
	})
	flat := make([]string, 0, 2*len(pairs))
	for _, p := range pairs {
		flat = append(flat, p[0], p[1])
	}
	return strings.NewReplacer(flat...)
}

func forms(value string) []string {
	quoted, _ := json.Marshal(value)
	all := []string{
		value,
		url.QueryEscape(value),
		url.PathEscape(value),
		strings.Trim(string(quoted), `"`),
		base64.StdEncoding.EncodeToString([]byte(value)),
		base64.RawStdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)),
		base64.RawURLEncoding.EncodeToString([]byte(value)),
		hex.EncodeToString([]byte(value)),
	}
	seen := map[string]bool{}
	out := all[:0]
	for _, f := range all {
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}
