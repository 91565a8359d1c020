// Package channeltest holds every channel driver to the contract of package
// channel, against a scripted platform that the driver's own test brings.
package channeltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Platform is a scripted other end.
type Platform struct {
	// Open returns a driver that talks to this platform and keeps its place
	// in place. It is called once for each "start" of the program.
	Open func(t *testing.T, place channel.Place) channel.Channel
	// Push makes a person say text in a place; it returns the message's id.
	Push func(place, text string) string
	// Redeliver offers a message with a known id again.
	Redeliver func(id, place, text string)
	// Shown returns the texts that people saw, in order, refusals left out.
	Shown func() []string
	// Next makes the platform treat the next message as the fault says.
	Next func(Fault)
	// Down makes the platform refuse connections until the returned function
	// is called.
	Down func() (up func())
}

// Fault is what a platform does with a message.
type Fault int

const (
	ShownThenDropped Fault = iota // shown, then the connection is cut
	Refused                       // a definite no
	Flooded                       // slow down, try again
)

// Place is a channel.Place in memory that outlives a driver, as the database
// outlives a process.
type Place struct {
	mu     sync.Mutex
	cursor string
	Saves  int
}

func (p *Place) Load(context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursor, nil
}

func (p *Place) Save(_ context.Context, cursor string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cursor = cursor
	p.Saves++
	return nil
}

// Run exercises the driver; each call of start gives a fresh platform.
func Run(t *testing.T, start func(*testing.T) Platform) {
	t.Run("messages arrive in order with what a room needs", func(t *testing.T) {
		p := start(t)
		l := listen(t, p, &Place{}, nil)
		p.Push("room", "one")
		p.Push("room", "two")
		for _, want := range []string{"one", "two"} {
			m := l.next(t)
			if m.Text != want || m.ID == "" || m.Sender.ID == "" || m.Channel == "" || m.At.IsZero() {
				t.Fatalf("message %+v, want text %q and id, sender, channel, time", m, want)
			}
			if mercury.ChannelOf(m.Conversation) != m.Channel {
				t.Errorf("conversation %q is not of channel %q", m.Conversation, m.Channel)
			}
		}
	})
	t.Run("what was not accepted is offered again", func(t *testing.T) {
		p, place := start(t), &Place{}
		l := listen(t, p, place, errors.New("the disk is full"))
		id := p.Push("room", "keep me")
		if m := l.next(t); m.ID != id {
			t.Fatalf("got %q", m.ID)
		}
		l.stop()
		if place.Saves != 0 {
			t.Fatal("the place moved past a message that was not accepted")
		}
		if m := listen(t, p, place, nil).next(t); m.ID != id {
			t.Errorf("after a restart got %q, want %q again", m.ID, id)
		}
	})
	t.Run("what was accepted is not offered again after a restart", func(t *testing.T) {
		p, place := start(t), &Place{}
		l := listen(t, p, place, nil)
		p.Push("room", "first")
		l.next(t)
		l.saved(t, place, 1)
		l.stop()
		second := p.Push("room", "second")
		if m := listen(t, p, place, nil).next(t); m.ID != second {
			t.Errorf("got %q %q, want only the second", m.ID, m.Text)
		}
	})
	t.Run("a redelivery keeps its id", func(t *testing.T) {
		p := start(t)
		l := listen(t, p, &Place{}, nil)
		id := p.Push("room", "again")
		first := l.next(t)
		p.Redeliver(id, "room", "again")
		if m := l.next(t); m.ID != first.ID {
			t.Errorf("redelivered under %q, was %q", m.ID, first.ID)
		}
	})
	t.Run("an outage is waited out by the same Listen", func(t *testing.T) {
		p := start(t)
		l := listen(t, p, &Place{}, nil)
		up := p.Down()
		up()
		p.Push("room", "after the outage")
		if m := l.next(t); m.Text != "after the outage" {
			t.Errorf("got %q", m.Text)
		}
	})
	t.Run("a shown message returns a receipt", func(t *testing.T) {
		p := start(t)
		c := p.Open(t, &Place{})
		receipt, err := send(t, c, "hello")
		if err != nil || receipt == "" {
			t.Fatalf("Send = %q, %v", receipt, err)
		}
		if got := p.Shown(); len(got) != 1 || got[0] != "hello" {
			t.Errorf("people saw %q", got)
		}
	})
	t.Run("hostile text arrives as it is", func(t *testing.T) {
		p := start(t)
		c := p.Open(t, &Place{})
		text := "quotes \"'` back\\slash\n$(id) <b>&amp; 你好 👩‍👩‍👧 \u202e"
		if _, err := send(t, c, text); err != nil {
			t.Fatal(err)
		}
		if got := p.Shown(); len(got) != 1 || got[0] != text {
			t.Errorf("people saw %q", got)
		}
	})
	t.Run("a message that was taken before the line broke is unknown", func(t *testing.T) {
		p := start(t)
		p.Next(ShownThenDropped)
		_, err := send(t, p.Open(t, &Place{}), "once")
		if err == nil || mercury.KindOf(err) != mercury.Unknown {
			t.Errorf("err = %v of kind %v, want unknown", err, mercury.KindOf(err))
		}
		if got := p.Shown(); len(got) != 1 {
			t.Errorf("people saw it %d times", len(got))
		}
	})
	t.Run("a definite no is invalid or denied", func(t *testing.T) {
		p := start(t)
		p.Next(Refused)
		_, err := send(t, p.Open(t, &Place{}), "no")
		if k := mercury.KindOf(err); k != mercury.Invalid && k != mercury.Denied {
			t.Errorf("kind = %v of %v", k, err)
		}
	})
	t.Run("a flood limit is transient and says how long", func(t *testing.T) {
		p := start(t)
		p.Next(Flooded)
		_, err := send(t, p.Open(t, &Place{}), "slow")
		var e *mercury.Error
		if !errors.As(err, &e) || e.Kind != mercury.Transient || e.After <= 0 {
			t.Errorf("err = %#v, want transient with a wait", err)
		}
	})
	t.Run("an unreachable platform is transient", func(t *testing.T) {
		p := start(t)
		c := p.Open(t, &Place{})
		defer p.Down()()
		if _, err := send(t, c, "nobody there"); mercury.KindOf(err) != mercury.Transient {
			t.Errorf("err = %v of kind %v", err, mercury.KindOf(err))
		}
	})
	t.Run("every part of a long text is taken", func(t *testing.T) {
		p := start(t)
		c := p.Open(t, &Place{})
		text := strings.Repeat("A line of an answer, with an emoji 🙂.\n", 400)
		parts := channel.Parts(mercury.Delivery{Text: text}, c.Limits())
		for _, part := range parts {
			if _, err := c.Send(t.Context(), delivery(c), part); err != nil {
				t.Fatalf("part %d of %d: %v", part.N, len(parts), err)
			}
		}
	})
	t.Run("Listen ends promptly with its context", func(t *testing.T) {
		p := start(t)
		l := listen(t, p, &Place{}, nil)
		p.Push("room", "x")
		l.next(t)
		l.stop()
	})
}

func delivery(c channel.Channel) mercury.Delivery {
	return mercury.Delivery{ID: mercury.NewID("dl"), Address: c.Name() + "/room", Kind: mercury.AnswerDelivery}
}

func send(t *testing.T, c channel.Channel, text string) (string, error) {
	t.Helper()
	return c.Send(t.Context(), delivery(c), mercury.Part{Text: text})
}

type listener struct {
	got  chan mercury.Message
	stop func()
}

func listen(t *testing.T, p Platform, place channel.Place, answer error) listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := listener{got: make(chan mercury.Message, 100)}
	done := make(chan error, 1)
	c := p.Open(t, place)
	go func() {
		done <- c.Listen(ctx, func(_ context.Context, m mercury.Message) error {
			l.got <- m
			return answer
		})
	}()
	var once sync.Once
	l.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Listen: %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("Listen did not end with its context")
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l listener) next(t *testing.T) mercury.Message {
	t.Helper()
	select {
	case m := <-l.got:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no message arrived")
	}
	return mercury.Message{}
}

// saved waits until the place was saved n times: accept has returned then, but
// the driver saves a moment later.
func (l listener) saved(t *testing.T, place *Place, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		place.mu.Lock()
		saves := place.Saves
		place.mu.Unlock()
		if saves >= n {
			return
		}
	}
	t.Fatalf("the place was not saved %d times", n)
}
