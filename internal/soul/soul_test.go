package soul

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func home(t *testing.T) (*Files, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "soul")
	f := New(Options{Dir: dir, Name: "Iris", Owner: "Kim", Screen: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	if err := f.Seed(); err != nil {
		t.Fatal(err)
	}
	return f, dir
}

func edit(t *testing.T, dir, part, text string) {
	t.Helper()
	path := filepath.Join(dir, part+".md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// A file system may note times by the second; an edit takes longer.
	at := time.Now().Add(time.Duration(len(text)) * time.Second)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstSoulIsShortNamesWhoItIsAndNeedsNoHand(t *testing.T) {
	f, _ := home(t)
	all := strings.Join(f.System(), "\n")
	if len(all) > 2200 || strings.Contains(all, "{") || !strings.Contains(all, "Iris") || !strings.Contains(all, "Kim") {
		t.Errorf("%d bytes: %s", len(all), all)
	}
	for _, part := range Parts {
		if text, note := f.Text(part); text == "" || note != "" {
			t.Errorf("%s: %q, %q", part, text, note)
		}
	}
	if !slices.Equal(f.System(), f.System()) {
		t.Error("the same files give other bytes")
	}
	if got := New(Options{Dir: t.TempDir()}).System(); len(got) != 1 || !strings.Contains(got[0], "Mercury") {
		t.Errorf("without files it is %q", got)
	}
}

func TestASoulIsSeededOnceAndDeletedPartsStayAway(t *testing.T) {
	f, dir := home(t)
	edit(t, dir, Persona, "Speak like a pirate, {name}.")
	if err := os.Remove(filepath.Join(dir, "taste.md")); err != nil {
		t.Fatal(err)
	}
	if err := f.Seed(); err != nil {
		t.Fatal(err)
	}
	persona, _ := f.Text(Persona)
	if taste, note := f.Text(Taste); taste != "" || note != "" || persona != "Speak like a pirate, {name}." {
		t.Errorf("persona %q, taste %q, %q", persona, taste, note)
	}
}

func TestAnEditCountsAtTheNextLook(t *testing.T) {
	f, dir := home(t)
	before := f.System()
	edit(t, dir, Persona, "Speak like a pirate, {name}.")
	after := f.System()
	if !slices.Contains(after, "Speak like a pirate, Iris.") || !slices.Equal(before[:2], after[:2]) {
		t.Errorf("after the edit: %q", after)
	}
	if f.Section(Heartbeat) == "" || strings.Contains(f.Section(Heartbeat), "{owner}") {
		t.Errorf("heartbeat is %q", f.Section(Heartbeat))
	}
}

func TestWhatDoesNotBelongInASoulIsLeftOutAndSaid(t *testing.T) {
	for _, tt := range []struct{ name, text, want, note string }{
		{"a secret", "the password is hunter2", "the password is ***", "looks like a secret"},
		{"too much", strings.Repeat("é", FileMax), strings.Repeat("é", FileMax/2), "the first"},
		{"no text", "\xff\xfe\x00", "", "not UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, dir := home(t)
			edit(t, dir, Soul, tt.text)
			text, note := f.Text(Soul)
			if text != tt.want || !strings.Contains(note, tt.note) || len(f.Notes()) != 1 {
				t.Errorf("%.40q, %q", text, note)
			}
		})
	}
	f, dir := home(t)
	path := filepath.Join(dir, "soul.md")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if text, note := f.Text(Soul); text != "" || !strings.Contains(note, "not a file") {
		t.Errorf("a folder in its place: %q, %q", text, note)
	}
	if _, err := f.Path("../mercury"); err == nil {
		t.Error("a part may lead elsewhere")
	}
}
