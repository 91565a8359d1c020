package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Bounds of what is watched.
const (
	mostSeen    = 64 << 10 // bytes that are compared
	mostDiffers = 12 << 10 // bytes of a difference that a model sees
	mostUnasked = 3        // messages a day that nobody asked for
)

// seenKey is where what a schedule saw last is remembered.
func seenKey(id string) string { return "schedules/seen/" + id }

// look reads what a schedule watches and returns what changed since it last
// looked: nothing the first time, and nothing when nothing did. What it saw is
// remembered in the commit that journals the difference.
func (s *Schedules) look(ctx context.Context, w *engine.Work, sch store.Schedule, target string) (ran, error) {
	if target == heartbeatLook && sch.ID == heartbeatID {
		return s.lookAround(ctx, w)
	}
	before, known := "", false
	err := w.View(ctx, func(tx store.Tx) error {
		text, err := tx.MetaValue(seenKey(sch.ID))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		before, known = text, true
		return err
	})
	if err != nil {
		return ran{}, fmt.Errorf("read what was seen: %w", err)
	}
	name, input := "read_file", map[string]any{"path": target}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		name, input = "fetch_url", map[string]any{"url": target}
	}
	return s.call(ctx, w, sch, "watch", name, input, func(out tool.Output) ran {
		if out.IsError {
			return ran{Failed: out.Text}
		}
		now := out.Text[:min(len(out.Text), mostSeen)]
		r := ran{Taint: out.Taint, commit: func(tx *engine.Tx) error { return tx.SetMeta(seenKey(sch.ID), target+"\n"+now) }}
		was, text, _ := strings.Cut(before, "\n")
		if known && was == target && text != now {
			r.Text = difference(text, now)
		}
		return r
	})
}

// difference is the changed lines, with a little around them.
func difference(before, now string) string {
	text := udiff.Unified("before", "now", strings.TrimRight(before, "\n")+"\n", strings.TrimRight(now, "\n")+"\n")
	if _, rest, ok := strings.Cut(text, "+++ now\n"); ok {
		text = rest
	}
	if len(text) > mostDiffers {
		text = strings.ToValidUTF8(text[:mostDiffers], "") + fmt.Sprintf("\n… and %d bytes more", len(text)-mostDiffers)
	}
	return text
}

// enough says that no more is sent unasked today: what watches may speak three
// times a day. What they missed they see the next day.
func (s *Schedules) enough(tx *engine.Tx) (string, error) {
	now := s.opts.Clock.Now().In(s.opts.Zone)
	if s.opts.Hush != nil {
		if until := s.opts.Hush(now); !until.IsZero() {
			return "quiet hours until " + until.In(s.opts.Zone).Format("15:04"), nil
		}
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, s.opts.Zone)
	said, watches := 0, map[string]bool{}
	for after := ""; ; {
		page, next, err := tx.Occurrences("", store.Page{After: after, Limit: 200})
		if err != nil {
			return "", err
		}
		for _, o := range page {
			if o.At.Before(midnight) {
				next = ""
				break
			}
			if o.Outcome != "done" || o.Manual {
				continue
			}
			if _, known := watches[o.ScheduleID]; !known {
				sch, err := tx.Schedule(o.ScheduleID)
				if err != nil {
					return "", err
				}
				watches[o.ScheduleID] = sch.Watch != ""
			}
			if watches[o.ScheduleID] {
				said++
			}
		}
		if after = next; next == "" {
			break
		}
	}
	if said < mostUnasked {
		return "", nil
	}
	return fmt.Sprintf("%d messages went out unasked today", said), nil
}

// acknowledgements are what a model says when it has nothing to say.
var acknowledgements = []string{"HEARTBEAT_OK", "NO_REPLY", "NOTHING_TO_REPORT"}

// Acknowledgement reports whether an answer only says that there is nothing to
// say: one of a few words by itself or at an end of a short text.
func Acknowledgement(text string) bool {
	text = strings.TrimSpace(text)
	if len([]rune(text)) > 300 {
		return false
	}
	bare := strings.Trim(text, "*_`.!\"' \n")
	return slices.ContainsFunc(acknowledgements, func(word string) bool {
		return bare == word || strings.HasPrefix(bare, word) || strings.HasSuffix(bare, word)
	})
}
