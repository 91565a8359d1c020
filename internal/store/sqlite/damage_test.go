package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// written makes a home with n conversations, each with entries, and closes it.
func written(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for i := range n {
		fill(t, s, fmt.Sprint("local/", i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fill(t testing.TB, s store.Store, id string) {
	t.Helper()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if err := tx.InsertConversation(mercury.Conversation{ID: id}); err != nil {
			return err
		}
		_, err := tx.Append(id, mercury.Entry{Text: strings.Repeat("x", 3000)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestADamagedDatabaseIsRefusedAndLeftAsItIs(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"cut in a header":   func(b []byte) []byte { return b[:60] },
		"cut in the middle": func(b []byte) []byte { return b[:len(b)/2] },
		"one page short":    func(b []byte) []byte { return b[:len(b)-4096] },
		"garbage":           func(b []byte) []byte { return bytes.Repeat([]byte("mercury "), len(b)/8) },
		"zeros":             func(b []byte) []byte { return make([]byte, len(b)) },
		"a torn header":     func(b []byte) []byte { copy(b[16:100], make([]byte, 84)); return b },
		"a torn first page": func(b []byte) []byte {
			copy(b[100:4096], bytes.Repeat([]byte{0xff}, 3996))
			return b
		},
		"another program's": func(b []byte) []byte { copy(b[68:72], "abcd"); return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, 20)
			path := filepath.Join(dir, FileName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b = damage(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), dir, Options{})
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			if !errors.Is(err, store.ErrDamaged) || mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
				t.Errorf("got %v, kind %v, help %q", err, mercury.KindOf(err), mercury.HelpOf(err))
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, b) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestALogWithoutItsDatabaseIsDamageNotANewHome(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName+"-wal"), []byte("frames"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

func TestDamageInsideIsReportedByWhatMeetsIt(t *testing.T) {
	dir := written(t, 200)
	path := filepath.Join(dir, FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40 * 4096; i < len(b); i++ { // the schema is well before
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir, Options{})
	if err == nil {
		defer s.Close()
		err = s.View(t.Context(), func(tx store.Tx) error {
			for i := range 200 {
				if _, err := tx.Entries(fmt.Sprint("local/", i), 0, 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if !errors.Is(err, store.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

// crashed copies a home's files while its store is open, which is what a kill
// leaves behind.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{FileName, FileName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func count(t *testing.T, dir string) int {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	n := 0
	err := s.View(t.Context(), func(tx store.Tx) error {
		list, _, err := tx.Conversations(store.Page{Limit: 1000})
		n = len(list)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// logEnd is where the last frame of the log ends: the file is longer. A frame
// of this log repeats the salts of its header.
func logEnd(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	at := 32
	for ; at+24+pageSize <= len(b) && bytes.Equal(b[at+8:at+16], b[16:24]); at += 24 + pageSize {
	}
	return at
}

func TestATornLogLosesOnlyWhatWasNotYetAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 5 {
		fill(t, s, fmt.Sprint("local/", i))
	}
	begin := logEnd(t, dir)
	fill(t, s, "local/last")
	whole := crashed(t, dir)
	if got := count(t, whole); got != 6 {
		t.Fatalf("%d conversations after a kill, want 6", got)
	}
	// The last commit's frames, cut or overwritten at every kind of place.
	for _, at := range []int{begin, begin + 1, begin + 24, begin + 2000, logEnd(t, dir) - 1} {
		for _, how := range []string{"cut", "overwritten"} {
			torn := crashed(t, dir)
			wal := filepath.Join(torn, FileName+"-wal")
			b, err := os.ReadFile(wal)
			if err != nil {
				t.Fatal(err)
			}
			if how == "cut" {
				b = b[:at]
			} else {
				for i := at; i < len(b); i++ {
					b[i] ^= 0xff
				}
			}
			if err := os.WriteFile(wal, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := count(t, torn); got != 5 {
				t.Errorf("log %s at %d: %d conversations, want 5", how, at-begin, got)
			}
		}
	}
}

func FuzzOpeningAnyFileNeverPanicsNorReplacesIt(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte("SQLite format 3\x00"), []byte("x"))
	f.Add(append([]byte("SQLite format 3\x00\x10\x00\x02\x02"), make([]byte, 200)...), []byte{})
	f.Fuzz(func(t *testing.T, db, wal []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := os.WriteFile(path, db, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+"-wal", wal, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir, Options{})
		if err == nil {
			s.Close()
			t.Fatalf("%d bytes of nothing opened", len(db))
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, db) {
			t.Error("the file was changed")
		}
	})
}
