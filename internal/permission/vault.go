package permission

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// shortest is the length below which a value is too common to be replaced
// wherever it occurs, in bytes; words of letters alone, such as the "ollama"
// that servers without keys want as a key, are too common below wordy.
const (
	shortest = 6
	wordy    = 16
)

// Vault knows the secrets that Mercury keeps, so that they can be taken out of
// every text exactly, also in the encodings in which they travel. The zero
// value knows none. It is safe for use by many goroutines.
type Vault struct {
	mu       sync.RWMutex
	names    map[string]string // value → name
	replacer *strings.Replacer
	forms    map[byte][]string // what it looks for, by first byte
	longest  int               // bytes of the longest form
	begin    [1024]uint64      // which beginnings there are, a bit for each
}

// Add makes the vault know value under name. Values shorter than six bytes,
// and words in lower case shorter than sixteen, are not added: they would take
// ordinary words out of texts. The lines of a longer text, such as a private
// key, count each.
func (v *Vault) Add(name, value string) {
	v.Fill(map[string]string{name: value})
}

// Fill is Add for many secrets by name.
func (v *Vault) Fill(secrets map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.names == nil {
		v.names = map[string]string{}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(secrets))) { // of several names always the same one
		value := secrets[name]
		// What stands in place of a secret may lie inside a quoted text.
		name = strings.NewReplacer(`"`, "'", `\`, "/").Replace(name)
		if telling(value) {
			v.names[value] = name
		}
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			for _, line := range lines {
				if line = strings.TrimSpace(line); len(line) >= wordy && !strings.HasPrefix(line, "-----") {
					v.names[line] = name
				}
			}
		}
	}
	v.prepare()
}

func telling(value string) bool {
	return len(value) >= shortest && (len(value) >= wordy || strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-_") != "")
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
	v.prepare()
}

// values are the secrets that stand in text in whatever form.
func (v *Vault) values(text string) []string {
	if v.Hide(text) == text {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	var found []string
	for value := range v.names {
		if slices.ContainsFunc(forms(value), func(form string) bool { return strings.Contains(text, form) }) {
			found = append(found, value)
		}
	}
	return found
}

// name is what a secret is called.
func (v *Vault) name(value string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.names[value]
}

// Mask takes the vault's secrets out of text, and then those that Mask
// recognises by their form.
func (v *Vault) Mask(text string) string {
	return Mask(v.Hide(text))
}

// Screen is the package's Screen, which also knows the vault's secrets.
func (v *Vault) Screen(text string) (shown string, suppressed bool) {
	if v.Hide(text) != text || v.Hide(undressed(text)) != undressed(text) {
		return Hidden, true
	}
	return Screen(text)
}

// Hide takes the vault's secrets out of text and leaves the rest as it is.
func (v *Vault) Hide(text string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.replacer == nil || !v.holds(text) {
		return text
	}
	return v.replacer.Replace(text)
}

// holds reports whether a secret stands in text. Nearly every text holds none,
// and a request is long: one look at each byte must do.
func (v *Vault) holds(text string) bool {
	for i := 0; i+4 <= len(text); i++ {
		h := beginning(text[i:])
		if v.begin[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, form := range v.forms[text[i]] {
			if strings.HasPrefix(text[i:], form) {
				return true
			}
		}
	}
	return false
}

// beginning is a number from the first four bytes of s.
func beginning(s string) uint32 {
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 2654435761 >> 16
}

// prepare makes what replaces each value, and each encoding of it, by its name.
// It is called under the lock.
func (v *Vault) prepare() {
	v.replacer, v.forms, v.longest, v.begin = nil, nil, 0, [1024]uint64{}
	if len(v.names) == 0 {
		return
	}
	var pairs [][2]string
	for value, name := range v.names {
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
	v.forms, v.longest = map[byte][]string{}, len(pairs[0][0])
	for _, p := range pairs {
		flat = append(flat, p[0], p[1])
		h := beginning(p[0])
		v.begin[h>>6] |= 1 << (h & 63)
		v.forms[p[0][0]] = append(v.forms[p[0][0]], p[0])
	}
	v.replacer = strings.NewReplacer(flat...)
}

// within is what of value stands in the Base64 of a longer text, whatever
// comes around it, when it begins before bytes after a border of three.
func within(enc *base64.Encoding, value string, before int) string {
	whole := enc.EncodeToString(append(make([]byte, before), value...))
	from, to := (before*8+5)/6, (before+len(value))*8/6
	return whole[from:to]
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
		strings.ToUpper(hex.EncodeToString([]byte(value))),
		html.EscapeString(value),
		strings.ReplaceAll(strconv.QuoteToASCII(value), `"`, ""),
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			if inner := within(enc, value, before); len(inner) >= wordy {
				all = append(all, inner)
			}
		}
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
