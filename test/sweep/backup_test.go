//go:build unix

package sweep

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/store/storetest"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// mercuryIn runs a command of the build with crash points in a home. It
// reports whether the command was killed; any other failure fails t.
func mercuryIn(t *testing.T, home, at, list string, args ...string) (killed bool) {
	t.Helper()
	c := exec.Command(house.Program{Tags: "crashpoints"}.Build(t), args...)
	c.Env = append(os.Environ(), "MERCURY_HOME="+home, "MERCURY_DISCOVER=off", "MERCURY_CRASH_AT="+at, "MERCURY_CRASH_LOG="+list)
	out, err := c.CombinedOutput()
	if err == nil {
		return false
	}
	if c.ProcessState.ExitCode() != -1 {
		t.Fatalf("mercury %s, killed at %q: %v\n%s", strings.Join(args, " "), at, err, out)
	}
	return true
}

// pointsOf are the points a command passes, by name and number.
func pointsOf(t *testing.T, run func(list string)) []string {
	t.Helper()
	list := filepath.Join(t.TempDir(), "points")
	run(list)
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return numbered(strings.Fields(string(b)))
}

// inhabited makes a home in which a message waits to be sent and a run to be
// worked on.
func inhabited(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(filepath.Join(home, "soul"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"mercury.yaml": "model: local/none\nproviders: { local: { api: openai, base_url: \"http://127.0.0.1:9/v1\" } }\nweb: { listen: \"127.0.0.1:0\" }\nworkspace: " + filepath.Join(filepath.Dir(home), "work") + "\n",
		"soul/soul.md": "I am calm.\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inStore(t, home, func(s *sqlite.Store) {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			for _, id := range []string{"relay/room", "local/talk"} {
				if err := tx.InsertConversation(mercury.Conversation{ID: id, Kind: "chat"}); err != nil {
					return err
				}
			}
			if err := tx.InsertDelivery(mercury.Delivery{ID: "dl_1", Address: "relay/room", RequestID: "1", Kind: mercury.NoticeDelivery,
				Text: "to be sent", State: mercury.DeliveryPending}); err != nil {
				return err
			}
			return tx.InsertRun(mercury.Run{ID: "run_1", Kind: "turn", Lane: mercury.Chat, Key: "local/talk", ConversationID: "local/talk", State: mercury.RunQueued})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return home
}

func inStore(t *testing.T, home string, fn func(*sqlite.Store)) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), home, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fn(s.(*sqlite.Store))
}

func TestABackupThatIsKilledAnywhereLeavesNoHalfOneAndTheNextIsWhole(t *testing.T) {
	t.Parallel()
	home := inhabited(t)
	points := pointsOf(t, func(list string) { mercuryIn(t, home, "", list, "backup", "create") })
	if !slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, "backup.packed") }) {
		t.Fatalf("the points are %v", points)
	}
	for _, p := range points {
		if !mercuryIn(t, home, p, "", "backup", "create") {
			continue // a point that this life did not reach
		}
		checkBackups(t, home, p)
	}
	mercuryIn(t, home, "", "", "backup", "create")
	checkBackups(t, home, "the end")
	found, err := os.ReadDir(filepath.Join(home, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// checkBackups wants every backup under a final name to be whole.
func checkBackups(t *testing.T, home, when string) {
	t.Helper()
	list, err := backup.List(home)
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %v, %v", when, list, err)
	}
	for _, b := range list {
		if _, err := backup.Verify(t.Context(), b.Path); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}

func TestARestoreThatIsKilledAnywhereStartsNowhereAndGoesOn(t *testing.T) {
	t.Parallel()
	home := inhabited(t)
	mercuryIn(t, home, "", "", "backup", "create")
	archive, err := backup.Find(home, "last")
	if err != nil {
		t.Fatal(err)
	}
	var want []store.Sum
	inStore(t, home, func(s *sqlite.Store) { want = storetest.Tables(t, s) })
	restore := func(to, at, list string) bool { return mercuryIn(t, to, at, list, "backup", "restore", archive) }
	points := pointsOf(t, func(list string) { restore(filepath.Join(t.TempDir(), "home"), "", list) })
	if len(points) < 4 {
		t.Fatalf("the points are %v", points)
	}
	for _, p := range points {
		to := filepath.Join(t.TempDir(), "home")
		if !restore(to, p, "") {
			t.Fatalf("%s was not reached", p)
		}
		if err := backup.Unfinished(to); err == nil {
			t.Errorf("%s: what is half restored may start", p)
		}
		if restore(to, "", "") {
			t.Fatalf("%s: killed again", p)
		}
		if err := backup.Unfinished(to); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if b, err := os.ReadFile(filepath.Join(to, "soul", "soul.md")); err != nil || !bytes.Equal(b, []byte("I am calm.\n")) {
			t.Errorf("%s: %q, %v", p, b, err)
		}
		inStore(t, to, func(s *sqlite.Store) {
			if got := storetest.Tables(t, s); !slices.Equal(got, want) {
				t.Errorf("%s: got %v\nwant %v", p, got, want)
			}
		})
	}
}

func TestAResumeThatIsKilledAnywhereHappensWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	home := inhabited(t)
	mercuryIn(t, home, "", "", "backup", "create")
	archive, err := backup.Find(home, "last")
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() string {
		to := filepath.Join(t.TempDir(), "home")
		mercuryIn(t, to, "", "", "backup", "restore", archive)
		return to
	}
	points := pointsOf(t, func(list string) { mercuryIn(t, fresh(), "", list, "backup", "resume", "--yes") })
	if !slices.Contains(points, "recognise.commit.after#1") || !slices.Contains(points, "backup.resume.commit.before#1") {
		t.Fatalf("the points are %v", points)
	}
	for _, p := range points {
		to := fresh()
		if !mercuryIn(t, to, p, "", "backup", "resume", "--yes") {
			t.Fatalf("%s was not reached", p)
		}
		if state := held(t, to); state != "held" && state != "resumed" && state != "not recognised yet" {
			t.Errorf("%s: %s", p, state)
		} else if state == "resumed" {
			continue
		}
		mercuryIn(t, to, "", "", "backup", "resume", "--yes")
		if state := held(t, to); state != "resumed" {
			t.Errorf("%s: after another try it is %s", p, state)
		}
	}
}

// held says how the message and the run of an inhabited home stand together.
func held(t *testing.T, home string) (state string) {
	t.Helper()
	inStore(t, home, func(s *sqlite.Store) {
		err := s.View(t.Context(), func(tx store.Tx) error {
			h, err := backup.FindHeld(tx, nil)
			if err != nil {
				return err
			}
			o, err := engine.FindOutdated(tx)
			if err != nil {
				return err
			}
			d, err := tx.Delivery("dl_1")
			if err != nil {
				return err
			}
			copied, _ := tx.MetaValue(store.CopyMark)
			switch {
			case h != nil && len(o.Deliveries) == 1 && len(o.Runs) == 1 && copied == "":
				state = "held"
			case h == nil && len(o.Deliveries)+len(o.Runs) == 0 && copied != "":
				state = "not recognised yet"
			case h == nil && len(o.Deliveries)+len(o.Runs) == 0 && copied == "" && d.State == mercury.DeliveryPending:
				state = "resumed"
			default:
				state = fmt.Sprintf("between the two: %v, %d, %d, %q, %s", h, len(o.Deliveries), len(o.Runs), copied, d.State)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return state
}

func TestAMoveThatIsKilledAnywhereKeepsOneWholeDatabaseAndGoesOn(t *testing.T) {
	t.Parallel()
	move := func(home, at, list, to string) bool { return mercuryIn(t, home, at, list, "db", "move", "--to", to) }
	home, url := inhabited(t), testenv.Postgres(t)
	points := pointsOf(t, func(list string) { move(home, "", list, url) })
	back := pointsOf(t, func(list string) { move(home, "", list, "sqlite") })
	if !slices.Contains(points, "move.switched#1") || !slices.Contains(back, "move.settled#1") {
		t.Fatalf("the points are %v and %v", points, back)
	}
	for i, p := range append(points, back...) {
		home, to := inhabited(t), testenv.Postgres(t)
		if i >= len(points) {
			move(home, "", "", to)
			to = "sqlite"
		}
		if !move(home, p, "", to) {
			t.Fatalf("%s was not reached", p)
		}
		// Wherever the configuration points, everything is there; then the same
		// command goes on, or says that it is done.
		if n := runsIn(t, home); n != 1 {
			t.Errorf("%s: there are %d runs", p, n)
		}
		c := exec.Command(house.Program{Tags: "crashpoints"}.Build(t), "db", "move", "--to", to)
		c.Env = append(os.Environ(), "MERCURY_HOME="+home, "MERCURY_DISCOVER=off")
		if out, err := c.CombinedOutput(); err != nil && !strings.Contains(string(out), "from SQLite to PostgreSQL or back") {
			t.Errorf("%s: %v\n%s", p, err, out)
		}
		if n := runsIn(t, home); n != 1 {
			t.Errorf("%s: after another try there are %d runs", p, n)
		}
		if c := exec.Command(house.Program{Tags: "crashpoints"}.Build(t), "backup", "resume", "--yes"); true {
			c.Env = append(os.Environ(), "MERCURY_HOME="+home, "MERCURY_DISCOVER=off")
			if out, err := c.CombinedOutput(); err == nil {
				t.Errorf("%s: it counts as restored:\n%s", p, out)
			}
		}
	}
}

// runsIn counts the runs of a home by its own command.
func runsIn(t *testing.T, home string) int {
	t.Helper()
	c := exec.Command(house.Program{Tags: "crashpoints"}.Build(t), "runs", "list", "--json")
	c.Env = append(os.Environ(), "MERCURY_HOME="+home, "MERCURY_DISCOVER=off")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("list runs: %v\n%s", err, out)
	}
	return strings.Count(string(out), `"id": "run_1"`)
}
