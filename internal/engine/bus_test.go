package engine

import (
	"context"
	"strings"
	"testing"
)

func collect(b *Bus, after string, n int) []Event {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out []Event
	for ev := range b.Subscribe(ctx, after) {
		if out = append(out, ev); len(out) == n {
			break
		}
	}
	return out
}

func TestASubscriberGoesOnWhereItLeft(t *testing.T) {
	b := newBus("ps_a")
	first := b.Subscribe(t.Context(), "")
	for _, s := range []string{"one", "two", "three"} {
		b.Publish(Event{Type: "delta", Data: s})
	}
	var second Event
	n := 0
	for ev := range first {
		if n++; n == 2 {
			second = ev
			break
		}
	}
	if got := collect(b, second.ID, 1); got[0].Data != "three" {
		t.Errorf("after %q comes %v", second.Data, got[0].Data)
	}
}

func TestAnUnknownIDGetsAResetFirst(t *testing.T) {
	b := newBus("ps_a")
	b.Publish(Event{Type: "delta", Data: "old"})
	for _, id := range []string{"b-1", "nonsense", "a-99", "a-x"} {
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		for ev := range b.Subscribe(ctx, id) {
			if n++; n == 1 {
				if ev.Type != "reset" {
					t.Errorf("after %q comes %s", id, ev.Type)
				}
				b.Publish(Event{Type: "delta", Data: "new"})
				continue
			}
			if ev.Data != "new" {
				t.Errorf("then comes %v", ev.Data)
			}
			break
		}
		cancel()
	}
}

func TestASlowSubscriberIsResetAndDelaysNobody(t *testing.T) {
	b := newBus("ps_a")
	sub := b.Subscribe(t.Context(), "")
	for range 2 * busEvents {
		b.Publish(Event{Type: "delta"})
	}
	for ev := range sub {
		if ev.Type != "reset" {
			t.Errorf("first comes %s", ev.Type)
		}
		break
	}
}

func TestTheRingIsBoundedInBytes(t *testing.T) {
	b := newBus("ps_a")
	for range 100 {
		b.Publish(Event{Type: "delta", Data: strings.Repeat("x", busBytes/10)})
	}
	if b.bytes > busBytes || len(b.ring) > 10 {
		t.Errorf("%d events, %d bytes", len(b.ring), b.bytes)
	}
	// One that is larger than the ring is still told.
	b.Publish(Event{Type: "delta", Data: strings.Repeat("x", 2*busBytes)})
	if len(b.ring) != 1 {
		t.Errorf("%d events", len(b.ring))
	}
}

func TestASubscriptionEndsWithItsContext(t *testing.T) {
	b := newBus("ps_a")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() {
		for range b.Subscribe(ctx, "") {
		}
		close(done)
	}()
	cancel()
	<-done
}
