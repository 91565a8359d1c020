package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecode loads arbitrary files: no panic, places inside the file, and what
// loads can be explained.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(example))
	files, _ := filepath.Glob("testdata/problems/*.txt")
	for _, file := range files {
		b, _ := os.ReadFile(file)
		text, _, _ := strings.Cut(string(b), "=====")
		f.Add([]byte(text))
	}
	f.Add([]byte("a: &a [*a]\n<<: *a\n"))
	f.Add([]byte("? {a: b}\n: c\n"))
	f.Add([]byte("name: !!binary x\n%YAML 1.2\n---\n"))
	nowhere, _ := HomeAt(filepath.Join(f.TempDir(), "nowhere"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 16<<10 {
			return
		}
		src := Source{Home: nowhere, Getenv: variables(map[string]string{"A": "x"})}
		c, err := build(src, "mercury.yaml", text, nil)
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("the message is not UTF-8: %q", err)
			}
			return
		}
		for _, key := range c.Keys() {
			if _, err := c.Explain(key); err != nil {
				t.Errorf("a listed key cannot be explained: %v", err)
			}
		}
	})
}

// FuzzEdit sets values in arbitrary files: what edit makes either does not load
// or says what was asked for.
func FuzzEdit(f *testing.F) {
	f.Add("name: X # a\nweb: { listen: \"127.0.0.1:1\" }\n", "owner", "Ada")
	f.Add("fallbacks:\n- openai/a\n", "fallbacks", "openai/b, openai/c")
	f.Add("channels:\n", "channels.telegram.token", "a: b")
	f.Add("", `prices."a/b.c".input`, "1")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		if len(text) > 4<<10 || len(value) > 200 {
			return
		}
		h := homeWith(t, map[string]string{"mercury.yaml": text})
		src := Source{Home: h, Getenv: variables(nil)}
		before, broken := Load(src)
		c, err := Set(src, key, value)
		if err != nil {
			if got, _ := os.ReadFile(h.Config()); string(got) != text {
				t.Fatalf("the edit was refused (%v) but the file became %q", err, got)
			}
			return
		}
		if _, err := c.Get(key); err != nil && value != "null" && value != "~" {
			t.Errorf("set %s to %q in %q: %v", key, value, text, err)
		}
		if broken == nil {
			for _, k := range Changed(before, c) {
				if section, _, _ := strings.Cut(key, "."); !strings.HasPrefix(k, section) && !strings.HasPrefix(k, "providers.") && !strings.HasPrefix(k, "permissions.scopes") && k != "model" {
					t.Errorf("set %s to %q in %q changed %s", key, value, text, k)
				}
			}
		}
	})
}

// FuzzDotenv reads arbitrary text, and what is written is read back.
func FuzzDotenv(f *testing.F) {
	f.Add("A=1\nexport B=\"x\\n\" # c\n", "v")
	f.Add("A='", "a b#'\"\\\n\r\t$")
	f.Fuzz(func(t *testing.T, text, value string) {
		vars, problems := parseDotenv([]byte(text))
		for name, v := range vars {
			if !isName(name) || v.line < 1 {
				t.Errorf("%q at line %d", name, v.line)
			}
		}
		for _, p := range problems {
			if p.Line < 1 {
				t.Errorf("a problem without its line: %v", p)
			}
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return
		}
		back, problems := parseDotenv([]byte("X=" + quoteVariable(value) + "\n"))
		if back["X"].value != value || len(problems) > 0 {
			t.Errorf("wrote %q, read %q, %v", value, back["X"].value, problems)
		}
	})
}
