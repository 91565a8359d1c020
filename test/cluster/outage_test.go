//go:build unix

package cluster

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// A wire stands between Mercury and its database, and can be cut.
type wire struct {
	server, address string // of the database, as Dial wants it
	at              string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

// newWire lays a wire to the database of a URL and returns the URL at its end.
func newWire(t *testing.T, database string) (*wire, string) {
	t.Helper()
	c, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{at: testenv.Address(t), open: map[net.Conn]bool{}}
	w.server, w.address = pgconn.NetworkAddress(c.Host, c.Port)
	w.mend(t)
	t.Cleanup(w.cut)
	end := url.URL{Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: w.at, Path: "/" + c.Database, RawQuery: "sslmode=disable"}
	return w, end.String()
}

// mend lets connections through, at the same address as before.
func (w *wire) mend(t *testing.T) {
	t.Helper()
	l, err := testenv.ListenAt(w.at)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.listener = l
	w.mu.Unlock()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go w.join(near)
		}
	}()
}

func (w *wire) join(near net.Conn) {
	defer near.Close()
	far, err := net.Dial(w.server, w.address)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	w.open[near] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.open, near)
		w.mu.Unlock()
	}()
	go func() {
		_, _ = io.Copy(far, near)
		far.Close()
	}()
	_, _ = io.Copy(near, far)
}

// cut drops every connection and refuses new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener.Close()
	for c := range w.open {
		c.Close()
	}
}

func TestWorkGoesOnAfterAnOutageOfTheDatabase(t *testing.T) {
	program := house.Program{}.Build(t)
	for _, tt := range []struct {
		name  string
		times int
		long  time.Duration
	}{
		{"short ones", 3, 2 * time.Second},
		{"one of the length after which a process takes itself for lost", 1, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cable, end := newWire(t, testenv.Postgres(t))
			w := house.NewWorld(t, house.SceneScript(), end)
			w.Hold("once")
			w.Hold("den")
			h := neighbours(t, w, program, 1)[0]
			ctx, done := house.Patience()
			defer done()
			var scene errgroup.Group
			scene.Go(func() error {
				deaths, err := w.PlayOn(ctx, h)
				if deaths > 0 {
					t.Errorf("it died %d times", deaths)
				}
				return err
			})
			if err := underWay(ctx, w); err != nil {
				t.Fatal(err)
			}
			for i := range tt.times {
				cable.cut()
				time.Sleep(tt.long) // the length of the outage
				cable.mend(t)
				// It must be well again before the next one.
				if err := w.Say(ctx, "flaky", fmt.Sprintf("flaky: after outage %d", i), "follow-up"); err != nil {
					t.Fatal(err)
				}
			}
			w.Release("once")
			w.Release("den")
			if err := scene.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, w.Describe(h))
			}
			finish(t, w, h)
		})
	}
}
