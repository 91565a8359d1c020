package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestAFileIsReplacedWithItsPermissionsAndNothingIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	for _, text := range []string{"first", "second, longer", ""} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Fatalf("read back %q, %v; want %q", got, err, text)
		}
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("permissions are %v, want 0600", info.Mode().Perm())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder holds %d files, want 1", len(entries))
	}
}

func TestAFailedReplaceLeavesTheOldAndNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); err == nil {
		t.Fatal("a folder was replaced by a file")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder holds %d entries, want 1", len(entries))
	}
}

func TestALinkedFileStaysLinked(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		testenv.Missing(t, "symbolic links", "on Windows, turn on the developer mode")
	}
	for _, text := range []string{"made through a link to nothing", "changed"} {
		if err := Write(link, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(real); string(got) != text {
			t.Fatalf("the target holds %q, want %q", got, text)
		}
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
}

func TestOfManyCreatorsExactlyOneWinsAndTheOthersSeeItsContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	won := make(chan string, 16)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 64)
			switch err := Create(path, []byte(text), 0o600); {
			case err == nil:
				won <- text
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			default:
				if got, _ := os.ReadFile(path); len(got) != 64 {
					t.Errorf("a loser read %q", got)
				}
			}
		})
	}
	all.Wait()
	close(won)
	if len(won) != 1 {
		t.Fatalf("%d creators won, want 1", len(won))
	}
	if got, _ := os.ReadFile(path); string(got) != <-won {
		t.Error("the file does not hold the winner's content")
	}
}
