package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
)

// care looks after copies of the home: it makes them, and holds a home that is
// one back until a person resumes it.
type care struct {
	*backup.Keeper
	station backup.Station
	parts   []backup.Part
	engine  *engine.Engine // set once there is one
	every   time.Duration
	home    string
	upkeep  bool // this process makes scheduled backups and sweeps
	log     *slog.Logger

	count   func(context.Context) error     // counts this start
	held    atomic.Pointer[backup.Restored] // nil: nothing is held back
	resumed chan struct{}                   // closed when nothing is held back
}

var owner = mercury.Actor{Role: mercury.Owner, Channel: "local"}

// parts are what starts work by itself besides the engine. A room that does so
// adds a line here.
func restoredParts() []backup.Part {
	return []backup.Part{{Name: "schedules", Hold: schedule.Hold, Waiting: schedule.Held,
		Resume: func(tx store.Tx, _ bool) error { return schedule.LetGo(tx) }}}
}

// newCare finds out whether the database was brought back, before anything
// works on it. raw is the store without the vault around it: what is copied
// went through it once.
func newCare(ctx context.Context, h *House, raw store.Store, node string) (*care, error) {
	o := h.opts
	portable, ok := raw.(store.Portable)
	if !ok {
		return nil, fmt.Errorf("the store %T cannot be copied", raw)
	}
	c := &care{parts: restoredParts(), every: time.Duration(o.Config.Backup.Every), home: o.Home.Dir(), log: o.Log,
		upkeep:  !o.Idle && o.Only == "" && !o.OnlyLatest,
		resumed: make(chan struct{})}
	c.Keeper = backup.New(c.home, portable, backup.Options{Version: o.Version, Keep: o.Config.Backup.Keep, Clean: cleaner(o.Config, h.secrets)})
	c.station = backup.Station{Home: c.home, Node: node, Store: raw, Shared: raw.SafetyPoll() > 0, Parts: c.parts}
	held, count, err := c.station.Recognise(ctx)
	if err != nil {
		return nil, err
	}
	c.count = count
	c.held.Store(held)
	if held == nil {
		close(c.resumed)
	} else {
		o.Log.Warn("this home was restored from a copy; what it had pending is held", "restored", held.At)
	}
	return c, nil
}

// cleaner takes secrets out of the files of a person. In a configuration a
// reference stands in their place, so that it still loads.
func cleaner(c *config.Config, s secrets) func(string, []byte) ([]byte, []string) {
	known := c.Secrets()
	return func(name string, b []byte) ([]byte, []string) {
		text := string(b)
		if s.Hide(text) == text {
			return b, nil
		}
		var out []string
		for _, key := range slices.Sorted(maps.Keys(known)) {
			value := known[key]
			if s.Hide(value) == value || !strings.Contains(text, value) {
				continue
			}
			out = append(out, name+": "+key)
			if strings.HasSuffix(name, ".yaml") {
				text = strings.ReplaceAll(text, value, "${LEFT_OUT_OF_THE_BACKUP}")
			}
		}
		if hidden := s.Hide(text); hidden != text {
			text = hidden
			if len(out) == 0 {
				out = []string{name}
			}
		}
		return []byte(text), out
	}
}

// run counts the start and then, where the house stays, makes scheduled backups
// until ctx ends.
func (c *care) run(ctx context.Context) error {
	if err := c.count(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("the start was not counted", "err", err)
	}
	if !c.upkeep {
		return nil
	}
	return c.Run(ctx, c.every, c.log)
}

// leave counts the orderly end. The work has ended, so its context has too.
func (c *care) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := c.station.Leave(ctx); err != nil && !errors.Is(err, store.ErrClosed) {
		c.log.Warn("the end was not counted", "err", err)
	}
}

// ready waits until nothing is held back; false when ctx ended before.
func (c *care) ready(ctx context.Context) bool {
	select {
	case <-c.resumed:
		return true
	case <-ctx.Done():
		return false
	}
}

// problem says, for the status, that the home is held back.
func (c *care) problem() []string {
	r := c.held.Load()
	if r == nil {
		return nil
	}
	return []string{fmt.Sprintf("This home was restored from a backup on %s: nothing that was pending is sent or gone on with, and channels stay closed. "+
		"`mercury backup resume` shows what would be sent and lets it work.", r.At.Local().Format("2006-01-02 15:04"))}
}

func (c *care) Create(ctx context.Context, secrets []byte) (api.Backup, error) {
	made, err := c.Keeper.Create(ctx, backup.Request{Secrets: secrets})
	return wireBackup(made), err
}

func (c *care) List(context.Context) ([]api.Backup, error) {
	found, err := backup.List(c.home)
	out := make([]api.Backup, len(found))
	for i, b := range found {
		out[i] = wireBackup(b)
	}
	return out, err
}

func wireBackup(b backup.Info) api.Backup {
	return api.Backup{Name: b.Name, Path: b.Path, Kind: b.Kind, CreatedAt: b.CreatedAt, Bytes: b.Bytes, Secrets: b.Secrets, LeftOut: b.LeftOut}
}

func (c *care) Held(ctx context.Context) (*api.HeldBack, error) {
	var held *backup.Held
	err := c.engine.View(ctx, func(tx store.Tx) (err error) {
		held, err = backup.FindHeld(tx, c.parts)
		return err
	})
	return wireHeld(held), err
}

func wireHeld(h *backup.Held) *api.HeldBack {
	if h == nil {
		return nil
	}
	out := api.Held(h.At, h.Made, h.Deliveries, h.Runs, h.Waiting)
	return &out
}

func (c *care) Resume(ctx context.Context, discard bool) (*api.HeldBack, error) {
	var held *backup.Held
	err := c.engine.Update(ctx, "backup.resume", func(tx *engine.Tx) (err error) {
		held, err = backup.Resume(tx, c.parts, discard, owner)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.held.Swap(nil) != nil {
		close(c.resumed)
	}
	return wireHeld(held), nil
}
