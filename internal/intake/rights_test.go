package intake

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// alone is a message of the owner in a talk that nobody else can write in.
func (h *house) alone(text string) mercury.Message {
	m := h.from("ann", text)
	m.Conversation = "relay/ann"
	return m
}

func TestEverythingIsAllowedOnlyWithAnEndAndWhereOthersCannotWrite(t *testing.T) {
	h := newHouse(t, Options{})
	if got := h.say("/permissions allow-all for 30m").Reply; !strings.Contains(got, "thers can write here") {
		t.Errorf("in a room: %s", got)
	}
	for text, want := range map[string]string{
		"/permissions allow-all":              "Until when?",
		"/permissions allow-all for 3 weeks":  "is no time up to 24h",
		"/permissions allow-all for 25h":      "is no time up to 24h",
		"/permissions allow-all for this run": "Nothing of yours is running",
		"/permissions everything":             "is not known",
		"/permissions revoke":                 "Which grant",
		"/permissions revoke gr_none":         "No grant gr_none holds",
	} {
		if got := h.accept(h.alone(text)).Reply; !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := h.accept(h.from("ben", "/permissions ask")).Reply; !strings.Contains(got, "no permission") {
		t.Errorf("a member: %s", got)
	}
	if got := h.accept(h.alone("/permissions allow-all for 30m")).Reply; !strings.Contains(got, "Mode allow-all") {
		t.Errorf("alone: %s", got)
	}
	h.view(func(tx store.Tx) error {
		c, err := tx.Conversation("relay/ann")
		if left := time.Until(c.ModeUntil); c.Mode != "allow-all" || left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("mode %s until %s", c.Mode, c.ModeUntil)
		}
		return err
	})
	if got := h.accept(h.alone("/status")).Reply; !strings.Contains(got, "Mode allow-all") {
		t.Errorf("status: %s", got)
	}
}

func TestTheModeOfTheRunInHandChangesToo(t *testing.T) {
	h := newHouse(t, Options{})
	run := h.accept(h.alone("work")).RunID
	h.accept(h.alone("/permissions allow-all for this run"))
	mode := func() (m mercury.Mandate) {
		h.view(func(tx store.Tx) error { r, err := tx.Run(run); m = r.Mandate; return err })
		return m
	}
	if m := mode(); m.Mode != "allow-all" || !m.ModeUntil.IsZero() {
		t.Errorf("for this run: %+v", m)
	}
	h.accept(h.alone("/permissions allow-all for 2h"))
	if m := mode(); m.Mode != "allow-all" || m.ModeUntil.IsZero() {
		t.Errorf("for two hours: %+v", m)
	}
	h.accept(h.alone("/permissions ask"))
	if m := mode(); m.Mode != "ask" {
		t.Errorf("asked again: %+v", m)
	}
}

func TestGrantsAreListedWithWhoGaveThemAndRevoked(t *testing.T) {
	h := newHouse(t, Options{})
	h.say("hello")
	var id string
	err := h.engine.Update(t.Context(), "grant", func(tx *engine.Tx) error {
		g, err := Allow(tx, "run:git commit *", time.Hour, mercury.Actor{Role: mercury.Owner, Name: "Ann"})
		id = g.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.say("/permissions").Reply; !strings.Contains(got, id) || !strings.Contains(got, "run:git commit *, for Ann, given by Ann on ") || !strings.Contains(got, "until ") {
		t.Errorf("listed %s", got)
	}
	h.say("/permissions revoke " + id)
	if got := h.say("/permissions").Reply; strings.Contains(got, id) {
		t.Errorf("still %s", got)
	}
	h.view(func(tx store.Tx) error {
		rows, _, err := tx.AuditRows(store.Page{})
		if len(rows) != 2 || rows[0].Act != "revoke" || rows[1].Act != "grant" || rows[0].Rule != "run:git commit *" {
			t.Errorf("the record is %+v", rows)
		}
		return err
	})
}

func TestCleanPutsAwayOnlyWhatCameFromOutside(t *testing.T) {
	h := newHouse(t, Options{})
	h.say("hello")
	if got := h.say("/clean").Reply; !strings.Contains(got, "Nothing") {
		t.Errorf("at first: %s", got)
	}
	err := h.engine.Update(t.Context(), "page", func(tx *engine.Tx) error {
		_, err := tx.Append("relay/room", mercury.Entry{Kind: mercury.ToolResultEntry, RunID: "run_1", CallID: "c", Text: "a page", Taint: []string{"web"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.say("/clean").Reply; !strings.Contains(got, "(1 in all)") {
		t.Errorf("then: %s", got)
	}
	if got := h.say("/clean").Reply; !strings.Contains(got, "Nothing") {
		t.Errorf("again: %s", got)
	}
}

// The end of a mode is told and written down, whether Mercury was there when
// it came or not.
func TestTheEndOfAModeIsToldAndWrittenDown(t *testing.T) {
	h := newHouse(t, Options{})
	told := func() (texts []string) {
		h.view(func(tx store.Tx) error {
			list, _, err := tx.Deliveries(store.DeliveryFilter{})
			for _, d := range list {
				if d.Kind == mercury.NoticeDelivery && strings.HasPrefix(d.Text, "Mode allow-all ended at ") {
					texts = append(texts, d.Address)
				}
			}
			return err
		})
		return texts
	}
	h.accept(h.alone("/permissions allow-all for 2h"))
	next, err := h.endModes(t.Context())
	if left := time.Until(next); err != nil || left < 119*time.Minute || len(told()) > 0 {
		t.Fatalf("the next end is in %v, %v, told %v", left, err, told())
	}
	// Its time passes while nothing runs.
	past := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	err = h.engine.Update(t.Context(), "past", func(tx *engine.Tx) error {
		c, err := tx.LockConversation("relay/ann")
		if err != nil {
			return err
		}
		c.ModeUntil = past
		if err := tx.SaveConversation(c); err != nil {
			return err
		}
		return h.remember(tx, c.ID, past)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // once, however often it is looked
		if next, err := h.endModes(t.Context()); err != nil || !next.IsZero() {
			t.Fatalf("the next end is at %v, %v", next, err)
		}
	}
	if got := told(); len(got) != 1 || got[0] != "relay/ann" {
		t.Errorf("told %v", got)
	}
	h.view(func(tx store.Tx) error {
		c, err := tx.Conversation("relay/ann")
		if err != nil || c.Mode != "" {
			t.Errorf("the mode is %q, %v", c.Mode, err)
		}
		rows, _, err := tx.AuditRows(store.Page{})
		if len(rows) != 2 || rows[0].Act != "mode" || rows[0].Verdict != "ended" || rows[1].Verdict != "allow-all" || rows[1].Actor.Role != mercury.Owner {
			t.Errorf("the record is %+v", rows)
		}
		return err
	})
	// A mode that a person ended is not ended again, and its end is not told.
	h.accept(h.alone("/permissions allow-all for 1h"))
	h.accept(h.alone("/permissions ask"))
	if next, err := h.endModes(t.Context()); err != nil || !next.IsZero() || len(told()) != 1 {
		t.Errorf("the next end is at %v, %v, told %v", next, err, told())
	}
}

func TestModesAreKeptUntilTheirTime(t *testing.T) {
	h := newHouse(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- h.KeepModes(ctx) }()
	events := h.engine.Bus().Subscribe(ctx, "")
	h.accept(h.alone("/permissions allow-all for 30ms"))
	for e := range events {
		if d, ok := e.Data.(mercury.Delivery); ok && strings.HasPrefix(d.Text, "Mode allow-all ended") {
			break
		}
	}
	cancel()
	if err := <-gone; err != nil {
		t.Error(err)
	}
}
