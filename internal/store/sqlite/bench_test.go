package sqlite

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/storetest"
)

func BenchmarkSQLite(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return open(b, b.TempDir()) })
}

func BenchmarkOpening(b *testing.B) {
	dir := b.TempDir()
	open(b, dir).Close()
	for b.Loop() {
		s, err := Open(b.Context(), dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}
