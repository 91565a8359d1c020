package postgres

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/storetest"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func open(t testing.TB, address string) store.Store {
	t.Helper()
	s, err := Open(t.Context(), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPostgresKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Home {
		address := testenv.Postgres(t)
		return storetest.Home{Open: func(t *testing.T) store.Store { return open(t, address) }, Shared: true}
	})
}
