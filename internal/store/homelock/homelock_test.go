package homelock

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestASecondTakerLearnsWhoHasTheHome(t *testing.T) {
	dir := t.TempDir()
	l, err := Take(dir, "127.0.0.1:6174")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(dir, "elsewhere")
	var held *HeldError
	if !errors.As(err, &held) || held.Holder != (Holder{PID: os.Getpid(), Address: "127.0.0.1:6174"}) {
		t.Errorf("got %v", err)
	}
	if mercury.KindOf(err) != mercury.Conflict || mercury.HelpOf(err) == "" {
		t.Errorf("kind %v, help %q", mercury.KindOf(err), mercury.HelpOf(err))
	}
	if err := l.Announce("127.0.0.1:7"); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(dir, ""); !errors.As(err, &held) || held.Holder.Address != "127.0.0.1:7" {
		t.Errorf("after the announcement: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(dir, "")
	if err != nil {
		t.Fatalf("a freed home: %v", err)
	}
	again.Release()
}

func TestOfManyThatTakeAtOnceOneGetsIt(t *testing.T) {
	dir := t.TempDir()
	locks := make([]*Lock, 16)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range locks {
		wg.Go(func() {
			<-start
			locks[i], _ = Take(dir, "")
		})
	}
	close(start)
	wg.Wait() // nobody has let go yet
	got := 0
	for _, l := range locks {
		if l != nil {
			got++
			l.Release()
		}
	}
	if got != 1 {
		t.Errorf("%d got it, want one", got)
	}
}

func TestGarbageInTheFileDoesNotMatter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte(strings.Repeat("{", 100000)), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Take(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if b, _ := os.ReadFile(path); len(b) > 100 {
		t.Errorf("the file has %d bytes", len(b))
	}
}

// TestHolder is the body of the process that the next test kills.
func TestHolder(t *testing.T) {
	dir := os.Getenv("HOMELOCK_TEST_DIR")
	if dir == "" {
		return
	}
	l, err := Take(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("HOMELOCK_TEST_HEIR") != "" {
		heir := exec.Command("sleep", "0.3")
		heir.ExtraFiles = []*os.File{l.file} // as a program has it that has not begun yet
		if err := heir.Start(); err != nil {
			t.Fatal(err)
		}
	}
	os.Stdout.WriteString("held\n")
	select {}
}

func TestAKilledProcessLetsGo(t *testing.T) { killed(t) }

func TestAKilledProcessLetsGoThoughAProgramThatItWasStartingHasItsFile(t *testing.T) {
	killed(t, "HOMELOCK_TEST_HEIR=1")
}

func killed(t *testing.T, env ...string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	cmd.Env = append(append(os.Environ(), "HOMELOCK_TEST_DIR="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("it said %q", line)
	}
	var held *HeldError
	if _, err := Take(dir, ""); !errors.As(err, &held) || held.Holder.PID != cmd.Process.Pid {
		t.Errorf("while it lives: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	l, err := Take(dir, "")
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	l.Release()
}
