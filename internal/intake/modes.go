package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/store"
)

// modesKey names the fact that says in which conversations nothing is asked,
// and until when, in microseconds.
const modesKey = "modes"

// remember notes that a conversation's mode ends at a time; zero: it has no
// end that anyone is told of.
func (i *Intake) remember(tx *engine.Tx, conversation string, until time.Time) error {
	ends, err := modeEnds(tx)
	if err != nil {
		return err
	}
	if _, known := ends[conversation]; !known && until.IsZero() {
		return nil
	}
	delete(ends, conversation)
	if !until.IsZero() {
		ends[conversation] = until.UnixMicro()
	}
	if err := saveEnds(tx, ends); err != nil {
		return err
	}
	if !until.IsZero() {
		// Not before it can be read: a look that comes too early finds nothing and
		// would be the last.
		tx.After(func() {
			select {
			case i.modes <- until:
			default: // whoever keeps them looks at all of them
			}
		})
	}
	return nil
}

func modeEnds(tx store.Tx) (map[string]int64, error) {
	text, err := tx.MetaValue(modesKey)
	if errors.Is(err, store.ErrNotFound) || err == nil && text == "" {
		return map[string]int64{}, nil
	}
	if err != nil {
		return nil, err
	}
	ends := map[string]int64{}
	if err := json.Unmarshal([]byte(text), &ends); err != nil {
		return nil, fmt.Errorf("read the ends of modes: %w", err)
	}
	return ends, nil
}

func saveEnds(tx store.Tx, ends map[string]int64) error {
	b, err := json.Marshal(ends)
	if err != nil {
		return err
	}
	return tx.SetMeta(modesKey, string(b))
}

// KeepModes ends each mode that was chosen for a time when its time is over,
// also one that ended while nothing ran, and tells the conversation so. It
// returns when ctx ends, and does nothing while no such mode holds.
func (i *Intake) KeepModes(ctx context.Context) error {
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := timer.C
		if next.IsZero() {
			due = nil
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case until := <-i.modes:
			if next.IsZero() || until.Before(next) {
				next = until
			}
		case <-due:
			var err error
			if next, err = i.endModes(ctx); err != nil && ctx.Err() == nil {
				// The gate knows the time by itself; only the notice waits.
				i.opts.Log.Error("the end of a mode could not be told", "err", err)
				next = time.Now().Add(time.Minute)
			}
		}
	}
}

// endModes ends the modes whose time is over, and returns when the next one's
// is; zero when there is none.
func (i *Intake) endModes(ctx context.Context) (next time.Time, err error) {
	var ends map[string]int64
	err = i.engine.View(ctx, func(tx store.Tx) (err error) {
		ends, err = modeEnds(tx)
		return err
	})
	if err != nil {
		return next, err
	}
	for conversation, at := range ends {
		if until := time.UnixMicro(at); until.After(time.Now()) {
			if next.IsZero() || until.Before(next) {
				next = until
			}
			continue
		}
		err := i.engine.Update(ctx, "mode", func(tx *engine.Tx) error { return i.endMode(tx, conversation) })
		if err != nil {
			return next, fmt.Errorf("end the mode of %s: %w", conversation, err)
		}
	}
	return next, nil
}

// endMode ends one conversation's mode, unless it was chosen anew meanwhile.
func (i *Intake) endMode(tx *engine.Tx, conversation string) error {
	c, err := tx.LockConversation(conversation)
	if errors.Is(err, store.ErrNotFound) {
		return i.remember(tx, conversation, time.Time{})
	}
	if err != nil || c.ModeUntil.After(time.Now()) {
		return err
	}
	if err := i.remember(tx, conversation, time.Time{}); err != nil || c.Mode == "" {
		return err
	}
	was, until := c.Mode, c.ModeUntil
	c.Mode, c.ModeUntil = "", time.Time{}
	if err := tx.SaveConversation(c); err != nil {
		return err
	}
	err = tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: mercury.Actor{Role: mercury.Owner}, Act: "mode",
		Subject: conversation, Verdict: "ended", Detail: was + ", chosen until " + until.UTC().Format(time.RFC3339)})
	if err != nil || was != permission.ModeAllowAll {
		return err
	}
	_, _, err = tx.Emit(mercury.Delivery{Address: conversation, ConversationID: conversation, Kind: mercury.NoticeDelivery,
		RequestID: fmt.Sprintf("mode/%s/%d", conversation, until.UnixMicro()),
		Text:      fmt.Sprintf("Mode allow-all ended at %s. From now on I ask again.", until.In(i.opts.Zone).Format("15:04"))})
	return err
}
