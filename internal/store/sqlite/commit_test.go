package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// disk stands between the committer and COMMIT.
type disk struct {
	mu      sync.Mutex
	before  func() error // refuses the commit
	after   func() error // lies about it
	commits int
}

func (d *disk) commit(commit func() error) error {
	d.mu.Lock()
	before, after := d.before, d.after
	d.commits++
	d.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	err := commit()
	if after != nil {
		err = errors.Join(err, after())
	}
	return err
}

func (d *disk) set(before, after func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.after = before, after
}

func openOn(t testing.TB, dir string, d *disk) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{commit: d.commit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*Store)
}

func setMeta(ctx context.Context, s store.Store, key string) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.SetMeta(key, "v") })
}

func hasMeta(t testing.TB, s store.Store, key string) bool {
	t.Helper()
	err := s.View(t.Context(), func(tx store.Tx) error { _, err := tx.MetaValue(key); return err })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestWaitingTransactionsShareACommit(t *testing.T) {
	synctest.Test(t, testSharing) // its time knows nothing but the disk's
}

func testSharing(t *testing.T) {
	d := &disk{}
	s := openOn(t, t.TempDir(), d)
	const each, writers = 40, 8
	d.set(func() error { time.Sleep(10 * time.Millisecond); return nil }, nil) // what a slow card takes
	begun := time.Now()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := setMeta(t.Context(), s, fmt.Sprint(w, ".", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rate := each * writers / time.Since(begun).Seconds()
	t.Logf("%d commits for %d transactions, %.0f a second", d.commits, each*writers, rate)
	if d.commits > each*writers/2 {
		t.Errorf("%d commits for %d transactions: they did not share", d.commits, each*writers)
	}
	if rate < 250 {
		t.Errorf("%.0f transactions a second, want 250", rate)
	}
}

func TestNobodyLearnsAnOutcomeBeforeTheCommit(t *testing.T) {
	d := &disk{}
	s := openOn(t, t.TempDir(), d)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	d.set(func() error { entered <- struct{}{}; <-release; return nil }, nil)
	var told atomic.Int32
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s.Update(t.Context(), func(tx store.Tx) error {
				if i == 0 {
					return errors.New("mine")
				}
				return tx.SetMeta(fmt.Sprint(i), "v")
			})
			told.Add(1)
		})
	}
	<-entered
	if n := told.Load(); n != 0 {
		t.Errorf("%d learned an outcome while the commit was going on", n)
	}
	close(release)
	wg.Wait()
}

func TestACommitThatFailsIsUnknownToAllAndTheStoreReopensByItself(t *testing.T) {
	for name, tt := range map[string]struct{ reached bool }{
		"before it reached the disk": {false},
		"after it reached the disk":  {true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := &disk{}
			s := openOn(t, dir, d)
			fill(t, s, "local/a")
			failing := func() error { return errors.New("input/output error") }
			if tt.reached {
				d.set(nil, failing)
			} else {
				d.set(failing, nil)
			}
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					err := setMeta(t.Context(), s, fmt.Sprint("lost", i))
					if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("got %v, want an unknown outcome", err)
					}
				})
			}
			wg.Wait()
			d.set(nil, nil)
			// One of those six may have used up this second's attempt.
			s.gate.Lock()
			s.retryAt = time.Time{}
			s.gate.Unlock()
			if err := setMeta(t.Context(), s, "later"); err != nil {
				t.Fatalf("after the disk is well again: %v", err)
			}
			if !hasMeta(t, s, "later") {
				t.Error("what was acknowledged is missing")
			}
			n := 0
			for i := range 6 {
				if hasMeta(t, s, fmt.Sprint("lost", i)) {
					n++
				}
			}
			if tt.reached != (n > 0) {
				t.Errorf("%d of the unknown ones are there", n)
			}
		})
	}
}

func TestAClosedStoreIsReopenedOnceASecondAtMost(t *testing.T) {
	dir := t.TempDir()
	d := &disk{}
	s := openOn(t, dir, d)
	d.set(func() error { return errors.New("input/output error") }, nil)
	if err := setMeta(t.Context(), s, "k"); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("got %v, want ErrUnknownOutcome", err)
	}
	path := filepath.Join(dir, FileName)
	if err := os.Rename(path, path+".away"); err != nil { // the disk is not back
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err := setMeta(t.Context(), s, "k")
		if !errors.Is(err, store.ErrUnavailable) || mercury.HelpOf(err) == "" || mercury.KindOf(err) != mercury.Transient {
			t.Fatalf("got %v with help %q", err, mercury.HelpOf(err))
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	d.set(nil, nil)
	if err := setMeta(t.Context(), s, "k"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("tried again within a second: %v", err)
	}
	s.gate.Lock()
	s.retryAt = s.retryAt.Add(-time.Second)
	s.gate.Unlock()
	if err := setMeta(t.Context(), s, "k"); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

func TestWhenTheWholeTransactionIsGoneTheOthersRunAgainAlone(t *testing.T) {
	synctest.Test(t, testRunningAgain)
}

func testRunningAgain(t *testing.T) {
	s := openOn(t, t.TempDir(), &disk{})
	mine := errors.New("mine")
	var wg sync.WaitGroup
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wg.Go(func() { // keeps the committer while the others gather
		s.Update(t.Context(), func(store.Tx) error {
			once.Do(func() { close(held) })
			<-hold
			return nil
		})
	})
	<-held
	runs := make([]atomic.Int32, 8)
	outcomes := make([]error, 8)
	for i := range 8 {
		wg.Go(func() {
			outcomes[i] = s.Update(t.Context(), func(tx store.Tx) error {
				runs[i].Add(1)
				if err := tx.SetMeta(fmt.Sprint("k", i), "v"); err != nil {
					return err
				}
				if i == 5 {
					// What SQLite does by itself when the disk is full.
					if err := s.writer.once("ROLLBACK"); err != nil {
						t.Error(err)
					}
					return mine
				}
				return nil
			})
		})
	}
	synctest.Wait() // all eight stand in line
	close(hold)
	wg.Wait()
	for i := range 8 {
		switch {
		case i == 5 && (outcomes[i] != mine || hasMeta(t, s, "k5") || runs[i].Load() != 1):
			t.Errorf("the culprit: %v, ran %d times", outcomes[i], runs[i].Load())
		case i != 5 && (outcomes[i] != nil || !hasMeta(t, s, fmt.Sprint("k", i))):
			t.Errorf("%d: %v, ran %d times", i, outcomes[i], runs[i].Load())
		}
	}
}

func TestACallerMayLeaveBeforeItsTurnButNotAfter(t *testing.T) {
	s := openOn(t, t.TempDir(), &disk{})
	hold, held := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- s.Update(ctx, func(tx store.Tx) error { close(held); <-hold; return tx.SetMeta("first", "v") })
	}()
	<-held
	waiting := make(chan error, 1)
	go func() { waiting <- setMeta(ctx, s, "second") }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waited: %v", err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Errorf("the one in hand: %v", err)
	}
	if !hasMeta(t, s, "first") || hasMeta(t, s, "second") {
		t.Error("the wrong one was committed")
	}
}

func TestMigrationsTakeASnapshotOfWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "local/a")
	s.Close()
	more := sqlstore.SQLite.Migrations()
	known := len(more)
	more = append(more,
		sqlstore.Migration{Version: known + 1, Text: "CREATE TABLE more (n BIGINT NOT NULL);\nCREATE INDEX more_n ON more (n);\n"})
	s, err := Open(t.Context(), dir, Options{migrations: more})
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Schema != known+1 {
		t.Errorf("schema %d, %v", info.Schema, err)
	}
	s.Close()

	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, store.ErrNewer) ||
		mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
		t.Errorf("an older program: %v, help %q", err, mercury.HelpOf(err))
	}

	restored := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, "backups", fmt.Sprintf("pre-migration-%d.db", known)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(restored, FileName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := count(t, restored); got != 1 {
		t.Errorf("the snapshot holds %d conversations, want 1", got)
	}
}

func TestAFailedMigrationLeavesTheSchemaBefore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	fill(t, s, "local/a")
	s.Close()
	bad := append(sqlstore.SQLite.Migrations(),
		sqlstore.Migration{Version: len(sqlstore.SQLite.Migrations()) + 1, Text: "CREATE TABLE more (n BIGINT NOT NULL);\nCREATE NONSENSE;\n"})
	if _, err := Open(t.Context(), dir, Options{migrations: bad}); err == nil {
		t.Fatal("a broken migration passed")
	}
	if got := count(t, dir); got != 1 {
		t.Errorf("%d conversations, want 1", got)
	}
}

func TestAStoreThatNobodyUsesDoesNothing(t *testing.T) {
	// Inside the bubble time jumps ahead when every goroutine is blocked for
	// good: a timer or poll of the store would wake it.
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(context.Background(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := setMeta(context.Background(), s, "k"); err != nil {
			t.Fatal(err)
		}
		size := func() int64 {
			st, err := os.Stat(filepath.Join(dir, FileName+"-wal"))
			if err != nil {
				t.Fatal(err)
			}
			return st.Size()
		}
		before := size()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if after := size(); after != before {
			t.Errorf("the log went from %d to %d bytes by itself", before, after)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
