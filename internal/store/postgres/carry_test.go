package postgres

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/store/storetest"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func lite(t *testing.T) store.Portable {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(store.Portable)
}

func TestADatabaseIsCarriedFromSQLiteAndBack(t *testing.T) {
	storetest.Carry(t, lite, func(t *testing.T) store.Portable { return open(t, testenv.Postgres(t)).(store.Portable) })
}

func TestADatabaseIsCarriedFromPostgreSQLAndBack(t *testing.T) {
	storetest.Carry(t, func(t *testing.T) store.Portable { return open(t, testenv.Postgres(t)).(store.Portable) }, lite)
}

func TestWhatIsPutAsideIsKeptAndItsPlaceIsFree(t *testing.T) {
	address := testenv.Postgres(t)
	s := open(t, address).(*Store)
	want := storetest.FillTables(t, s, 3)
	schema, err := s.Aside(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	fresh := open(t, address).(store.Portable)
	for _, sum := range storetest.Tables(t, fresh) {
		if sum.Rows != 0 {
			t.Errorf("table %s still has %d rows", sum.Table, sum.Rows)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	old := open(t, u.String()).(store.Portable)
	if got := storetest.Tables(t, old); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
