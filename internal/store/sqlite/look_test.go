package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/storetest"
)

func TestADatabaseIsCarriedBetweenHomes(t *testing.T) {
	fresh := func(t *testing.T) store.Portable { return open(t, t.TempDir()).(store.Portable) }
	storetest.Carry(t, fresh, fresh)
}

func TestASnapshotHasEveryTableAndSaysThatItIsACopy(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	want := storetest.FillTables(t, s, 20)
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Snapshot(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	_, got, err := Sums(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got = slices.DeleteFunc(got, func(s store.Sum) bool { return s.Table == "meta" })
	if want := want[:len(want)-1]; !slices.Equal(got, want) { // contents are files
		t.Errorf("got %v\nwant %v", got, want)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", st.Mode(), err)
	}
	mark := func(s store.Store) (v string, err error) {
		err = s.View(t.Context(), func(tx store.Tx) (err error) {
			v, err = tx.MetaValue(store.CopyMark)
			return err
		})
		return v, err
	}
	if _, err := mark(s); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the original has the mark: %v", err)
	}
	dir := t.TempDir()
	if err := os.Rename(path, filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if v, err := mark(open(t, dir)); err != nil || v == "" {
		t.Errorf("the copy has the mark %q, %v", v, err)
	}
}

func TestALookChangesNothingBesideAnOwnerOrAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "local/a")
	look := func() (n int, err error) {
		err = Look(t.Context(), dir, true, func(tx store.Tx, schema, known int) error {
			if schema != known {
				t.Errorf("schema %d of %d", schema, known)
			}
			if err := tx.SetMeta("a", "b"); err == nil {
				t.Error("a look may write")
			}
			list, _, err := tx.Conversations(store.Page{})
			n = len(list)
			return err
		})
		return n, err
	}
	if n, err := look(); n != 1 || err != nil {
		t.Errorf("beside its owner: %d, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			all = append(all, e.Name())
		}
		return all
	}
	before := names()
	if n, err := look(); n != 1 || err != nil {
		t.Errorf("alone: %d, %v", n, err)
	}
	if after := names(); !slices.Equal(after, before) {
		t.Errorf("there was %v and is %v", before, after)
	}
}

func TestALookFindsDamageAndAbsence(t *testing.T) {
	never := func(store.Tx, int, int) error { t.Error("it was read"); return nil }
	if err := Look(t.Context(), t.TempDir(), true, never); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	dir := written(t, 200)
	path := filepath.Join(dir, FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40 * 4096; i < len(b); i++ {
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Look(t.Context(), dir, true, never); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, b) {
		t.Error("it was changed")
	}
}
