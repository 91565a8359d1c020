package daemon

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watched starts watching mercury.yaml in a folder and returns it, with what
// tells of changes.
func watched(t *testing.T, file string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan string, 16)
	done := make(chan error, 1)
	go func() {
		done <- watch(ctx, []string{file, filepath.Join(filepath.Dir(file), ".env")}, func() {
			text, _ := os.ReadFile(file)
			changes <- string(text)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// It watches when a first change is seen; what comes before it counts for
	// nothing.
	probe := filepath.Join(filepath.Dir(file), ".env")
	for i := 0; ; i++ {
		write(t, probe, string(rune('a'+i)))
		select {
		case <-changes:
			return changes
		case <-time.After(2 * settling):
			if i == 25 {
				t.Fatal("nothing is watched")
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, changes <-chan string, want string) {
	t.Helper()
	select {
	case got := <-changes:
		if got != want {
			t.Fatalf("saw %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the change to %q was never seen", want)
	}
}

func TestAChangeOfAFileIsSeenOnceHoweverItIsWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mercury.yaml")
	write(t, file, "one")
	changes := watched(t, file)

	write(t, file, "two")
	expect(t, changes, "two")

	// An editor that writes beside it and renames.
	write(t, file+".swp", "three")
	if err := os.Rename(file+".swp", file); err != nil {
		t.Fatal(err)
	}
	expect(t, changes, "three")

	// In pieces: only the whole is seen.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"f", "ou", "r"} {
		f.WriteString(piece)
	}
	f.Close()
	expect(t, changes, "four")

	// The same content again, and other files of the folder, are no change.
	write(t, file, "four")
	write(t, filepath.Join(dir, "mercury.db-wal"), "x")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect(t, changes, "")
	write(t, file, "five")
	expect(t, changes, "five")
	select {
	case got := <-changes:
		t.Errorf("one change more: %q", got)
	default:
	}
}

func TestAFileBehindLinksIsWatchedWhereItLies(t *testing.T) {
	dir, dots := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "mercury.yaml")
	write(t, filepath.Join(dots, "real.yaml"), "one")
	if err := os.Symlink(filepath.Join(dots, "real.yaml"), file); err != nil {
		return // a system without links has none to follow
	}
	changes := watched(t, file)
	write(t, filepath.Join(dots, "real.yaml"), "two")
	expect(t, changes, "two")

	// The link is turned to another file, which is watched from then on.
	write(t, filepath.Join(dots, "other.yaml"), "three")
	if err := os.Symlink(filepath.Join(dots, "other.yaml"), file+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	expect(t, changes, "three")
	write(t, filepath.Join(dots, "other.yaml"), "four")
	expect(t, changes, "four")
}
