package postgres

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/storetest"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func BenchmarkPostgres(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return open(b, testenv.Postgres(b)) })
}
