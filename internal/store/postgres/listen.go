package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mercury-agent/mercury/internal/store"
)

// Listen waits for announcements on a connection of its own, and connects anew
// whenever it is lost. Each time it has begun to listen, the first included,
// fn gets a zero Notice: what came before went unheard.
func (s *Store) Listen(ctx context.Context, fn func(store.Notice)) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	wait := shortest
	for {
		heard := s.hear(ctx, fn)
		if s.ended.Err() != nil {
			return store.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if heard {
			wait = shortest
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, longest)
	}
}

// hear listens on one connection until it is lost or ctx ends, and reports
// whether it came to listen at all. Why it ended does not matter: the answer
// is to connect again.
func (s *Store) hear(ctx context.Context, fn func(store.Notice)) bool {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return false
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(bye)
	}()
	if _, err := conn.Exec(ctx, "LISTEN mercury"); err != nil {
		return false
	}
	fn(store.Notice{})
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		var notice store.Notice
		if err := json.Unmarshal([]byte(n.Payload), &notice); err != nil {
			notice = store.Notice{} // someone else's word: look everywhere
		}
		fn(notice)
	}
}
