package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func TestAMessageIsAnsweredAndSent(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", echo)
			e.Sender("chat", bird)
		})
		r.settle()
		p := r.say("m1", "hello")
		if p.Outcome != Started || p.RunID == "" {
			t.Fatalf("placement = %+v", p)
		}
		r.untilRun(p.RunID, mercury.RunDone)
		r.until("the answer is sent", func(store.Tx) bool { return len(bird.seen()) == 1 })
		equal(t, "sent", bird.seen(), "answer: hello")
		equal(t, "entries", r.texts(place), "user: hello", "assistant: answer: hello")
		if in := r.input(p.Input.ID); in.State != mercury.InputDone {
			t.Errorf("input is %s", in.State)
		}
	})
}

func TestAMessageOfferedTwiceIsOneInput(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		r.settle()
		in := input("m1", "hello", owner, mercury.Steer)
		first := r.post(in)
		r.untilRun(first.RunID, mercury.RunDone)
		again := in
		again.ID = mercury.NewID("in")
		second := r.post(again)
		if !second.Duplicate || second.Input.ID != first.Input.ID || second.RunID != first.RunID {
			t.Errorf("second placement = %+v", second)
		}
		other := in
		other.Text = "something else"
		if _, err := r.tryPost(other); kindOf(err) != mercury.Conflict {
			t.Errorf("other content: %v", err)
		}
		equal(t, "entries", r.texts(place), "user: hello", "assistant: answer: hello")

		r.kill()
		r = h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		again.ID = mercury.NewID("in")
		if p := r.post(again); !p.Duplicate {
			t.Errorf("after a restart: %+v", p)
		}
	})
}

func TestManyAtOnceOfOneMessageAreOneInput(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		r.settle()
		var wg sync.WaitGroup
		started := make(chan string, 20)
		for range 20 {
			wg.Go(func() {
				if p, err := r.tryPost(input("m1", "hello", owner, mercury.Steer)); err == nil && !p.Duplicate {
					started <- p.RunID
				} else if err != nil && kindOf(err) != mercury.Conflict {
					t.Errorf("post: %v", err)
				}
			})
		}
		wg.Wait()
		if len(started) != 1 {
			t.Fatalf("%d placements began a run", len(started))
		}
		r.untilRun(<-started, mercury.RunDone)
		equal(t, "entries", r.texts(place), "user: hello", "assistant: answer: hello")
	})
}

func TestAFirstMessageCreatesOnlyLocalConversations(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		in := input("m1", "hello", owner, mercury.Steer)
		in.ConversationID = "local/new"
		p := r.post(in)
		r.untilRun(p.RunID, mercury.RunDone)
		in.ConversationID, in.MessageID = "chat/unknown", "m2"
		if _, err := r.tryPost(in); kindOf(err) != mercury.NotFound {
			t.Errorf("unknown conversation: %v", err)
		}
	})
}

// TestAMessageThatLandsAsARunCompletesAlwaysStarts lets a message arrive while
// a run settles, a thousand times at a random moment, in many conversations at
// once.
func TestAMessageThatLandsAsARunCompletesAlwaysStarts(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		seeds, together := 1000, 25
		if h.shared {
			seeds = 100 // a commit takes longer there
		}
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		modes := []mercury.Mode{mercury.Steer, mercury.FollowUp}
		for first := 0; first < seeds; first += together {
			var wg sync.WaitGroup
			ids := make([]string, 2*together)
			for i := range together {
				seed := first + i
				rng := rand.New(rand.NewPCG(uint64(seed), 1))
				one := input(fmt.Sprintf("a%d", seed), "one", owner, mercury.Steer)
				two := input(fmt.Sprintf("b%d", seed), "two", owner, modes[rng.IntN(2)])
				one.ConversationID = fmt.Sprintf("local/%d", seed)
				two.ConversationID = one.ConversationID
				ids[2*i], ids[2*i+1] = one.ID, two.ID
				wg.Go(func() {
					if _, err := r.tryPost(one); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
					spin := time.Now().Add(time.Duration(rng.IntN(1500)) * time.Microsecond)
					for time.Now().Before(spin) {
						runtime.Gosched()
					}
					if _, err := r.tryPost(two); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			wg.Wait()
			r.until("all are answered", func(tx store.Tx) bool {
				for _, id := range ids {
					if in, err := tx.Input(id); err != nil || in.State != mercury.InputDone {
						return false
					}
				}
				return true
			})
		}
	})
}

func TestASteerJoinsTheRunAndAFollowUpWaitsForItsOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", g.then(func(ctx context.Context, w *Work) error {
				placed, err := w.Steers(ctx)
				if err != nil {
					return err
				}
				for _, en := range placed {
					w.Publish(Event{Type: "phase", Data: string(en.Kind) + " " + en.Text})
				}
				return echo(ctx, w)
			}))
		})
		r.settle()
		first := r.say("m1", "one")
		receive(t, g.arrived, "the first run")
		follow := r.post(input("m2", "later", owner, mercury.FollowUp))
		steer := r.say("m3", "also")
		write := r.post(input("m4", "by the way", owner, mercury.Write))
		if follow.Outcome != Queued || follow.RunID != "" {
			t.Errorf("follow-up: %+v", follow)
		}
		if steer.Outcome != Steered || steer.RunID != first.RunID {
			t.Errorf("steer: %+v", steer)
		}
		if write.Outcome != Written {
			t.Errorf("write: %+v", write)
		}
		close(g.open)
		r.until("everything is answered", func(tx store.Tx) bool {
			in, err := tx.Input(follow.Input.ID)
			return err == nil && in.State == mercury.InputDone
		})
		equal(t, "entries", r.texts(place),
			"user: one", "note: by the way", "user: also", "assistant: answer: one also",
			"user: later", "assistant: answer: later")
		if r.input(steer.Input.ID).RunID != first.RunID {
			t.Error("the steer is not part of the first run")
		}
		if id := r.input(follow.Input.ID).RunID; id == first.RunID || id == "" {
			t.Errorf("the follow-up is part of run %q", id)
		}
	})
}

func TestASteerAtTheLastMomentMakesTheRunGoOn(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		more := make(chan error, 1)
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Sender("chat", bird)
			e.Handle("turn", g.then(func(ctx context.Context, w *Work) error {
				more <- w.Settle(ctx, reply("draft"), nil)
				return w.Settle(ctx, reply("whole"), nil)
			}))
		})
		r.settle()
		p := r.say("m1", "one")
		receive(t, g.arrived, "the run")
		r.say("m2", "two")
		close(g.open)
		if err := receive(t, more, "the first settle"); !errors.Is(err, ErrMore) {
			t.Fatalf("first settle = %v, want ErrMore", err)
		}
		r.untilRun(p.RunID, mercury.RunDone)
		r.until("the answer is sent", func(store.Tx) bool { return len(bird.seen()) > 0 })
		equal(t, "entries", r.texts(place), "user: one", "assistant: draft", "user: two", "assistant: whole")
		equal(t, "sent", bird.seen(), "whole")
		r.view(func(tx store.Tx) error {
			answers, err := tx.RecentAnswers(place, 10)
			if len(answers) != 2 || answers[1].State != mercury.DeliverySuperseded || answers[1].SupersededBy != answers[0].ID {
				t.Errorf("answers = %+v", answers)
			}
			return err
		})
	})
}

func TestARunHoldsInputsOfOneActor(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", g.then(echo)) })
		r.settle()
		r.say("m1", "a1")
		receive(t, g.arrived, "the first run")
		b1 := r.post(input("m2", "b1", guest, mercury.Steer))
		if b1.Outcome != Queued {
			t.Errorf("another person's message: %+v", b1)
		}
		r.post(input("m3", "b2", guest, mercury.Steer))
		last := r.post(input("m4", "a2", owner, mercury.FollowUp))
		close(g.open)
		r.until("all are answered", func(tx store.Tx) bool {
			in, err := tx.Input(last.Input.ID)
			return err == nil && in.State == mercury.InputDone
		})
		equal(t, "entries", r.texts(place), "user: a1", "assistant: answer: a1",
			"user: b1", "user: b2", "assistant: answer: b1 b2", "user: a2", "assistant: answer: a2")
	})
}

func TestAWriteStartsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
		r.settle()
		p := r.post(input("m1", "noted", owner, mercury.Write))
		if p.Outcome != Written || p.RunID != "" || p.Input.State != mercury.InputDone {
			t.Errorf("placement = %+v", p)
		}
		r.update(func(tx *Tx) error {
			if _, err := tx.LiveRun(place); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("live run: %v", err)
			}
			return nil
		})
		equal(t, "entries", r.texts(place), "note: noted")
	})
}

func TestAFullInboxRefusesAndTakesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{InboxCap: 3}, func(e *Engine) { e.Handle("turn", g.then(echo)) })
		r.settle()
		r.say("m0", "zero")
		receive(t, g.arrived, "the run")
		for i := range 3 {
			r.say(fmt.Sprintf("m%d", i+1), "more")
		}
		refused := input("m9", "too much", owner, mercury.Steer)
		_, err := r.tryPost(refused)
		if kindOf(err) != mercury.Full || mercury.HelpOf(err) == "" {
			t.Fatalf("fourth: %v", err)
		}
		close(g.open)
		r.until("room again", func(tx store.Tx) bool {
			n, err := tx.CountQueued(place)
			return err == nil && n == 0
		})
		// It was not taken, so the same message may come again.
		if p := r.post(refused); p.Duplicate {
			t.Error("the refused message counts as known")
		}
	})
}

func TestTheBacklogOfAKeyRefuses(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{Backlog: 2})
		enqueue := func() error {
			return r.Update(context.Background(), "test", func(t *Tx) error {
				_, err := t.Enqueue(NewRun{Kind: "job", Lane: mercury.Bot, Key: "bot/a"})
				return err
			})
		}
		for range 2 {
			if err := enqueue(); err != nil {
				t.Fatal(err)
			}
		}
		if err := enqueue(); kindOf(err) != mercury.Full {
			t.Errorf("third: %v", err)
		}
	})
}

func TestWithdrawnInputsStartNoSuccessor(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		g := newGate()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", g.then(echo)) })
		r.settle()
		p := r.say("m1", "one")
		receive(t, g.arrived, "the run")
		follow := r.post(input("m2", "two", owner, mercury.FollowUp))
		r.update(func(t *Tx) error {
			if _, err := t.Withdraw(place, "reset"); err != nil {
				return err
			}
			return t.Cancel(p.RunID, "reset", owner)
		})
		r.untilRun(p.RunID, mercury.RunStopped)
		if in := r.input(follow.Input.ID); in.State != mercury.InputUnanswered || in.Reason != "reset" {
			t.Errorf("follow-up is %s (%s)", in.State, in.Reason)
		}
		equal(t, "entries", r.texts(place), "user: one")
	})
}
