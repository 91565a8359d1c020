package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
)

// FillTables writes n rows of random values into every table of the schema,
// whatever that is, and puts one content. It returns what the tables hold.
func FillTables(t testing.TB, s store.Portable, n int) []store.Sum {
	t.Helper()
	err := s.Import(t.Context(), func(w store.Writer) error {
		tables, err := store.Kept(w)
		if err != nil {
			return err
		}
		for _, table := range tables {
			if !slices.ContainsFunc(table.Columns, func(c store.Column) bool { return c.Key > 0 }) {
				return fmt.Errorf("table %s has no key", table.Name)
			}
			if err := w.Insert(table, randomRows(table, n)); err != nil {
				return fmt.Errorf("fill %s: %w", table.Name, err)
			}
			if err := w.Filled(table); err != nil {
				return err
			}
		}
		content := []byte("content " + rand.Text())
		ref := sha256.Sum256(content)
		return w.PutContent(hex.EncodeToString(ref[:]), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	return Tables(t, s)
}

func randomRows(table store.Table, n int) [][]any {
	rows := make([][]any, n)
	for i := range rows {
		for j, c := range table.Columns {
			var v any = fmt.Sprintf("%s ∂ %d\n'\"\\", rand.Text(), i)
			switch {
			case c.Serial:
				v = int64(7 * (i + 1)) // with gaps, as after rows were removed
			case c.Type == store.NumberColumn:
				v = int64(i)<<40 - int64(j)
			case c.Type == store.RealColumn:
				v = 1 / float64(3+i+j)
			case c.Type == store.BytesColumn:
				v = []byte{0, 1, byte(i), 0xff}
			}
			rows[i] = append(rows[i], v)
		}
	}
	return rows
}

// Tables returns what the tables of a store hold, but for facts about the
// database itself.
func Tables(t testing.TB, s store.Portable) (sums []store.Sum) {
	t.Helper()
	err := s.Export(t.Context(), func(r store.Reader) error {
		tables, err := store.Kept(r)
		if err != nil {
			return err
		}
		sums = nil
		for _, table := range tables {
			if table.Name == "meta" {
				continue
			}
			sum, err := store.SumOf(r, table)
			if err != nil {
				return err
			}
			sums = append(sums, sum)
		}
		contents := store.Sum{Table: "contents"}
		var refs []string
		err = r.Contents(func(ref string, _ []byte) error {
			contents.Rows++
			refs = append(refs, ref)
			return nil
		})
		slices.Sort(refs)
		contents.SHA256 = strings.Join(refs, " ")
		sums = append(sums, contents)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// Carry exercises the copy of a store into another one and back. Each of open
// gives an empty one.
func Carry(t *testing.T, from, to func(*testing.T) store.Portable) {
	t.Run("every table arrives, and comes back, as it was", func(t *testing.T) {
		a, b, c := from(t), to(t), from(t)
		want := FillTables(t, a, 40)
		for _, leg := range []struct{ from, to store.Portable }{{a, b}, {b, c}} {
			sums, err := store.Copy(t.Context(), leg.from, leg.to, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sums {
				if s.Table != "meta" && s.Rows != 40 {
					t.Errorf("%d rows of %s were copied", s.Rows, s.Table)
				}
			}
			if got := Tables(t, leg.to); !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		}
	})
	t.Run("what counts goes on after what came", func(t *testing.T) {
		a, b := from(t), to(t)
		FillTables(t, a, 3)
		if _, err := store.Copy(t.Context(), a, b, nil); err != nil {
			t.Fatal(err)
		}
		err := b.Update(t.Context(), func(tx store.Tx) error {
			return tx.Audit(store.AuditRow{ID: "later", Act: "judge"})
		})
		if err != nil {
			t.Fatal(err)
		}
		var highest int64
		err = b.Export(t.Context(), func(r store.Reader) error {
			n := store.Column{Name: "n", Type: store.NumberColumn, Key: 1}
			return r.Rows(store.Table{Name: "audit", Columns: []store.Column{n}}, func(values []any) error {
				highest = values[0].(int64)
				return nil
			})
		})
		if err != nil || highest != 22 {
			t.Errorf("the newest row has the number %d after 21, %v", highest, err)
		}
	})
	t.Run("a copy that is broken off leaves nothing, and the next one is whole", func(t *testing.T) {
		a, b := from(t), to(t)
		want := FillTables(t, a, 5)
		before := Tables(t, b)
		broken := errors.New("broken off")
		if _, err := store.Copy(t.Context(), a, b, func(store.Writer) error { return broken }); !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := store.Copy(gone, a, b, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		got := Tables(t, b)
		if got, want := got[:len(got)-1], before[:len(before)-1]; !slices.Equal(got, want) { // contents are swept if nothing names them
			t.Errorf("%v was left", got)
		}
		if _, err := store.Copy(t.Context(), a, b, nil); err != nil {
			t.Fatal(err)
		}
		if got := Tables(t, b); !slices.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	})
}
