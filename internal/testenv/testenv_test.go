package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestEveryTestGetsAnEmptyDatabaseOfItsOwn(t *testing.T) {
	ctx := context.Background()
	first, second := Postgres(t), Postgres(t)
	for _, u := range []string{first, second} {
		conn, err := pgx.Connect(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		// The second would fail here if both were one database.
		if _, err := conn.Exec(ctx, "CREATE TABLE mark (n int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADatabaseIsGoneWhenItsTestEnds(t *testing.T) {
	var u string
	t.Run("user", func(t *testing.T) { u = Postgres(t) })
	if u == "" {
		Postgres(t) // no server: the subtest was skipped, and so is this
	}
	conn, err := pgx.Connect(context.Background(), u)
	if err == nil {
		conn.Close(context.Background())
		t.Fatal("the database still takes connections")
	}
	if !strings.Contains(err.Error(), "does not exist") {
		t.Fatalf("connect: %v", err)
	}
}

// TestProbe is the body of the process that the next test starts.
func TestProbe(t *testing.T) {
	if os.Getenv("TESTENV_PROBE") != "" {
		Missing(t, "a unicorn", "look for one")
	}
}

func TestAMissingSuiteIsSkippedAloudOrFailsWhereRequired(t *testing.T) {
	for _, tt := range []struct {
		name     string
		required string
		say      string
		fails    bool
	}{
		{"optional", "0", "skipped suite: needs a unicorn: look for one", false},
		{"required", "1", "suite cannot run without a unicorn: look for one", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := filepath.Join(t.TempDir(), "skipped")
			cmd := exec.Command(os.Args[0], "-test.run=^TestProbe$", "-test.v")
			cmd.Env = append(os.Environ(), "TESTENV_PROBE=1", require+"="+tt.required, skippedFile+"="+list)
			out, err := cmd.CombinedOutput()
			if (err != nil) != tt.fails {
				t.Errorf("ended with %v, want a failure: %v", err, tt.fails)
			}
			if !strings.Contains(string(out), tt.say) {
				t.Errorf("output lacks %q:\n%s", tt.say, out)
			}
			written, _ := os.ReadFile(list)
			if listed := string(written) == "a unicorn: look for one\tTestProbe\n"; listed == tt.fails {
				t.Errorf("list of skipped suites holds %q", written)
			}
		})
	}
}

func TestEveryProgramNamesItsPackageAndPurpose(t *testing.T) {
	for line := range strings.Lines(programs) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 4 || (f[1] != "test" && f[1] != "check") {
			t.Errorf("want `program test|check packages purpose`, got %q", line)
		}
	}
}

func TestSoakRunsBrieflyUnlessToldOtherwise(t *testing.T) {
	t.Setenv(soakTime, "")
	if got := Soak(t, time.Second); got != time.Second {
		t.Errorf("without a wish: %v", got)
	}
	t.Setenv(soakTime, "24h")
	if got := Soak(t, time.Second); got != 24*time.Hour {
		t.Errorf("with 24h: %v", got)
	}
}
