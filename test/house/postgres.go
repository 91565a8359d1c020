//go:build unix

package house

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Empty removes everything from a database of PostgreSQL, and whoever is still
// connected to it.
func Empty(t testing.TB, url string) {
	t.Helper()
	Disconnect(t, url)
	Execute(t, url, "DROP SCHEMA public CASCADE")
	Execute(t, url, "CREATE SCHEMA public")
}

// Disconnect drops everybody's connection to a database, as a server does that
// restarts.
func Disconnect(t testing.TB, url string) {
	t.Helper()
	Execute(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
}

// Execute runs one statement in a database of PostgreSQL.
func Execute(t testing.TB, url, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
