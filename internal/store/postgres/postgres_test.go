package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

func TestAFrozenProcessLetsGoOfItsLocksBeforeOthersTakeOver(t *testing.T) {
	config, err := pgx.ParseConfig("postgres://mercury@localhost/mercury")
	if err != nil {
		t.Fatal(err)
	}
	prepareConfig(config)
	idle, err := time.ParseDuration(config.RuntimeParams["idle_in_transaction_session_timeout"])
	if err != nil {
		t.Fatal(err)
	}
	const lease = 25 * time.Second // of a process that is alive
	if idle <= 0 || idle >= lease {
		t.Errorf("a transaction may stand still for %v, want less than the lease of %v", idle, lease)
	}
}
