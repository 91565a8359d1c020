package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// How long a process of several keeps a channel without renewing, and how
// often it renews.
const (
	postLease = 25 * time.Second
	postRenew = 8 * time.Second
	postRetry = time.Second // after an error of the database, or a lost lease
)

// errLost means that this process must not use the channel any more.
var errLost = errors.New("the lease is lost")

// post keeps one channel: only the process that holds its lease listens and
// sends, and the channel's place is written under the lease's epoch, so that
// a process that lost it cannot move it back.
type post struct {
	channel channel.Channel
	engine  *engine.Engine
	intake  *intake.Intake
	owner   string
	shared  bool // other processes may want the channel too
	log     *slog.Logger
	epoch   atomic.Int64
}

// run holds the channel whenever it can get it, until ctx ends.
func (p *post) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.take(ctx); err != nil {
			if !errors.Is(err, store.ErrStale) {
				p.log.Warn("a channel's lease could not be taken", "channel", p.channel.Name(), "err", err)
			}
			pause(ctx, postRenew)
			continue
		}
		err := p.hold(ctx)
		if ctx.Err() != nil {
			return p.drop(ctx)
		}
		if errors.Is(err, errLost) || errors.Is(err, store.ErrStale) {
			// Another process has it, or nobody could be asked: take it
			// again as soon as it is free.
			p.log.Warn("a channel's lease was lost", "channel", p.channel.Name(), "err", err)
			pause(ctx, postRetry)
			continue
		}
		// The channel stopped by itself: a person must act, or it broke. It
		// is tried again, seldom, and what was said meanwhile is not lost.
		p.log.Error("a channel stopped; it is tried again in five minutes", "channel", p.channel.Name(), "err", err, "help", mercury.HelpOf(err))
		pause(ctx, 5*time.Minute)
	}
	return nil
}

// hold listens and sends until ctx ends, the lease is lost or the channel
// gives up.
func (p *post) hold(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.engine.Sender(p.channel.Name(), p.channel)
	defer p.engine.Sender(p.channel.Name(), nil)
	if p.shared {
		go p.renew(ctx, cancel)
	}
	var taken time.Time // since when this home acts on what people write
	err := p.engine.View(ctx, func(tx store.Tx) (err error) {
		taken, err = backup.TakenUp(tx)
		return err
	})
	if err != nil {
		return err
	}
	err = p.channel.Listen(ctx, func(ctx context.Context, m mercury.Message) error {
		if !m.At.IsZero() && m.At.Before(taken.Truncate(time.Second)) {
			return p.intake.Note(ctx, m)
		}
		_, err := p.intake.Accept(ctx, m)
		return err
	})
	return errors.Join(err, context.Cause(ctx))
}

// renew keeps the lease until ctx ends, and ends ctx with errLost when another
// process has the channel, or might, because the database could not be asked
// for too long.
func (p *post) renew(ctx context.Context, lost context.CancelCauseFunc) {
	held := time.Now()
	for wait := postRenew; ; {
		pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		begun := time.Now()
		err := p.take(ctx)
		switch {
		case err == nil:
			held, wait = begun, postRenew
		case errors.Is(err, store.ErrStale), time.Since(held) > postLease-postRenew:
			lost(fmt.Errorf("%w: %w", errLost, err))
			return
		default:
			p.log.Warn("a channel's lease could not be renewed", "channel", p.channel.Name(), "err", err)
			wait = postRetry
		}
	}
}

func (p *post) take(ctx context.Context) error {
	d := postLease
	if !p.shared {
		d = 100 * 365 * 24 * time.Hour // nobody else can want it: the home is locked
	}
	return p.engine.Update(ctx, "channel.lease", func(tx *engine.Tx) error {
		l, err := tx.TakeLease("channel/"+p.channel.Name(), p.owner, d)
		if err == nil {
			p.epoch.Store(l.Epoch)
		}
		return err
	})
}

// drop frees the channel for another process at once.
func (p *post) drop(ctx context.Context) error {
	if !p.shared {
		return nil
	}
	// The process is stopping, so ctx is over; the lease must still go.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return p.engine.Update(ctx, "channel.drop", func(tx *engine.Tx) error {
		return tx.DropLease("channel/"+p.channel.Name(), p.owner)
	})
}

// Load and Save make a post the place its channel remembers.
func (p *post) Load(ctx context.Context) (cursor string, err error) {
	err = p.engine.View(ctx, func(tx store.Tx) error {
		st, err := tx.ChannelState(p.channel.Name())
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		cursor = st.Cursor
		return err
	})
	return cursor, err
}

func (p *post) Save(ctx context.Context, cursor string) error {
	return p.engine.Update(ctx, "cursor", func(tx *engine.Tx) error {
		return tx.SaveChannelState(store.ChannelState{Name: p.channel.Name(), Cursor: cursor, Epoch: p.epoch.Load()})
	})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
