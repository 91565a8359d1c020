package skill

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Finding is something about a skill that its owner should know before it is
// installed. A severe one is refused unless the owner insists.
type Finding struct {
	Severe bool   `json:"severe,omitempty"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	What   string `json:"what"`
}

func (f Finding) String() string {
	mark, where := "·", f.File
	if f.Severe {
		mark = "!"
	}
	if f.Line > 0 {
		where = fmt.Sprintf("%s line %d", f.File, f.Line)
	}
	return fmt.Sprintf("%s %s: %s", mark, where, f.What)
}

// signs are shapes of hostile skills that were seen in the wild: what a text
// has its reader fetch and run, or hand over.
var signs = []struct {
	shape *regexp.Regexp
	what  string
}{
	{regexp.MustCompile(`(?i)\b(curl|wget|fetch|iwr|invoke-webrequest)\b[^\n|;]*[|;]\s*(sudo\s+)?(ba|z|da|k)?sh\b`), "it has something fetched and run unseen"},
	{regexp.MustCompile(`(?i)\bbase64\b[^\n|]*(-d|--decode|-D)[^\n|]*\|\s*(sudo\s+)?(ba|z|da)?sh\b`), "it has encoded text run as commands"},
	{regexp.MustCompile(`(?i)(ba|z|da)?sh\s+(-c\s+)?["']?\$\(\s*(curl|wget|base64)`), "it has something fetched or encoded run as commands"},
	{regexp.MustCompile(`(?i)<\(\s*(curl|wget)\b`), "it has something fetched and run unseen"},
	{regexp.MustCompile(`(?i)powershell[^\n]*-e(nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{20,}`), "it has encoded text run as commands"},
	{regexp.MustCompile(`(?i)\b(zip|rar|7z|archive)\b[^\n]{0,60}\b(password|passphrase)\b`), "it has a locked archive opened, which no scanner can look into"},
	{regexp.MustCompile(`(?i)\bxattr\s+-[a-z]*[cd]|spctl\s+--master-disable|set-executionpolicy|setenforce\s+0`), "it has a protection of the system switched off"},
	{regexp.MustCompile(`(?i)(ignore|disregard|forget)\s+(all\s+|any\s+)?(previous|prior|above|earlier|your)\s+(instructions|rules|guardrails)`), "it tells the model to disregard its rules"},
	{regexp.MustCompile(`(?i)(do not|don't|never)\s+(tell|inform|mention\s+(this|it)\s+to|ask)\s+(the\s+)?(user|owner|person|human)`), "it tells the model to keep something from you"},
	{regexp.MustCompile(`(?i)(\.ssh/|id_rsa|id_ed25519|\.aws/credentials|\.netrc|\.mercury/|wallet\.dat|login\.keychain|/etc/shadow)`), "it names files in which people keep keys"},
	{regexp.MustCompile(`(?i)\b(sudo\s+rm|rm\s+-rf?\s+[~/]|mkfs|dd\s+if=|:\(\)\s*\{)`), "it has something destroyed"},
	{regexp.MustCompile(`(?i)(allow-all|permissions?\.mode|--dangerously|auto-?approve|skip[- ]permissions)`), "it wants permissions widened"},
}

// mentions are worth knowing and ordinary in good skills.
var mentions = []struct {
	shape *regexp.Regexp
	what  string
}{
	{regexp.MustCompile(`(?i)^\s*#*\s*(prerequisite|requirements?)\b`), "it asks for something to be installed first"},
	{regexp.MustCompile(`(?i)\b(pip3?|pipx|npm|npx|pnpm|yarn|brew|apt(-get)?|gem|cargo|go)\s+(install|add|i)\b|\bnpx\s`), "it has packages installed"},
	{regexp.MustCompile(`(?i)\b(api[_-]?key|token|password|secret)\b\s*[:=]`), "it works with a key or password"},
}

// Scan looks for what should be known before a skill is installed.
func Scan(b Bundle) []Finding {
	var found []Finding
	add := func(severe bool, file string, line int, what string) {
		f := Finding{severe, file, line, what}
		if !slices.Contains(found, f) && len(found) < 50 {
			found = append(found, f)
		}
	}
	if slices.ContainsFunc(b.AllowedTools, func(t string) bool { return strings.Contains(t, "*") }) {
		add(true, FileName, 0, "it asks for all tools; allowed-tools only takes tools away, so it would get none that you did not allow")
	}
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		f := b.Files[name]
		if kind := binary(f.Text); kind != "" {
			add(kind == "a program", name, 0, kind+", which cannot be read")
			continue
		}
		switch strings.ToLower(path.Ext(name)) {
		case ".zip", ".rar", ".7z", ".gz", ".tgz", ".xz", ".exe", ".dll", ".dylib", ".so", ".scr", ".msi", ".dmg", ".pkg":
			add(true, name, 0, "a program or archive, which cannot be read")
		}
		for i, line := range strings.Split(string(f.Text), "\n") {
			for _, s := range signs {
				if s.shape.MatchString(line) {
					add(true, name, i+1, s.what)
				}
			}
			for _, s := range mentions {
				if s.shape.MatchString(line) {
					add(false, name, i+1, s.what)
				}
			}
			if r := hiddenRune(line); r != 0 {
				add(true, name, i+1, fmt.Sprintf("it holds invisible characters (U+%04X)", r))
			}
			if encoded(line) {
				add(true, name, i+1, "it holds encoded commands")
			}
		}
		for _, at := range comments(f.Text) {
			add(false, name, at, "a comment that people do not see when it is shown as a page")
		}
	}
	return found
}

// Severe reports whether something found should keep a skill out.
func Severe(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Severe })
}

// binary says what a file is that is no text.
func binary(text []byte) string {
	for _, magic := range []string{"\x7fELF", "MZ", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "PK\x03\x04"} {
		if bytes.HasPrefix(text, []byte(magic)) {
			return "a program"
		}
	}
	if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
		return "a file that is no text"
	}
	return ""
}

// hiddenRune returns the first rune of a line that shows nothing and can carry
// words: tags, variation selectors in a row, zero-width and direction marks.
func hiddenRune(line string) rune {
	selectors := 0
	for i, r := range line {
		switch {
		case r >= 0xE0000 && r <= 0xE01EF:
			return r
		case r >= 0xFE00 && r <= 0xFE0F:
			if selectors++; selectors > 1 {
				return r
			}
			continue
		case r == 0x200B || r == 0x2060 || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x00AD || r == 0x180E:
			return r
		case r == 0xFEFF && i > 0:
			return r
		case r != '\t' && unicode.Is(unicode.Cc, r) && r != '\r':
			return r
		}
		selectors = 0
	}
	return 0
}

var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// encoded reports whether a line holds base64 whose content reads as a command.
func encoded(line string) bool {
	for _, run := range base64Run.FindAllString(line, 4) {
		plain, err := base64.StdEncoding.DecodeString(run + strings.Repeat("=", (4-len(run)%4)%4))
		if err != nil {
			continue
		}
		if utf8.Valid(plain) && regexp.MustCompile(`(?i)\b(sh|bash|curl|wget|eval|powershell|python|rm)\b`).Match(plain) {
			return true
		}
	}
	return false
}

var comment = regexp.MustCompile(`(?s)<!--.*?-->`)

// comments returns the lines at which HTML comments with words begin.
func comments(text []byte) (lines []int) {
	for _, at := range comment.FindAllIndex(text, 5) {
		if len(strings.Fields(string(text[at[0]:at[1]]))) > 4 {
			lines = append(lines, 1+bytes.Count(text[:at[0]], []byte("\n")))
		}
	}
	return lines
}
