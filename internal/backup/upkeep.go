package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

const (
	// afterStart is how long a backup that is overdue waits after a start.
	afterStart = 2 * time.Minute
	// afterFailure is when a backup that failed is tried again.
	afterFailure = time.Hour
	// wallCheck is the longest sleep: a host that sleeps stops the clock that
	// timers go by, so the wall clock is looked at that often.
	wallCheck = time.Hour
	// unreferenced is how old a content must be before it is swept: whoever
	// put it has named it by then.
	unreferenced = time.Hour
	// sweepEvery is how often contents are swept where no backups are made.
	sweepEvery = 24 * time.Hour
)

// failureKey is the fact that tells of the last scheduled backup if it failed.
const failureKey = "backup.failed"

// Failure is why the last scheduled backup was not made.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
	Help  string    `json:"help,omitempty"`
}

// Run makes a backup every so often, the first one that long after the last,
// also if the process did not run in between; then it sweeps contents that
// nothing names any more. Every zero makes none, and only sweeps. It returns
// when ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	begun := time.Now()
	swept := begun // where no backups are made
	var failed time.Time
	for {
		due := swept.Add(sweepEvery)
		if every > 0 {
			due = k.nextDue(begun, failed, every)
		}
		if !sleepUntil(ctx, due) {
			return nil
		}
		if every > 0 {
			info, err := k.Create(ctx, Request{Scheduled: true})
			if ctx.Err() != nil {
				return nil
			}
			failed = time.Time{}
			if err != nil {
				failed = time.Now()
				log.Error("a scheduled backup was not made", "err", err, "help", mercury.HelpOf(err))
			} else {
				log.Info("made a backup", "path", info.Path, "bytes", info.Bytes)
			}
			if err := k.note(ctx, err); err != nil {
				log.Warn("note what became of a backup", "err", err)
			}
		}
		swept = time.Now()
		if n, err := k.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Warn("sweep contents", "err", err)
		} else if n > 0 {
			log.Info("removed contents that nothing names", "contents", n)
		}
	}
}

// nextDue is when the next scheduled backup should be made.
func (k *Keeper) nextDue(begun, failed time.Time, every time.Duration) time.Time {
	due := k.last().Add(every)
	if early := begun.Add(afterStart); due.Before(early) {
		due = early
	}
	if !failed.IsZero() && due.Before(failed.Add(afterFailure)) {
		due = failed.Add(afterFailure)
	}
	return due
}

// last is when the last scheduled backup was made; a home without one counts
// from when it was made itself.
func (k *Keeper) last() time.Time {
	list, err := List(k.home)
	if err == nil {
		for _, i := range list {
			if i.Kind == Scheduled {
				return i.CreatedAt
			}
		}
	}
	if st, err := os.Stat(filepath.Join(k.home, "node")); err == nil {
		return st.ModTime()
	}
	return time.Now()
}

// sleepUntil waits by the wall clock; false when ctx ended before.
func sleepUntil(ctx context.Context, due time.Time) bool {
	for {
		wait := time.Until(due.Round(0))
		if wait <= 0 {
			return ctx.Err() == nil
		}
		t := time.NewTimer(min(wait, wallCheck))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
	}
}

// note keeps why the last scheduled backup failed, for whoever looks.
func (k *Keeper) note(ctx context.Context, cause error) error {
	text := ""
	if cause != nil {
		b, err := json.Marshal(Failure{At: time.Now().UTC(), Error: cause.Error(), Help: mercury.HelpOf(cause)})
		if err != nil {
			return err
		}
		text = string(b)
	}
	var old string
	err := k.store.View(ctx, func(tx store.Tx) (err error) {
		old, err = fact(tx, failureKey)
		return err
	})
	if err != nil || old == text {
		return err
	}
	return k.store.Update(ctx, func(tx store.Tx) error { return tx.SetMeta(failureKey, text) })
}

// LastFailure is why the last scheduled backup was not made; nil if it was.
func LastFailure(tx store.Tx) (*Failure, error) {
	text, err := fact(tx, failureKey)
	if err != nil || text == "" {
		return nil, err
	}
	f := &Failure{}
	if err := json.Unmarshal([]byte(text), f); err != nil {
		return nil, fmt.Errorf("read the last failure of a backup: %w", err)
	}
	return f, nil
}

// Sweep removes contents that no row names and that are older than an hour. It
// waits for a backup that is being made, and a backup waits for it.
func (k *Keeper) Sweep(ctx context.Context) (removed int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var wanted map[string]bool
	before := time.Now().Add(-unreferenced)
	err = k.store.Export(ctx, func(r store.Reader) (err error) {
		wanted, err = Wanted(r)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep contents: %w", err)
	}
	// Looked up again just before it goes: work that is an hour old may be
	// undone, and a row may have come to name it meanwhile.
	var failed error
	removed, err = k.store.Blobs().Sweep(ctx, before, func(ref string) bool {
		if wanted[ref] || failed != nil {
			return true
		}
		keep := true
		failed = k.store.View(ctx, func(tx store.Tx) (err error) {
			keep, err = tx.UndoWants(ref)
			return err
		})
		return keep
	})
	return removed, errors.Join(err, failed)
}

// Wanted are the contents that rows name. A column whose name ends in _ref
// names one.
func Wanted(r store.Reader) (map[string]bool, error) {
	tables, err := r.Tables()
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, t := range tables {
		only := store.Table{Name: t.Name}
		for _, c := range t.Columns {
			if c.Type == store.TextColumn && len(c.Name) > 4 && c.Name[len(c.Name)-4:] == "_ref" {
				only.Columns = append(only.Columns, c)
			}
		}
		if len(only.Columns) == 0 {
			continue
		}
		err := r.Rows(only, func(values []any) error {
			for _, v := range values {
				if ref := v.(string); ref != "" {
					wanted[ref] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find contents named in %s: %w", t.Name, err)
		}
	}
	return wanted, nil
}
