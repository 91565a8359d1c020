package backup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/storetest"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// place opens the database of a home wherever its configuration says it is.
func place(t *testing.T, home, url string) store.Portable {
	t.Helper()
	if url == "" {
		return opened(t, home)
	}
	s, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(store.Portable)
}

// life is one start and orderly end of a home. It wants the database to be the
// one the home knows.
func life(t *testing.T, home, url string) {
	t.Helper()
	s := place(t, home, url)
	defer s.Close()
	station := Station{Home: home, Node: "node_1", Store: s, Shared: url != ""}
	if held := recogniseIn(t, station, true); held != nil {
		t.Errorf("a database that was moved counts as restored: %v", held)
	}
	if err := station.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func tablesAt(t *testing.T, home, url string) []store.Sum {
	t.Helper()
	s := place(t, home, url)
	defer s.Close()
	return storetest.Tables(t, s)
}

func TestADatabaseMovesThereAndBackAsOftenAsOneLikes(t *testing.T) {
	home, url := t.TempDir(), testenv.Postgres(t)
	s := opened(t, home)
	want := storetest.FillTables(t, s, 30)
	s.Close()
	life(t, home, "")
	now := ""
	for _, to := range []string{url, "", url, ""} {
		// Interrupted before the configuration names the new place.
		stop := errors.New("interrupted")
		m := Moving{Home: home, Node: "node_1", From: now, To: to, Switch: func() error { return stop }}
		if _, err := Move(t.Context(), m); !errors.Is(err, stop) {
			t.Fatalf("got %v", err)
		}
		life(t, home, now)
		if got := tablesAt(t, home, now); !slices.Equal(got, want) {
			t.Fatalf("after an interruption there is %v\nwant %v", got, want)
		}
		m.Switch = func() error { return nil }
		moved, err := Move(t.Context(), m)
		if err != nil {
			t.Fatalf("to %q: %v", to, err)
		}
		for _, sum := range moved.Tables {
			if sum.Table != metaTable && sum.Rows != 30 {
				t.Errorf("%d rows of %s moved", sum.Rows, sum.Table)
			}
		}
		if to != "" {
			if _, err := os.Stat(filepath.Join(home, databaseEntry)); err == nil || !strings.Contains(moved.Old, ".moved-") {
				t.Errorf("the old database is still in its place; %q", moved.Old)
			}
		} else if !strings.HasPrefix(moved.Old, "the schema mercury_moved_") {
			t.Errorf("the old database is %q", moved.Old)
		}
		if got := tablesAt(t, home, to); !slices.Equal(got, want) {
			t.Errorf("there is %v\nwant %v", got, want)
		}
		life(t, home, to)
		life(t, home, to)
		now = to
	}
	found, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(found, func(e os.DirEntry) bool { return e.Name() == moving }) {
		t.Error("the folder it was filled in is left")
	}
}

func TestAMoveIsRefusedWhereSomebodyWorksOrSomethingStands(t *testing.T) {
	home, url := t.TempDir(), testenv.Postgres(t)
	s := opened(t, home)
	storetest.FillTables(t, s, 2)
	m := Moving{Home: home, Node: "node_1", To: url, Switch: func() error { t.Error("it was switched"); return nil }}
	var held *homelock.HeldError
	if _, err := Move(t.Context(), m); !errors.As(err, &held) {
		t.Errorf("while it is lived in: got %v", err)
	}
	s.Close()
	other := place(t, home, url)
	storetest.FillTables(t, other, 1)
	if _, err := Move(t.Context(), m); mercury.KindOf(err) != mercury.Conflict || mercury.HelpOf(err) == "" {
		t.Errorf("where another Mercury's data is: got %v", err)
	}
	err := other.Update(t.Context(), func(tx store.Tx) error {
		return tx.PutProcess(store.Process{ID: "ps_1", Name: "elsewhere (pid 1)", LeaseUntil: tx.Now().Add(1e12)})
	})
	if err != nil {
		t.Fatal(err)
	}
	back := Moving{Home: home, Node: "node_1", From: url, Switch: m.Switch}
	if _, err := Move(t.Context(), back); mercury.KindOf(err) != mercury.Conflict || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("while others share it: got %v", err)
	}
	if _, err := Move(t.Context(), Moving{Home: home, From: url, To: url}); mercury.KindOf(err) != mercury.Invalid {
		t.Errorf("to the same engine: got %v", err)
	}
}

func TestABackupOfAPostgreSQLHomeIsASQLiteHome(t *testing.T) {
	home, url := t.TempDir(), testenv.Postgres(t)
	s := place(t, home, url)
	want := storetest.FillTables(t, s, 10)
	left := "files/ab/ab" + strings.Repeat("0", 62) // of a SQLite database it had before
	for name, text := range map[string]string{"files/outputs/a.txt": "output", left: "old", "soul/soul.md": "I am calm."} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := created(t, New(home, s, Options{}), Request{})
	m, err := Verify(t.Context(), info.Path)
	if err != nil || m.Engine != "postgres" {
		t.Fatalf("%s, %v", m.Engine, err)
	}
	to := filepath.Join(t.TempDir(), "there")
	prepared := false
	_, err = Restore(t.Context(), info.Path, to, RestoreOptions{Prepare: func(_ string, m Manifest) error {
		prepared = m.Engine == "postgres"
		return nil
	}})
	if err != nil || !prepared {
		t.Fatalf("prepared %t, %v", prepared, err)
	}
	if got := tablesAt(t, to, ""); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(to, "files", "outputs", "a.txt")); string(b) != "output" {
		t.Errorf("an output came back as %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(to, left)); err == nil {
		t.Error("a content of a former database came along")
	}
	within(t, to, func(s Station) {
		if recogniseIn(t, s, true) == nil {
			t.Error("it is not known to be a copy")
		}
	})
}

func TestASharedDatabaseThatWentBackIsRecognisedAndAHomeThatJoinsIsNot(t *testing.T) {
	url, dump := testenv.Postgres(t), testenv.Postgres(t)
	home, other := t.TempDir(), t.TempDir()
	s := place(t, home, url)
	at := func(home, node string, s store.Store) Station {
		return Station{Home: home, Node: node, Store: s, Shared: true}
	}
	recogniseIn(t, at(home, "node_1", s), true)
	if held := recogniseIn(t, at(other, "node_2", s), true); held != nil {
		t.Errorf("a home that joins: %v", held)
	}
	old := place(t, home, dump) // the server's own dump knows no mark
	if _, err := store.Copy(t.Context(), s, old, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if held := recogniseIn(t, at(home, "node_1", s), true); held != nil {
			t.Errorf("an ordinary start: %v", held)
		}
	}
	if held := recogniseIn(t, at(home, "node_1", old), true); held == nil {
		t.Error("a database that went back was not recognised")
	}
	// The other home meets another incarnation then, and finds it held already.
	if held := recogniseIn(t, at(other, "node_2", old), true); held == nil {
		t.Error("the second home does not know that it is held")
	}
}
