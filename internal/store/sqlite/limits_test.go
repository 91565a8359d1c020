package sqlite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

func TestAFullDiskRefusesWithoutHarm(t *testing.T) {
	s := openOn(t, t.TempDir(), &disk{})
	fill(t, s, "local/a")
	var pages int
	if err := s.writer.value("PRAGMA page_count", &pages); err != nil {
		t.Fatal(err)
	}
	if err := s.writer.once(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20)); err != nil {
		t.Fatal(err)
	}
	put := func(n int) error {
		return s.Update(t.Context(), func(tx store.Tx) error {
			return tx.PutStep(mercury.Step{RunID: "run_1", Round: n, Output: json.RawMessage(strings.Repeat("x", 20000))})
		})
	}
	var err error
	kept := 0
	for ; err == nil && kept < 100; kept++ {
		err = put(kept)
	}
	kept--
	if !errors.Is(err, store.ErrDiskFull) || mercury.KindOf(err) != mercury.Full || mercury.HelpOf(err) == "" {
		t.Errorf("got %v, kind %v, help %q", err, mercury.KindOf(err), mercury.HelpOf(err))
	}
	if err := s.writer.once("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if err := put(1000); err != nil {
		t.Errorf("with space again: %v", err)
	}
	err = s.View(t.Context(), func(tx store.Tx) error {
		steps, err := tx.Steps("run_1")
		if len(steps) != kept+1 {
			t.Errorf("%d steps are kept, want %d", len(steps), kept+1)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestADatabaseThatCannotBeWrittenSaysSoAndCanBeRead(t *testing.T) {
	s := openOn(t, t.TempDir(), &disk{})
	fill(t, s, "local/a")
	if err := s.writer.once("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	err := setMeta(t.Context(), s, "k")
	if !errors.Is(err, store.ErrReadOnly) || mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
		t.Errorf("got %v, kind %v, help %q", err, mercury.KindOf(err), mercury.HelpOf(err))
	}
	err = s.View(t.Context(), func(tx store.Tx) error { _, err := tx.Conversation("local/a"); return err })
	if err != nil {
		t.Errorf("reading: %v", err)
	}
}

func TestAHomeThatIsTakenNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{Address: "127.0.0.1:6174"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = Open(t.Context(), dir, Options{})
	var held *homelock.HeldError
	if !errors.As(err, &held) || held.Holder.PID != os.Getpid() || held.Holder.Address != "127.0.0.1:6174" {
		t.Errorf("got %v", err)
	}
}

func TestHomesHaveAnyName(t *testing.T) {
	for _, name := range []string{"with space", "per%20cent", "what?x=1#y", "ünïcode ☕", "a'b\"c"} {
		dir := filepath.Join(t.TempDir(), name)
		s := open(t, dir)
		fill(t, s, "local/a")
		s.Close()
		if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := count(t, dir); got != 1 {
			t.Errorf("%s: %d conversations", name, got)
		}
	}
}

// TestWriter is the body of the processes that the next test kills.
func TestWriter(t *testing.T) {
	dir := os.Getenv("SQLITE_TEST_WRITER")
	if dir == "" {
		return
	}
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("local/%d-%d-%d", os.Getpid(), w, i)
				fill(t, s, id)
				os.Stdout.WriteString(id + "\n") // the acknowledgement
			}
		}()
	}
	select {}
}

func TestKilledProcessesLoseNothingTheyAcknowledged(t *testing.T) {
	dir := t.TempDir()
	var acknowledged []string
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWriter$")
		cmd.Env = append(os.Environ(), "SQLITE_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 40+17*round && lines.Scan(); n++ {
			acknowledged = append(acknowledged, lines.Text())
		}
		cmd.Process.Kill()
		for lines.Scan() { // what was on its way when it died
			if strings.HasPrefix(lines.Text(), "local/") {
				acknowledged = append(acknowledged, lines.Text())
			}
		}
		cmd.Wait()
		s := open(t, dir)
		err = s.View(t.Context(), func(tx store.Tx) error {
			for _, id := range acknowledged {
				list, err := tx.Entries(id, 0, 0)
				if err != nil || len(list) != 1 {
					return fmt.Errorf("%s: %d entries, %w", id, len(list), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("after kill %d: %v", round+1, err)
		}
		var health string
		if err := s.(*Store).writer.value("PRAGMA integrity_check", &health); err != nil || health != "ok" {
			t.Errorf("after kill %d: integrity %q, %v", round+1, health, err)
		}
		s.Close()
	}
	if len(acknowledged) < 300 {
		t.Errorf("only %d acknowledged", len(acknowledged))
	}
}
