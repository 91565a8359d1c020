package permission

import "strings"

// A Stream is Vault.Hide for a text that arrives in pieces: what may be the
// beginning of a secret is held back until the rest of it has come. It is not
// safe for concurrent use. The zero Stream of a vault holds nothing.
type Stream struct {
	vault *Vault
	held  string
}

// Stream returns a Stream that knows the vault's secrets.
func (v *Vault) Stream() *Stream { return &Stream{vault: v} }

// Write takes in the next piece and returns what may be shown now.
func (s *Stream) Write(piece string) string {
	text := s.vault.Hide(s.held + piece)
	keep := s.vault.begun(text)
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// Flush returns what was held back; the text has ended.
func (s *Stream) Flush() string {
	text := s.held
	s.held = ""
	return text
}

// begun is the length of the longest end of text that a secret begins with.
func (v *Vault) begun(text string) int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for at := max(0, len(text)-v.longest+1); at < len(text); at++ {
		for _, form := range v.forms[text[at]] {
			if len(form) > len(text)-at && strings.HasPrefix(form, text[at:]) {
				return len(text) - at
			}
		}
	}
	return 0
}
