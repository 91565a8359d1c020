package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// admin runs a statement on a connection of its own.
func admin(t testing.TB, address, statement string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// cutAll ends every connection to the database but the one that asks.
func cutAll(t testing.TB, address string) {
	t.Helper()
	admin(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
}

func setMeta(ctx context.Context, s store.Store, key, value string) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.SetMeta(key, value) })
}

func meta(t testing.TB, s store.Store, key string) string {
	t.Helper()
	var v string
	err := s.View(t.Context(), func(tx store.Tx) (err error) {
		v, err = tx.MetaValue(key)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return v
}

func TestThreeProcessesMigrateAnEmptyDatabaseTogether(t *testing.T) {
	address := testenv.Postgres(t)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 3 {
		wg.Go(func() {
			<-start
			s, err := Open(t.Context(), address, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := setMeta(t.Context(), s, fmt.Sprint("k", i), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	s := open(t, address)
	for i := range 3 {
		if meta(t, s, fmt.Sprint("k", i)) != "v" {
			t.Errorf("what process %d wrote is missing", i)
		}
	}
}

func TestAnOlderProgramRefusesANewerSchemaAtStartOnly(t *testing.T) {
	address := testenv.Postgres(t)
	running := open(t, address)
	more := sqlstore.Postgres.Migrations()
	more = append(more, sqlstore.Migration{Version: len(more) + 1, Text: "CREATE TABLE more (n BIGINT);"})
	newer, err := Open(t.Context(), address, Options{migrations: more})
	if err != nil {
		t.Fatal(err)
	}
	defer newer.Close()
	if err := setMeta(t.Context(), running, "k", "v"); err != nil {
		t.Errorf("the old process that runs on: %v", err)
	}
	_, err = Open(t.Context(), address, Options{})
	if !errors.Is(err, store.ErrNewer) || mercury.HelpOf(err) == "" || mercury.KindOf(err) != mercury.Setup {
		t.Errorf("an old one that starts: %v", err)
	}
}

func TestWorkGoesOnAfterEveryConnectionWasCut(t *testing.T) {
	address := testenv.Postgres(t)
	s := open(t, address)
	var wg sync.WaitGroup
	for i := range 8 { // fill the pool
		wg.Go(func() {
			if err := setMeta(t.Context(), s, fmt.Sprint("before", i), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cutAll(t, address)
	for i := range 8 {
		wg.Go(func() {
			if err := setMeta(t.Context(), s, fmt.Sprint("after", i), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cutAll(t, address)
	if meta(t, s, "after3") != "v" {
		t.Error("what was acknowledged is missing")
	}
}

func TestATransactionThatLosesItsConnectionRunsAgain(t *testing.T) {
	address := testenv.Postgres(t)
	s := open(t, address)
	runs := 0
	err := s.Update(t.Context(), func(tx store.Tx) error {
		runs++
		if err := tx.SetMeta("k", fmt.Sprint(runs)); err != nil {
			return err
		}
		if runs == 1 {
			cutAll(t, address)
		}
		return tx.SetMeta("other", "v")
	})
	if err != nil || runs != 2 || meta(t, s, "k") != "2" {
		t.Errorf("ended with %v after %d runs, k = %q", err, runs, meta(t, s, "k"))
	}
}

func TestADeadlockIsRunAgain(t *testing.T) {
	s := open(t, testenv.Postgres(t))
	for _, id := range []string{"a", "b"} {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.InsertConversation(mercury.Conversation{ID: id})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var runs atomic.Int32
	both := make(chan struct{}) // closed when each holds its first lock
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			err := s.Update(t.Context(), func(tx store.Tx) error {
				n := runs.Add(1)
				if _, err := tx.LockConversation(order[0]); err != nil {
					return err
				}
				if n == 2 {
					close(both)
				}
				<-both
				_, err := tx.LockConversation(order[1])
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs.Load() < 3 {
		t.Errorf("%d runs: there was no deadlock to get over", runs.Load())
	}
}

func TestACommitWithoutAnAnswerIsUnknown(t *testing.T) {
	address := testenv.Postgres(t)
	lost := errors.New("unexpected EOF")
	s, err := Open(t.Context(), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runs := 0
	s.(*Store).opts.committed = func(err error) error { return errors.Join(err, lost) }
	err = s.Update(t.Context(), func(tx store.Tx) error { runs++; return tx.SetMeta("k", "v") })
	if !errors.Is(err, store.ErrUnknownOutcome) || runs != 1 {
		t.Errorf("got %v after %d runs, want an unknown outcome after one", err, runs)
	}
	s.(*Store).opts.committed = nil
	if meta(t, s, "k") != "v" {
		t.Error("looking it up does not tell")
	}
}

func TestAConnectionCutDuringCommitIsUnknown(t *testing.T) {
	address := testenv.Postgres(t)
	s := open(t, address)
	// A deferred trigger keeps COMMIT busy until its connection is cut.
	admin(t, address, `CREATE TABLE slow (n int);
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON meta DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`)
	done := make(chan error, 1)
	go func() { done <- setMeta(t.Context(), s, "k", "v") }()
	for {
		admin(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep'`)
		select {
		case err := <-done:
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("got %v, want an unknown outcome", err)
			}
			return
		default:
		}
	}
}

func TestAnErrorThatWasPassedOverDoesNotCommitInSilence(t *testing.T) {
	s := open(t, testenv.Postgres(t))
	a, b := mercury.Run{ID: "a", Key: "k", State: mercury.RunRunning}, mercury.Run{ID: "b", Key: "k", State: mercury.RunQueued}
	err := s.Update(t.Context(), func(tx store.Tx) error { return errors.Join(tx.InsertRun(a), tx.InsertRun(b)) })
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error {
		b.State = mercury.RunRunning
		if err := tx.SaveRun(b); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second run of the key: %v", err)
		}
		return nil
	})
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("got %v, want the word that nothing was committed", err)
	}
}

func TestAListenerWhoseConnectionWasCutLooksEverywhereAndHearsAgain(t *testing.T) {
	address := testenv.Postgres(t)
	s := open(t, address)
	heard := make(chan store.Notice, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func(n store.Notice) { heard <- n }) }()
	if n := <-heard; n != (store.Notice{}) {
		t.Errorf("first heard %v", n)
	}
	for range 2 {
		cutAll(t, address)
		if n := <-heard; n != (store.Notice{}) {
			t.Errorf("after the cut heard %v", n)
		}
		want := store.Notice{Kind: "run", ID: "run_1"}
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Notify(want) }); err != nil {
			t.Fatal(err)
		}
		if n := <-heard; n != want {
			t.Errorf("heard %v, want %v", n, want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("listen ended with %v", err)
	}
	go func() { ended <- s.Listen(t.Context(), func(store.Notice) {}) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("listen ended with %v after close", err)
	}
}

func TestAnUnreachableServerIsSaidPlainly(t *testing.T) {
	nobody := "postgres://u:secret-word@" + testenv.Address(t) + "/db?sslmode=disable"
	for name, tt := range map[string]struct {
		address string
		kind    mercury.Kind
		want    error
	}{
		"nobody listens": {nobody, mercury.Transient, store.ErrUnavailable},
		"not an address": {"postgres://u:secret-word@host:port/db", mercury.Setup, nil},
		"nonsense":       {"secret-word://", mercury.Setup, nil},
	} {
		s, err := Open(t.Context(), tt.address, Options{})
		if err == nil {
			s.Close()
			t.Fatalf("%s: it opened", name)
		}
		if tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
		if mercury.KindOf(err) != tt.kind || mercury.HelpOf(err) == "" {
			t.Errorf("%s: kind %v, help %q of %v", name, mercury.KindOf(err), mercury.HelpOf(err), err)
		}
		if strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

func TestADatabaseThatDoesNotExistIsAMatterOfSetup(t *testing.T) {
	u, err := url.Parse(testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/mercury_test_no_such_database"
	_, err = Open(t.Context(), u.String(), Options{})
	if !errors.Is(err, store.ErrUnavailable) || mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
		t.Errorf("got %v, kind %v", err, mercury.KindOf(err))
	}
}

func TestAServerThatIsGoneMidRunIsUnavailable(t *testing.T) {
	proxy := newProxy(t, testenv.Postgres(t))
	through := open(t, proxy.address)
	if err := setMeta(t.Context(), through, "k", "w"); err != nil {
		t.Fatal(err)
	}
	proxy.stop()
	err := setMeta(t.Context(), through, "k", "x")
	if !errors.Is(err, store.ErrUnavailable) || mercury.HelpOf(err) == "" || mercury.KindOf(err) != mercury.Transient {
		t.Errorf("got %v, kind %v", err, mercury.KindOf(err))
	}
	proxy.start(t)
	if err := setMeta(t.Context(), through, "k", "y"); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}
