package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// asking parks a run once with a question and then settles with its answer.
func asking(q mercury.Question) Handler {
	return func(ctx context.Context, w *Work) error {
		qs, err := w.Questions(ctx)
		if err != nil {
			return err
		}
		if len(qs) == 0 {
			return w.Park(ctx, Park{Questions: []mercury.Question{q}, Reason: "a decision"}, func(t *Tx) error {
				_, _, err := t.Emit(mercury.Delivery{Address: place, ConversationID: place, RunID: w.Run().ID,
					Kind: mercury.QuestionDelivery, QuestionID: q.ID, RequestID: "question/" + q.ID, Text: q.Title})
				return err
			})
		}
		return w.Settle(ctx, reply(string(qs[0].State)+" "+qs[0].Answer), nil)
	}
}

func approval() mercury.Question {
	return mercury.Question{ID: mercury.NewID("qu"), Kind: "approval", Title: "May I?", CallID: "c1", Hash: "h1", Always: "run ls"}
}

func (r *rig) answer(id, answer string, by mercury.Actor) (mercury.Question, error) {
	var q mercury.Question
	err := r.Update(context.Background(), "answer", func(t *Tx) error {
		var err error
		q, err = t.Answer(id, answer, by, "test")
		return err
	})
	return q, err
}

func TestAnAnswerWakesTheRunThatAsked(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		q := approval()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		p := r.say("m1", "go")
		run := r.untilRun(p.RunID, mercury.RunWaiting)
		if run.Wait == nil || len(run.Wait.Questions) != 1 || run.Owner != "" {
			t.Errorf("parked run: %+v", run)
		}
		// The parked run keeps its conversation: another message waits.
		if p := r.say("m2", "and"); p.Outcome != Steered {
			t.Errorf("message during the wait: %+v", p)
		}
		if _, err := r.answer(q.ID, "once", owner); err != nil {
			t.Fatal(err)
		}
		// The first settle is made to go on by the waiting steer; the second
		// ends the run.
		r.untilRun(p.RunID, mercury.RunDone, mercury.RunQueued, mercury.RunRunning)
		r.until("the run is over", func(tx store.Tx) bool {
			run, err := tx.Run(p.RunID)
			return err == nil && run.State == mercury.RunDone
		})
	})
}

func TestAQuestionIsAnsweredOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		q := approval()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunWaiting)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { _, errs[i] = r.answer(q.ID, []string{"once", "no"}[i%2], owner) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case kindOf(err) != mercury.Conflict || mercury.HelpOf(err) == "":
				t.Errorf("loser: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d answers counted", won)
		}
		r.untilRun(p.RunID, mercury.RunDone)
		r.view(func(tx store.Tx) error {
			rows, _, err := tx.AuditRows(store.Page{})
			if len(rows) != 1 || rows[0].Act != "answer" || rows[0].Subject != q.ID {
				t.Errorf("audit = %+v", rows)
			}
			return err
		})
	})
}

func TestOnlyWhoMayAnswersAQuestion(t *testing.T) {
	admin := mercury.Actor{Role: mercury.Admin, ID: "9"}
	other := mercury.Actor{Role: mercury.Member, ID: "3", Channel: "chat"}
	for _, tt := range []struct {
		name string
		q    mercury.Question
		by   mercury.Actor
		ok   bool
	}{
		{"the owner", mercury.Question{Kind: "approval"}, owner, true},
		{"an admin who was not named", mercury.Question{Kind: "approval"}, admin, false},
		{"an admin who was named", mercury.Question{Kind: "approval", Answerers: []mercury.Role{mercury.Admin}}, admin, true},
		{"a member, to an approval", mercury.Question{Kind: "approval", AskedBy: guest, Answerers: []mercury.Role{mercury.Member}}, guest, false},
		{"a member, asked in words", mercury.Question{Kind: "text", AskedBy: guest, Answerers: []mercury.Role{mercury.Member}}, guest, true},
		{"another member", mercury.Question{Kind: "text", AskedBy: guest, Answerers: []mercury.Role{mercury.Member}}, other, false},
		{"a bot", mercury.Question{Kind: "text", Answerers: []mercury.Role{mercury.BotRole}}, mercury.Actor{Role: mercury.BotRole}, false},
		{"the owner, though only members are named", mercury.Question{Kind: "text", Answerers: []mercury.Role{mercury.Member}}, owner, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := mayAnswer(tt.q, tt.by); got != tt.ok {
				t.Errorf("mayAnswer = %v, want %v", got, tt.ok)
			}
		})
	}
}

func TestAnswersAreTakenAsOffered(t *testing.T) {
	choice := mercury.Question{Kind: "choice", Choices: []mercury.Choice{{Value: "a", Label: "Apples"}, {Value: "b", Label: "Bread"}}}
	for _, tt := range []struct {
		name, said, want string
		q                mercury.Question
		bad              bool
	}{
		{"a lasting yes", "ALWAYS", "always", approval(), false},
		{"a word that is no answer", "sure", "no", approval(), false},
		{"nothing", "", "no", approval(), false},
		{"a choice by its value", "b", "b", choice, false},
		{"a choice by its label", "bread", "b", choice, false},
		{"no choice", "cake", "", choice, true},
		{"any text", " as it is ", " as it is ", mercury.Question{Kind: "text"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := offered(tt.q, tt.said)
			if got != tt.want || (err != nil) != tt.bad {
				t.Errorf("offered(%q) = %q, %v", tt.said, got, err)
			}
		})
	}
}

func TestAnApprovalGrantsWhatWasSaid(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   func(q mercury.Question, runID string) store.Grant
	}{
		{"once", func(q mercury.Question, run string) store.Grant {
			return store.Grant{Rule: OnceRule("c1", "h1"), RunID: run, Once: true}
		}},
		{"run", func(q mercury.Question, run string) store.Grant { return store.Grant{Rule: "run ls", RunID: run} }},
		{"hour", func(q mercury.Question, run string) store.Grant {
			return store.Grant{Rule: "run ls", ExpiresAt: q.AnsweredAt.Add(time.Hour)}
		}},
		{"always", func(q mercury.Question, run string) store.Grant { return store.Grant{Rule: "run ls"} }},
		{"no", nil},
	} {
		t.Run(tt.answer, func(t *testing.T) {
			h := sqliteHome(t)
			q := approval()
			r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
			r.settle()
			p := r.say("m1", "go")
			r.untilRun(p.RunID, mercury.RunWaiting)
			q, err := r.answer(q.ID, tt.answer, owner)
			if err != nil {
				t.Fatal(err)
			}
			r.view(func(tx store.Tx) error {
				grants, err := tx.Grants(tx.Now())
				if tt.want == nil {
					if len(grants) != 0 {
						t.Errorf("grants = %+v", grants)
					}
					return err
				}
				want := tt.want(q, p.RunID)
				want.ID, want.Actor, want.GivenBy, want.Via, want.CreatedAt = GrantID(q.ID), owner, owner, q.ID, q.AnsweredAt
				if len(grants) != 1 || grants[0] != want {
					t.Errorf("grants = %+v, want %+v", grants, want)
				}
				return err
			})
		})
	}
}

func TestAQuestionThatNobodyAnswersCountsAsNo(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		q := approval()
		r := dir.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		start := time.Now()
		r.say("m1", "go")
		for range r.Bus().Subscribe(t.Context(), "") {
			if texts := r.texts(place); len(texts) == 2 {
				equal(t, "entries", texts, "user: go", "assistant: expired no")
				break
			}
		}
		if waited := time.Since(start); waited < 24*time.Hour || waited > 24*time.Hour+time.Minute {
			t.Errorf("it was settled after %v", waited)
		}
		r.stop()
		r.store.Close()
	})
}

func TestARunParkedUntilATimeGoesOnThen(t *testing.T) {
	dir := sqliteHome(t)
	synctest.Test(t, func(t *testing.T) {
		parked := false
		var woke time.Time
		over := make(chan bool)
		r := dir.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				if !parked {
					parked = true
					return w.Park(ctx, Park{Until: time.Now().Add(3 * time.Hour)}, nil)
				}
				woke = time.Now()
				defer close(over)
				return w.Settle(ctx, Outcome{}, nil)
			})
		})
		r.settle()
		start := time.Now()
		r.say("m1", "go")
		<-over
		if d := woke.Sub(start); d < 3*time.Hour || d > 3*time.Hour+time.Second {
			t.Errorf("woke after %v", d)
		}
		r.stop()
		r.store.Close()
	})
}

func TestAnAnswerCancelsCopiesOfTheQuestionThatHaveNotGoneOut(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		q := approval()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunWaiting)
		if _, err := r.answer(q.ID, "no", owner); err != nil {
			t.Fatal(err)
		}
		r.view(func(tx store.Tx) error {
			d, err := tx.FindDelivery(place, "question/"+q.ID)
			if d.State != mercury.DeliveryCancelled {
				t.Errorf("the question's delivery is %s", d.State)
			}
			return err
		})
	})
}

func TestAParkedRunFreesItsSlotAndKeepsItsConversation(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r := h.rig(t, Options{Lanes: map[mercury.Lane]int{mercury.Helper: 1}}, func(e *Engine) {
			e.Handle("wait", func(ctx context.Context, w *Work) error {
				if w.Run().Epoch > 1 {
					return w.Settle(ctx, Outcome{}, nil)
				}
				return w.Park(ctx, Park{Until: time.Now().Add(time.Hour)}, nil)
			})
			e.Handle("quick", func(ctx context.Context, w *Work) error { return w.Settle(ctx, Outcome{}, nil) })
		})
		r.settle()
		var parked, other mercury.Run
		r.update(func(t *Tx) (err error) {
			parked, err = t.Enqueue(NewRun{Kind: "wait", Lane: mercury.Helper, ConversationID: place})
			return err
		})
		r.untilRun(parked.ID, mercury.RunWaiting)
		r.update(func(t *Tx) (err error) {
			other, err = t.Enqueue(NewRun{Kind: "quick", Lane: mercury.Helper})
			return err
		})
		r.untilRun(other.ID, mercury.RunDone)
		err := r.Update(context.Background(), "test", func(t *Tx) error {
			_, err := t.Enqueue(NewRun{Kind: "quick", ConversationID: place})
			return err
		})
		if kindOf(err) != mercury.Conflict {
			t.Errorf("second run of the conversation: %v", err)
		}
	})
}

func TestAParentWakesWhenAllItsChildrenHaveEnded(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		results := make(chan int, 1)
		r := h.rig(t, Options{}, func(e *Engine) {
			e.Handle("turn", func(ctx context.Context, w *Work) error {
				var children []mercury.Run
				if err := w.View(ctx, func(tx store.Tx) (err error) {
					children, err = tx.Children(w.Run().ID)
					return err
				}); err != nil {
					return err
				}
				if len(children) == 0 {
					p := Park{}
					for range 3 {
						p.Children = append(p.Children, mercury.NewID("run"))
					}
					return w.Park(ctx, p, func(t *Tx) error {
						for _, id := range p.Children {
							if _, err := t.Enqueue(NewRun{ID: id, Kind: "child", Lane: mercury.Helper, ParentID: w.Run().ID}); err != nil {
								return err
							}
						}
						return nil
					})
				}
				n := 0
				for _, c := range children {
					if c.State == mercury.RunDone && string(c.Result) == `"mine"` {
						n++
					}
				}
				results <- n
				return w.Settle(ctx, Outcome{}, nil)
			})
			e.Handle("child", func(ctx context.Context, w *Work) error {
				return w.Settle(ctx, Outcome{Result: []byte(`"mine"`)}, nil)
			})
		})
		r.settle()
		r.say("m1", "go")
		if n := receive(t, results, "the parent to wake"); n != 3 {
			t.Errorf("the parent woke with %d results", n)
		}
	})
}

func TestAParkThatWaitsForNothingIsRefused(t *testing.T) {
	h := sqliteHome(t)
	onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
		if err := w.Park(ctx, Park{}, nil); kindOf(err) != mercury.Invalid {
			t.Errorf("park = %v", err)
		}
		return w.Settle(ctx, Outcome{}, nil)
	})
}

func TestQuestionsOutliveTheProcess(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		q := approval()
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		r.settle()
		p := r.say("m1", "go")
		r.untilRun(p.RunID, mercury.RunWaiting)
		r.kill()
		r = h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", asking(q)) })
		if _, err := r.answer(q.ID, "hour", owner); err != nil {
			t.Fatal(err)
		}
		r.untilRun(p.RunID, mercury.RunDone)
		equal(t, "entries", r.texts(place), "user: go", "assistant: answered hour")
		if _, err := r.answer(q.ID, "no", owner); kindOf(err) != mercury.Conflict {
			t.Errorf("late answer: %v", err)
		}
	})
}
