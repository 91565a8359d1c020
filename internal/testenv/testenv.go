// Package testenv gives tests what a bare machine may lack: a PostgreSQL
// database, a program such as strace, a capability of the kernel. A suite that
// cannot have it is skipped aloud: the skip starts with "skipped suite:", says
// how to enable the suite, and is listed at the end of `make test`. Where
// MERCURY_TEST_REQUIRE=1 is set, as in `make check`, the same call fails.
//
// No other place in the tree skips a test; the architecture test sees to it.
// Only tests import this package.
package testenv

import (
	"context"
	"crypto/rand"
	_ "embed"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The environment through which scripts/with-suites talks to the tests.
const (
	postgresURL = "MERCURY_TEST_POSTGRES" // URL of a server on which databases may be created
	require     = "MERCURY_TEST_REQUIRE"  // "1": a suite that cannot run is a failure
	skippedFile = "MERCURY_TEST_SKIPPED"  // file that collects one line a skipped suite
	soakTime    = "MERCURY_TEST_SOAK"     // how long soak tests run, such as "24h"
)

// patience bounds one statement to the test server: creating a database copies
// a template and syncs it, which takes seconds on a slow card.
const patience = time.Minute

//go:embed programs.txt
var programs string

// Postgres returns the URL of a database made for this test, empty, and dropped
// with everyone's connections when the test ends. Without a server the suite is
// skipped aloud.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv(postgresURL)
	if server == "" {
		Missing(t, "PostgreSQL", "install postgresql and run `make test`, which starts a private server, or set "+
			postgresURL+" to the URL of a server on which databases may be created")
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("parse %s: %v", postgresURL, err)
	}
	name := "mercury_test_" + strings.ToLower(rand.Text())
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// execute runs one statement on the server. It does not use the test's own
// context, which has ended by the time of a cleanup.
func execute(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect to test server: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Need returns the path of a program, or skips the suite aloud when the machine
// has none. A program must have a line in programs.txt, so that it is installed
// where that is possible and people are told the package where it is not.
func Need(t testing.TB, program string) string {
	t.Helper()
	packages, purpose, ok := lookup(program)
	if !ok {
		t.Fatalf("%s has no line in internal/testenv/programs.txt", program)
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	// Debian keeps the server's own programs off the PATH, a folder a version.
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(found) > 0 {
		return found[len(found)-1]
	}
	Missing(t, program+" ("+purpose+")", "install "+strings.ReplaceAll(packages, ",", " "))
	return ""
}

// lookup finds the line of a program in programs.txt.
func lookup(program string) (packages, purpose string, ok bool) {
	for line := range strings.Lines(programs) {
		f := strings.Fields(line)
		if len(f) >= 4 && f[0] == program {
			return f[2], strings.Join(f[3:], " "), true
		}
	}
	return "", "", false
}

// Missing skips the suite aloud, or fails where suites are required. what names
// the thing that is not there, such as "user namespaces"; cure says how to get it.
func Missing(t testing.TB, what, cure string) {
	t.Helper()
	if os.Getenv(require) == "1" {
		t.Fatalf("suite cannot run without %s: %s", what, cure)
	}
	if err := record(what + ": " + cure + "\t" + t.Name()); err != nil {
		t.Errorf("record skipped suite: %v", err)
	}
	t.Skipf("skipped suite: needs %s: %s", what, cure)
}

// record adds a line, need and test, to the list from which scripts/with-suites
// tells at the end what did not run. Several test binaries write it at once;
// each line is one append.
func record(line string) error {
	path := os.Getenv(skippedFile)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Soak returns how long a soak test shall run: what MERCURY_TEST_SOAK says, as
// `make soak` sets it, else brief. So a soak test runs in every `go test`, if
// only for moments, and cannot rot.
func Soak(t testing.TB, brief time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(soakTime)
	if s == "" {
		return brief
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("parse %s: %v", soakTime, err)
	}
	return d
}
