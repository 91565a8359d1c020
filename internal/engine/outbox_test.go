package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func (r *rig) emit(d mercury.Delivery) mercury.Delivery {
	r.t.Helper()
	if d.Address == "" {
		d.Address = place
	}
	if d.Kind == "" {
		d.Kind = mercury.DirectDelivery
	}
	r.update(func(t *Tx) (err error) {
		d, _, err = t.Emit(d)
		return err
	})
	return d
}

// three splits a delivery into its text's three characters.
func three(d mercury.Delivery) []mercury.Part {
	return []mercury.Part{{Text: d.Text[:1]}, {Text: d.Text[1:2]}, {Text: d.Text[2:]}}
}

func states(d mercury.Delivery) []mercury.DeliveryState {
	var out []mercury.DeliveryState
	for _, p := range d.Parts {
		out = append(out, p.State)
	}
	return out
}

func TestWhatBecomesOfADeliveryFollowsFromTheSendersWord(t *testing.T) {
	const (
		sent    = mercury.DeliverySent
		unknown = mercury.DeliveryUnknown
		refused = mercury.DeliveryRefused
		never   = mercury.DeliveryNotAttempted
	)
	for _, tt := range []struct {
		name  string
		err   error // of the second part
		state mercury.DeliveryState
		parts []mercury.DeliveryState
		shown []string
	}{
		{"all is sent", nil, sent, []mercury.DeliveryState{sent, sent, sent}, []string{"a", "b", "c"}},
		{"the connection drops", errors.New("reset"), unknown, []mercury.DeliveryState{sent, unknown, never}, []string{"a"}},
		{"the text is wrong", &mercury.Error{Kind: mercury.Invalid, Err: errors.New("400")}, refused, []mercury.DeliveryState{sent, refused, never}, []string{"a"}},
		{"we are blocked", &mercury.Error{Kind: mercury.Denied, Err: errors.New("403")}, refused, []mercury.DeliveryState{sent, refused, never}, []string{"a"}},
		{"an error of no proven kind", &mercury.Error{Kind: mercury.Setup, Err: errors.New("?")}, unknown, []mercury.DeliveryState{sent, unknown, never}, []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, h *home) {
				bird := &pigeon{do: func(n int, p mercury.Part) error {
					if n == 2 {
						return tt.err
					}
					return nil
				}}
				r := h.rig(t, Options{Split: three}, func(e *Engine) { e.Sender("chat", bird) })
				d := r.untilDelivery(r.emit(mercury.Delivery{Text: "abc"}).ID, tt.state)
				equal(t, "parts", states(d), tt.parts...)
				equal(t, "shown", bird.seen(), tt.shown...)
			})
		})
	}
}

func TestAResendGoesOnAtTheFirstPartNotSentAndSendsOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{do: func(n int, p mercury.Part) error {
			if n == 2 {
				return errors.New("connection reset")
			}
			return nil
		}}
		r := h.rig(t, Options{Split: three}, func(e *Engine) { e.Sender("chat", bird) })
		d := r.untilDelivery(r.emit(mercury.Delivery{Text: "abc"}).ID, mercury.DeliveryUnknown)
		if d.Reason == "" {
			t.Error("the delivery does not say which part is unknown")
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := r.Resend(context.Background(), d.ID, owner); err != nil && kindOf(err) != mercury.Conflict {
					t.Errorf("resend: %v", err)
				}
			})
		}
		wg.Wait()
		r.untilDelivery(d.ID, mercury.DeliverySent)
		equal(t, "shown", bird.seen(), "a", "b", "c")
		if _, err := r.Resend(context.Background(), d.ID, owner); kindOf(err) != mercury.Conflict {
			t.Errorf("resend of what was sent: %v", err)
		}
	})
}

func TestAProvenFailureIsTriedAgainWhenThePlatformSays(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		var start time.Time
		bird := &pigeon{do: func(n int, p mercury.Part) error {
			at = append(at, time.Since(start).Round(time.Second))
			switch n {
			case 1:
				return &mercury.Error{Kind: mercury.Transient, After: 90 * time.Second, Err: errors.New("429")}
			case 2:
				return &mercury.Error{Kind: mercury.Transient, Err: errors.New("no route")}
			}
			return nil
		}}
		r := dir.rig(t, Options{}, func(e *Engine) { e.Sender("chat", bird) })
		start = time.Now()
		d := r.emit(mercury.Delivery{Text: "hello"})
		for d.State != mercury.DeliverySent {
			time.Sleep(time.Second)
			r.view(func(tx store.Tx) (err error) { d, err = tx.Delivery(d.ID); return err })
		}
		equal(t, "tries", at[:2], 0, 90*time.Second)
		if len(at) != 3 || at[2]-at[1] < time.Second || at[2]-at[1] > 4*time.Second {
			t.Errorf("tries at %v", at)
		}
		if d.Attempts != 0 || d.Receipt == "" {
			t.Errorf("delivery = %+v", d)
		}
		r.stop()
		r.store.Close()
	})
}

func TestADeliveryThatNeverGetsThroughIsRefusedInTheEnd(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		bird := &pigeon{do: func(int, mercury.Part) error {
			return &mercury.Error{Kind: mercury.Transient, Err: errors.New("no route")}
		}}
		r := dir.rig(t, Options{}, func(e *Engine) { e.Sender("chat", bird) })
		d := r.emit(mercury.Delivery{Text: "hello"})
		start := time.Now()
		for d.State != mercury.DeliveryRefused {
			time.Sleep(10 * time.Minute)
			r.view(func(tx store.Tx) (err error) { d, err = tx.Delivery(d.ID); return err })
			if time.Since(start) > 72*time.Hour {
				t.Fatalf("after three days it is %s, %d tries", d.State, d.Attempts)
			}
		}
		if bird.n != sendTries {
			t.Errorf("%d tries", bird.n)
		}
		r.stop()
		r.store.Close()
	})
}

func TestDeliveriesToOneAddressKeepTheirOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		failed := false
		var mu sync.Mutex
		bird := &pigeon{do: func(n int, p mercury.Part) error {
			mu.Lock()
			defer mu.Unlock()
			if p.Text == "0" && !failed {
				failed = true
				return &mercury.Error{Kind: mercury.Transient, After: 50 * time.Millisecond, Err: errors.New("busy")}
			}
			return nil
		}}
		r := h.rig(t, Options{}, func(e *Engine) { e.Sender("chat", bird) })
		var want []string
		var last mercury.Delivery
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			last = r.emit(mercury.Delivery{Text: fmt.Sprint(i)})
		}
		r.untilDelivery(last.ID, mercury.DeliverySent)
		equal(t, "shown", bird.seen(), want...)
	})
}

func TestTheSameRequestIsTheSameDelivery(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{})
		r.settle()
		d := mercury.Delivery{Address: place, RequestID: "r1", Kind: mercury.DirectDelivery, Text: "hello"}
		first := r.emit(d)
		r.update(func(tx *Tx) error {
			again, known, err := tx.Emit(d)
			if !known || again.ID != first.ID {
				t.Errorf("again = %+v, %v", again, known)
			}
			return err
		})
		d.Text = "other"
		err := r.Update(context.Background(), "test", func(t *Tx) error { _, _, err := t.Emit(d); return err })
		if kindOf(err) != mercury.Conflict {
			t.Errorf("other content: %v", err)
		}
	})
}

func TestLocalDeliveriesAreSentByBeingStored(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{})
		d := r.emit(mercury.Delivery{Address: "local/x", Text: "hello"})
		if d.State != mercury.DeliverySent || d.Receipt == "" || d.SettledAt.IsZero() {
			t.Errorf("delivery = %+v", d)
		}
	})
}

// TestANewerInputHoldsAnAnswerUntilItIsClaimed: A is answered, B arrives
// before the claim of A's answer, B is answered: one send. B after the claim:
// two.
func TestANewerInputHoldsAnAnswerUntilItIsClaimed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before bool
		sent   []string
	}{
		{"before the claim", true, []string{"answer: two"}},
		{"after the claim", false, []string{"answer: one", "answer: two"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, h *home) {
				bird := &pigeon{}
				r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", echo) })
				r.settle()
				a := r.say("m1", "one")
				r.untilRun(a.RunID, mercury.RunDone)
				if !tt.before {
					r.Sender("chat", bird)
					r.until("the first is sent", func(store.Tx) bool { return len(bird.seen()) == 1 })
				}
				b := r.say("m2", "two")
				r.untilRun(b.RunID, mercury.RunDone)
				r.Sender("chat", bird)
				r.until("the second is sent", func(tx store.Tx) bool {
					ds, err := tx.RecentAnswers(place, 1)
					return err == nil && len(ds) == 1 && ds[0].State == mercury.DeliverySent
				})
				equal(t, "sent", bird.seen(), tt.sent...)
				if tt.before {
					r.view(func(tx store.Tx) error {
						ds, err := tx.RecentAnswers(place, 2)
						if ds[1].State != mercury.DeliverySuperseded || ds[1].SupersededBy != ds[0].ID {
							t.Errorf("the first answer is %s", ds[1].State)
						}
						return err
					})
				}
			})
		})
	}
}

func TestADraftStaysHeldWhenTheNextTurnFailsAndGoesOutByHand(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if r := w.Run(); len(r.ID) > 0 && w.Run().Input == nil {
					var failing bool
					if err := w.View(ctx, func(tx store.Tx) error {
						ins, err := tx.RunInputs(r.ID)
						failing = ins[0].Text == "two"
						return err
					}); err != nil {
						return err
					}
					if failing {
						return &mercury.Error{Kind: mercury.Denied, Err: errors.New("no")}
					}
				}
				return echo(ctx, w)
			})
		})
		r.settle()
		a := r.say("m1", "one")
		r.untilRun(a.RunID, mercury.RunDone)
		b := r.say("m2", "two")
		r.untilRun(b.RunID, mercury.RunFailed)
		r.Sender("chat", bird)
		r.until("the failure is told", func(store.Tx) bool { return len(bird.seen()) == 1 })
		var draft mercury.Delivery
		r.view(func(tx store.Tx) error {
			ds, err := tx.RecentAnswers(place, 1)
			draft = ds[0]
			return err
		})
		if draft.State != mercury.DeliveryHeld || draft.Reason != ReasonNewerInput {
			t.Fatalf("draft is %s (%s)", draft.State, draft.Reason)
		}
		if _, err := r.Resend(context.Background(), draft.ID, owner); err != nil {
			t.Fatal(err)
		}
		r.untilDelivery(draft.ID, mercury.DeliverySent)
	})
}

func TestQuestionsAndNoticesAreNeverHeld(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", newGate().then(echo)) })
		r.settle()
		kinds := []mercury.DeliveryKind{mercury.QuestionDelivery, mercury.NoticeDelivery, mercury.CommandDelivery, mercury.DirectDelivery}
		var last mercury.Delivery
		for _, k := range kinds {
			last = r.emit(mercury.Delivery{Kind: k, ConversationID: place, Text: string(k)})
		}
		r.say("m1", "newer")
		r.Sender("chat", bird)
		r.untilDelivery(last.ID, mercury.DeliverySent)
		if len(bird.seen()) != len(kinds) {
			t.Errorf("shown %v", bird.seen())
		}
	})
}

// TestASendThatAKillCutOffIsUnknownAndNotRepeated: the platform took the
// message, and the process died before it could write that down.
func TestASendThatAKillCutOffIsUnknownAndNotRepeated(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		inside, goOn := make(chan bool, 1), make(chan bool)
		bird := &pigeon{do: func(n int, p mercury.Part) error {
			if n == 2 {
				inside <- true
				<-goOn
			}
			return nil
		}}
		r := h.rig(t, Options{Split: three}, func(e *Engine) { e.Sender("chat", bird) })
		d := r.emit(mercury.Delivery{Text: "abc"})
		receive(t, inside, "the second part")
		r.store.Close()
		close(goOn)
		r.stop()
		r = h.rig(t, Options{Split: three}, func(e *Engine) { e.Sender("chat", bird) })
		d = r.untilDelivery(d.ID, mercury.DeliveryUnknown)
		equal(t, "parts", states(d), mercury.DeliverySent, mercury.DeliveryUnknown, mercury.DeliveryNotAttempted)
		equal(t, "shown", bird.seen(), "a", "b")
	})
}

func TestALateReceiptTurnsUnknownIntoSentAndNothingElse(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.asleep(t, Options{})
		made := func(state mercury.DeliveryState) mercury.Delivery {
			d := mercury.Delivery{ID: mercury.NewID("dl"), Address: place, RequestID: mercury.NewID("rq"), Kind: mercury.DirectDelivery, State: state,
				Parts: []mercury.Part{{N: 1, State: state, AttemptID: "at_1", Owner: "ps_gone"}}}
			r.update(func(t *Tx) error { return t.InsertDelivery(d) })
			return d
		}
		note := func(d mercury.Delivery, attempt string, cause error) mercury.Delivery {
			r.update(func(t *Tx) error { _, err := t.receipt(d.ID, attempt, "at_next", "late", cause); return err })
			r.view(func(tx store.Tx) (err error) { d, err = tx.Delivery(d.ID); return err })
			return d
		}
		if d := note(made(mercury.DeliveryUnknown), "at_1", nil); d.State != mercury.DeliverySent || d.Receipt != "late" {
			t.Errorf("the same attempt: %s", d.State)
		}
		if d := note(made(mercury.DeliveryUnknown), "at_2", nil); d.State != mercury.DeliveryUnknown {
			t.Errorf("another attempt: %s", d.State)
		}
		refusal := &mercury.Error{Kind: mercury.Transient, Err: errors.New("429")}
		if d := note(made(mercury.DeliveryUnknown), "at_1", refusal); d.State != mercury.DeliveryUnknown {
			t.Errorf("a late refusal: %s", d.State)
		}
		if d := note(made(mercury.DeliveryRefused), "at_1", nil); d.State != mercury.DeliveryRefused {
			t.Errorf("a refused one: %s", d.State)
		}
	})
}

func TestWithoutASenderADeliveryWaits(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) { e.Sender("other", &pigeon{}) })
		d := r.emit(mercury.Delivery{Text: "hello"})
		o := r.emit(mercury.Delivery{Address: "other/1", Text: "hello"})
		r.untilDelivery(o.ID, mercury.DeliverySent)
		r.view(func(tx store.Tx) (err error) { d, err = tx.Delivery(d.ID); return err })
		if d.State != mercury.DeliveryPending {
			t.Errorf("without a sender it is %s", d.State)
		}
		r.Sender("chat", bird)
		r.untilDelivery(d.ID, mercury.DeliverySent)
	})
}

func TestAHoldOnSendingKeepsDeliveriesBack(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		bird := &pigeon{}
		r := h.rig(t, Options{}, func(e *Engine) { e.Sender("chat", bird) })
		r.update(func(t *Tx) error { return t.Hold("lane/out", time.Time{}, "restored", "test") })
		d := r.emit(mercury.Delivery{Text: "hello"})
		if c, err := r.claimSend(context.Background(), []string{"chat"}); err != nil || c.due {
			t.Fatalf("claim during the hold: %+v, %v", c, err)
		}
		r.update(func(t *Tx) error { return t.Release("lane/out") })
		r.untilDelivery(d.ID, mercury.DeliverySent)
	})
}
