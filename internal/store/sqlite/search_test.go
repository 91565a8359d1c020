package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
)

func remember(t *testing.T, s store.Store, ids ...string) {
	t.Helper()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		for _, id := range ids {
			if err := tx.InsertMemory(store.Memory{ID: id, Scope: "owner", Kind: "preference", Summary: "prefers oolong tea, says " + id, Tier: store.TierDurable, State: store.MemoryLive}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func oolong(t *testing.T, s store.Store) (n int) {
	t.Helper()
	err := s.View(context.Background(), func(tx store.Tx) error {
		found, err := tx.MemoriesWith(store.MemoryQuery{Scope: "owner", Words: [][]string{{"oolong"}}, Limit: 100})
		n = len(found)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The index is made from the database, so whatever happens to its file, what is
// known is found.
func TestTheSearchIndexIsMadeAnewWhateverHappensToIt(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"it is gone":  os.Remove,
		"it is empty": func(path string) error { return os.Truncate(path, 0) },
		"it is no database": func(path string) error {
			return os.WriteFile(path, []byte("not a database, but long enough to have a header of one hundred bytes, which is what is looked at first, here."), 0o600)
		},
		"it is cut in half":  func(path string) error { return os.Truncate(path, 6000) },
		"nothing, it stands": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() store.Store {
				s, err := Open(t.Context(), dir, Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			remember(t, s, "mem_1", "mem_2")
			if n := oolong(t, s); n != 2 {
				t.Fatalf("found %d", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := harm(filepath.Join(dir, SearchName)); err != nil {
				t.Fatal(err)
			}
			s = open()
			defer s.Close()
			remember(t, s, "mem_3")
			if n := oolong(t, s); n != 3 {
				t.Errorf("afterwards found %d", n)
			}
		})
	}
}

func TestAnIndexOfAYoungerDatabaseIsNotBelieved(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		remember(t, s, fmt.Sprint("mem_", i))
	}
	if n := oolong(t, s); n != 5 {
		t.Fatalf("found %d", n)
	}
	s.Close()
	// An older database comes back in its place, as a restored copy does.
	old, err := Open(t.Context(), other, Options{})
	if err != nil {
		t.Fatal(err)
	}
	remember(t, old, "mem_old")
	old.Close()
	b, err := os.ReadFile(filepath.Join(other, FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		os.Remove(filepath.Join(dir, FileName+suffix))
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := oolong(t, s); n != 1 {
		t.Errorf("found %d", n)
	}
}

func TestTheSearchIndexIsOnlyItsOwnersToRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(filepath.Join(dir, SearchName)); err == nil {
		t.Error("it is made before anybody looks for something")
	}
	remember(t, s, "mem_1")
	oolong(t, s)
	info, err := os.Stat(filepath.Join(dir, SearchName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
