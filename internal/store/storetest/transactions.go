package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

var transactionTests = map[string]func(*testing.T, Home, store.Store){
	"what was committed is there after a reopening": func(t *testing.T, home Home, s store.Store) {
		update(t, s, func(tx store.Tx) error { return tx.SetMeta("k", "v") })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := home.Open(t)
		defer again.Close()
		view(t, again, func(tx store.Tx) error {
			v, err := tx.MetaValue("k")
			same(t, "value", v, "v")
			return err
		})
	},
	"an error rolls everything back and is returned as it is": func(t *testing.T, _ Home, s store.Store) {
		mine := errors.New("mine")
		err := s.Update(t.Context(), func(tx store.Tx) error {
			if err := tx.SetMeta("k", "v"); err != nil {
				return err
			}
			return mine
		})
		if err != mine {
			t.Errorf("got %v, want the very error", err)
		}
		mustMiss(t, s, "k")
	},
	"a panic rolls back, reaches its caller, and hurts nobody": func(t *testing.T, _ Home, s store.Store) {
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				if i%3 != 0 {
					update(t, s, func(tx store.Tx) error { return tx.SetMeta(fmt.Sprint("good", i), "v") })
					return
				}
				defer func() {
					if got := recover(); got != "boom" {
						t.Errorf("recovered %v, want boom", got)
					}
				}()
				s.Update(context.Background(), func(tx store.Tx) error {
					if err := tx.SetMeta(fmt.Sprint("bad", i), "v"); err != nil {
						t.Error(err)
					}
					panic("boom")
				})
			})
		}
		wg.Wait()
		for i := range 30 {
			if i%3 == 0 {
				mustMiss(t, s, fmt.Sprint("bad", i))
				continue
			}
			view(t, s, func(tx store.Tx) error {
				_, err := tx.MetaValue(fmt.Sprint("good", i))
				return err
			})
		}
	},
	"a callback that ends its goroutine rolls back and hurts nobody": func(t *testing.T, _ Home, s store.Store) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Update(context.Background(), func(tx store.Tx) error {
				if err := tx.SetMeta("bad", "v"); err != nil {
					t.Error(err)
				}
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		update(t, s, func(tx store.Tx) error { return tx.SetMeta("good", "v") })
		mustMiss(t, s, "bad")
	},
	"an error in a crowd hurts nobody else": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		var wg sync.WaitGroup
		refused := make([]error, 40)
		for i := range 40 {
			wg.Go(func() {
				refused[i] = s.Update(context.Background(), func(tx store.Tx) error {
					if err := tx.SetMeta(fmt.Sprint("k", i), "v"); err != nil {
						return err
					}
					if i%4 == 0 {
						return tx.InsertConversation(mercury.Conversation{ID: "local/a"})
					}
					return nil
				})
			})
		}
		wg.Wait()
		for i, err := range refused {
			if i%4 == 0 {
				if !errors.Is(err, store.ErrExists) {
					t.Errorf("%d: got %v, want ErrExists", i, err)
				}
				mustMiss(t, s, fmt.Sprint("k", i))
			} else if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	},
	"a view is a snapshot": func(t *testing.T, _ Home, s store.Store) {
		update(t, s, func(tx store.Tx) error { return tx.SetMeta("k", "before") })
		view(t, s, func(tx store.Tx) error {
			if _, err := tx.MetaValue("k"); err != nil {
				return err
			}
			update(t, s, func(tx store.Tx) error { return tx.SetMeta("k", "after") })
			v, err := tx.MetaValue("k")
			same(t, "inside the view", v, "before")
			return err
		})
		view(t, s, func(tx store.Tx) error {
			v, err := tx.MetaValue("k")
			same(t, "in the next view", v, "after")
			return err
		})
	},
	"a view refuses to write": func(t *testing.T, _ Home, s store.Store) {
		for name, write := range map[string]func(store.Tx) error{
			"set":    func(tx store.Tx) error { return tx.SetMeta("k", "v") },
			"insert": func(tx store.Tx) error { return tx.InsertRun(newRun("run_1", 0)) },
			"lease": func(tx store.Tx) error {
				_, err := tx.TakeLease("l", "p", time.Second)
				return err
			},
			"claim": func(tx store.Tx) error {
				_, err := tx.Claim(store.Claim{Owner: "p", Lane: mercury.Chat})
				return err
			},
		} {
			err := s.View(t.Context(), write)
			if err == nil || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s inside a view: %v, want a refusal", name, err)
			}
		}
		mustMiss(t, s, "k")
	},
	"a cancelled caller does not begin": func(t *testing.T, _ Home, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ran := false
		err := s.Update(ctx, func(store.Tx) error { ran = true; return nil })
		if !errors.Is(err, context.Canceled) || ran {
			t.Errorf("update = %v, ran %v", err, ran)
		}
	},
	"a cancellation after the callback does not undo the commit": func(t *testing.T, _ Home, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Update(ctx, func(tx store.Tx) error {
			defer cancel()
			return tx.SetMeta("k", "v")
		})
		if err != nil {
			t.Fatalf("update: %v", err)
		}
		view(t, s, func(tx store.Tx) error { _, err := tx.MetaValue("k"); return err })
	},
	"its clock does not stand and knows microseconds": func(t *testing.T, _ Home, s store.Store) {
		var first, second time.Time
		update(t, s, func(tx store.Tx) error { first = tx.Now(); return nil })
		update(t, s, func(tx store.Tx) error { second = tx.Now(); return nil })
		if !second.After(first) || first.Location() != time.UTC || first != first.Truncate(time.Microsecond) {
			t.Errorf("now = %v, then %v", first, second)
		}
		if d := time.Since(first); d < -time.Minute || d > time.Minute {
			t.Errorf("the database's clock is %v off", d)
		}
	},
	"after close everything says so": func(t *testing.T, _ Home, s store.Store) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		nothing := func(store.Tx) error { return nil }
		for name, err := range map[string]error{
			"update": s.Update(t.Context(), nothing),
			"view":   s.View(t.Context(), nothing),
			"listen": s.Listen(t.Context(), func(store.Notice) {}),
		} {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s = %v, want ErrClosed", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	},
	"close waits for the transaction in hand": func(t *testing.T, home Home, s store.Store) {
		begun, closed := make(chan struct{}), make(chan error, 1)
		outcome := make(chan error, 1)
		go func() {
			outcome <- s.Update(context.Background(), func(tx store.Tx) error {
				close(begun)
				// Close has been called by now or will be: both must do.
				runtime.Gosched()
				return tx.SetMeta("k", "v")
			})
		}()
		<-begun
		go func() { closed <- s.Close() }()
		if err := <-outcome; err != nil {
			t.Errorf("update: %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		again := home.Open(t)
		defer again.Close()
		view(t, again, func(tx store.Tx) error { _, err := tx.MetaValue("k"); return err })
	},
	"listening ends with its context": func(t *testing.T, _ Home, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Listen(ctx, func(store.Notice) {}) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("listen = %v", err)
		}
	},
	"what is announced is heard where others listen": func(t *testing.T, home Home, s store.Store) {
		if !home.Shared {
			update(t, s, func(tx store.Tx) error { return tx.Notify(store.Notice{Kind: "run", ID: "run_1"}) })
			return
		}
		other := home.Open(t)
		defer other.Close()
		heard := make(chan store.Notice, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go other.Listen(ctx, func(n store.Notice) { heard <- n })
		<-heard // it listens now
		failed := errors.New("no")
		fails(t, s, failed, func(tx store.Tx) error {
			if err := tx.Notify(store.Notice{Kind: "run", ID: "rolled back"}); err != nil {
				return err
			}
			return failed
		})
		want := store.Notice{Kind: "run", ID: "run_1"}
		update(t, s, func(tx store.Tx) error { return tx.Notify(want) })
		same(t, "notice", <-heard, want)
	},
	"info describes it": func(t *testing.T, _ Home, s store.Store) {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Engine == "" || info.Where == "" || info.Version == "" || info.Schema < 1 || info.Bytes <= 0 {
			t.Errorf("info = %+v", info)
		}
		if strings.Contains(info.Where, ":secret@") {
			t.Errorf("info shows a password: %s", info.Where)
		}
	},
}

func mustMiss(t *testing.T, s store.Store, key string) {
	t.Helper()
	err := s.View(context.Background(), func(tx store.Tx) error {
		_, err := tx.MetaValue(key)
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%s: %v, want ErrNotFound", key, err)
	}
}
