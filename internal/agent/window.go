package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// windowLife is how long what a provider said of a window is believed: models
// are exchanged behind their names, and servers are set up anew.
const windowLife = 30 * 24 * time.Hour

// profile finds who answers a run, with the window as far as it is known.
func (a *Agent) profile(ctx context.Context, w *engine.Work, run mercury.Run, c mercury.Conversation) (Profile, error) {
	p, err := a.profiles.Profile(ctx, run, c)
	if err != nil {
		return p, fmt.Errorf("find profile: %w", err)
	}
	p = p.withDefaults()
	err = w.View(ctx, func(tx store.Tx) error {
		learned, err := learnedWindow(tx, p.ModelName)
		if learned > 0 {
			p.Window = min(p.Window, learned)
		}
		return err
	})
	return p, err
}

func windowKey(model string) string { return "window/" + model }

// learnedWindow is the window that a provider has named for a model, written
// provider/model, when it refused a request; 0 if it never did.
func learnedWindow(tx store.Tx, model string) (int, error) {
	value, err := tx.MetaValue(windowKey(model))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the window of %s: %w", model, err)
	}
	size, at, _ := strings.Cut(value, " ")
	window, bad := strconv.Atoi(size)
	learned, unread := time.Parse(time.DateOnly, at)
	if bad != nil || unread != nil || window <= 0 || tx.Now().Sub(learned) > windowLife {
		return 0, nil
	}
	return window, nil
}

// learnWindow keeps what a refusal says of a model's window, so that the next
// turn need not be refused to know it.
func learnWindow(e *llm.Error) func(*engine.Tx) error {
	return func(tx *engine.Tx) error {
		value := fmt.Sprintf("%d %s", e.Limit, tx.Now().UTC().Format(time.DateOnly))
		return tx.SetMeta(windowKey(e.Provider+"/"+e.Model), value)
	}
}
