package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func newDelivery(id, address string, state mercury.DeliveryState) mercury.Delivery {
	return mercury.Delivery{ID: id, Address: address, ConversationID: "telegram/1", RequestID: "rq" + id,
		Kind: mercury.AnswerDelivery, Text: "text", State: state, CreatedAt: at(0)}
}

func insertDeliveries(t testing.TB, s store.Store, list ...mercury.Delivery) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		for _, d := range list {
			if err := tx.InsertDelivery(d); err != nil {
				return fmt.Errorf("%s: %w", d.ID, err)
			}
		}
		return nil
	})
}

// next is the id of the delivery to work on next; "" when there is none.
func next(t testing.TB, s store.Store, now time.Time, channels ...string) string {
	t.Helper()
	var d mercury.Delivery
	err := s.Update(context.Background(), func(tx store.Tx) (err error) {
		d, err = tx.NextDelivery(channels, now)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("next delivery: %v", err)
	}
	return d.ID
}

func setState(t testing.TB, s store.Store, id string, state mercury.DeliveryState) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		d, err := tx.LockDelivery(id)
		if err != nil {
			return err
		}
		d.State = state
		return tx.SaveDelivery(d)
	})
}

var deliveryTests = map[string]func(*testing.T, Home, store.Store){
	"a delivery is read as it was written": func(t *testing.T, _ Home, s store.Store) {
		file := mercury.File{Name: "a", Path: "/a", Size: 3}
		d := mercury.Delivery{ID: "dl_1", Address: "telegram/1", ConversationID: "telegram/1", RunID: "run_1",
			RequestID: "rq", Digest: "dg", Kind: mercury.QuestionDelivery, EntrySeq: 4, QuestionID: "qu_1",
			Text: "hello", Files: []mercury.File{file}, State: mercury.DeliverySending, Reason: "why",
			SupersededBy: "dl_2", Receipt: "r", NotBefore: at(1), Attempts: 2,
			Parts: []mercury.Part{
				{N: 1, Text: "he", State: mercury.DeliverySent, AttemptID: "a1", Owner: "p", Receipt: "r1", At: at(2)},
				{N: 2, File: &file, State: mercury.DeliverySending, AttemptID: "a2", Owner: "p", Error: "e", At: at(3)},
			}, CreatedAt: at(0), SettledAt: at(9)}
		insertDeliveries(t, s, d)
		check := func(what string) {
			t.Helper()
			update(t, s, func(tx store.Tx) error {
				got, err := tx.Delivery("dl_1")
				same(t, what, got, d)
				locked, err2 := tx.LockDelivery("dl_1")
				same(t, what+" locked", locked, d)
				found, err3 := tx.FindDelivery(d.Address, d.RequestID)
				same(t, what+" found", found, d)
				return errors.Join(err, err2, err3)
			})
		}
		check("delivery")
		d.State, d.Parts[1].State, d.Parts[1].Receipt, d.Files = mercury.DeliverySent, mercury.DeliverySent, "r2", nil
		update(t, s, func(tx store.Tx) error { return tx.SaveDelivery(d) })
		check("saved")
		for _, id := range []string{"x", ""} {
			fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Delivery(id); return err })
			fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.LockDelivery(id); return err })
		}
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.FindDelivery("a", "b"); return err })
	},
	"a request is one delivery per address": func(t *testing.T, _ Home, s store.Store) {
		for round := range 10 {
			oneWins(t, race(8, func(i int) error {
				d := newDelivery(fmt.Sprintf("dl_%d_%d", round, i), "telegram/1", mercury.DeliveryPending)
				d.RequestID = fmt.Sprint(round)
				return s.Update(context.Background(), func(tx store.Tx) error { return tx.InsertDelivery(d) })
			}))
		}
		other := newDelivery("dl_other", "telegram/2", mercury.DeliveryPending)
		other.RequestID = "0"
		insertDeliveries(t, s, other)
	},
	"the next delivery is the oldest of an address that nothing older blocks": func(t *testing.T, _ Home, s store.Store) {
		later := newDelivery("dl_later", "telegram/3", mercury.DeliveryPending)
		later.NotBefore = at(50)
		insertDeliveries(t, s,
			newDelivery("dl_a1", "telegram/1", mercury.DeliveryPending),
			newDelivery("dl_a2", "telegram/1", mercury.DeliveryPending),
			newDelivery("dl_b1", "telegram/2", mercury.DeliverySending),
			newDelivery("dl_b2", "telegram/2", mercury.DeliveryPending),
			later,
			newDelivery("dl_c2", "telegram/3", mercury.DeliveryPending),
			newDelivery("dl_s1", "slack/1", mercury.DeliveryPending),
			newDelivery("dl_h1", "telegram/4", mercury.DeliveryHeld),
			newDelivery("dl_h2", "telegram/4", mercury.DeliveryPending),
		)
		same(t, "no channel", next(t, s, at(0)), "")
		same(t, "first", next(t, s, at(0), "telegram"), "dl_a1")
		setState(t, s, "dl_a1", mercury.DeliverySent)
		same(t, "second", next(t, s, at(0), "telegram", "slack"), "dl_a2")
		setState(t, s, "dl_a2", mercury.DeliveryUnknown)
		same(t, "a held one does not block", next(t, s, at(0), "telegram"), "dl_h2")
		setState(t, s, "dl_h2", mercury.DeliverySent)
		same(t, "one sending and one not due block", next(t, s, at(0), "telegram"), "")
		same(t, "other channel", next(t, s, at(0), "slack"), "dl_s1")
		same(t, "due", next(t, s, at(50), "telegram"), "dl_later")
		view(t, s, func(tx store.Tx) error {
			due, ok, err := tx.NextDeliveryDue([]string{"telegram"}, at(0))
			same(t, "due", []any{due, ok}, []any{at(50), true})
			_, ok, err2 := tx.NextDeliveryDue([]string{"slack"}, at(0))
			same(t, "due elsewhere", ok, false)
			return errors.Join(err, err2)
		})
	},
	"answers of a conversation are found": func(t *testing.T, _ Home, s store.Store) {
		notice := newDelivery("dl_notice", "telegram/1", mercury.DeliveryHeld)
		notice.Kind = mercury.NoticeDelivery
		away := newDelivery("dl_away", "telegram/1", mercury.DeliveryHeld)
		away.ConversationID = "telegram/2"
		insertDeliveries(t, s,
			newDelivery("dl_1", "telegram/1", mercury.DeliveryHeld),
			newDelivery("dl_2", "telegram/1", mercury.DeliverySent),
			newDelivery("dl_3", "telegram/1", mercury.DeliveryPending),
			newDelivery("dl_4", "telegram/1", mercury.DeliverySending),
			notice, away)
		view(t, s, func(tx store.Tx) error {
			held, err := tx.HeldAnswers("telegram/1")
			same(t, "held and pending", ids(held, deliveryID), []string{"dl_1", "dl_3"})
			recent, err2 := tx.RecentAnswers("telegram/1", 3)
			same(t, "recent", ids(recent, deliveryID), []string{"dl_4", "dl_3", "dl_2"})
			counts, err3 := tx.CountDeliveries()
			same(t, "held", counts[mercury.DeliveryHeld], 3)
			same(t, "pending", counts[mercury.DeliveryPending], 1)
			return errors.Join(err, err2, err3)
		})
	},
	"what is being sent is found by who sends it": func(t *testing.T, _ Home, s store.Store) {
		var now time.Time
		update(t, s, func(tx store.Tx) error {
			now = tx.Now()
			return errors.Join(tx.PutProcess(store.Process{ID: "alive", LeaseUntil: now.Add(time.Minute)}),
				tx.PutProcess(store.Process{ID: "over", LeaseUntil: now.Add(-time.Minute)}))
		})
		for _, owner := range []string{"alive", "over", "gone"} {
			d := newDelivery("dl_"+owner, "telegram/"+owner, mercury.DeliverySending)
			d.Parts = []mercury.Part{{N: 1, State: mercury.DeliverySent, Owner: "before"},
				{N: 2, State: mercury.DeliverySending, Owner: owner}}
			insertDeliveries(t, s, d)
		}
		view(t, s, func(tx store.Tx) error {
			mine, err := tx.SendingBy("alive", now)
			same(t, "mine", ids(mine, deliveryID), []string{"dl_alive"})
			dead, err2 := tx.SendingBy("", now)
			same(t, "of the dead", ids(dead, deliveryID), []string{"dl_over", "dl_gone"})
			none, err3 := tx.SendingBy("before", now)
			same(t, "of one that sent", len(none), 0)
			return errors.Join(err, err2, err3)
		})
	},
	"deliveries are listed newest first, filtered, in pages": func(t *testing.T, _ Home, s store.Store) {
		for i := range 5 {
			d := newDelivery(fmt.Sprint("dl_", i), fmt.Sprint("telegram/", i%2), mercury.DeliverySent)
			d.ConversationID, d.RunID = fmt.Sprint("c/", i%3), fmt.Sprint("run_", i/3)
			if i == 1 {
				d.State = mercury.DeliveryUnknown
			}
			insertDeliveries(t, s, d)
		}
		for name, tt := range map[string]struct {
			filter store.DeliveryFilter
			want   []string
		}{
			"all":          {store.DeliveryFilter{}, []string{"dl_4", "dl_3", "dl_2", "dl_1", "dl_0"}},
			"address":      {store.DeliveryFilter{Address: "telegram/1"}, []string{"dl_3", "dl_1"}},
			"conversation": {store.DeliveryFilter{ConversationID: "c/1"}, []string{"dl_4", "dl_1"}},
			"run":          {store.DeliveryFilter{RunID: "run_1"}, []string{"dl_4", "dl_3"}},
			"unknown":      {store.DeliveryFilter{States: []mercury.DeliveryState{mercury.DeliveryUnknown}}, []string{"dl_1"}},
			"sent": {store.DeliveryFilter{States: []mercury.DeliveryState{mercury.DeliverySent}},
				[]string{"dl_4", "dl_3", "dl_2", "dl_0"}},
		} {
			got := []string{}
			for pages := 0; pages < 10; pages++ {
				tt.filter.Limit = 2
				view(t, s, func(tx store.Tx) error {
					list, next, err := tx.Deliveries(tt.filter)
					got = append(got, ids(list, deliveryID)...)
					tt.filter.After = next
					return err
				})
				if tt.filter.After == "" {
					break
				}
			}
			same(t, name, got, tt.want)
		}
	},
}

var questionTests = map[string]func(*testing.T, Home, store.Store){
	"a question is read as it was written": func(t *testing.T, _ Home, s store.Store) {
		q := mercury.Question{ID: "qu_1", RunID: "run_1", ConversationID: "local/a", CallID: "c", Kind: "approval",
			Title: "t", Body: "b", Choices: []mercury.Choice{{Value: "v", Label: "l"}},
			Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: "ls", Argv: []string{"ls", "-l"}, Dir: "/"}},
			Hash:     "h", Rule: "r", Always: "a", AskedBy: owner, Answerers: []mercury.Role{mercury.Owner, mercury.Admin},
			State: mercury.QuestionOpen, CreatedAt: at(0), ExpiresAt: at(100)}
		check := func(what string) {
			t.Helper()
			update(t, s, func(tx store.Tx) error {
				got, err := tx.Question("qu_1")
				same(t, what, got, q)
				locked, err2 := tx.LockQuestion("qu_1")
				same(t, what+" locked", locked, q)
				return errors.Join(err, err2)
			})
		}
		update(t, s, func(tx store.Tx) error { return tx.InsertQuestion(q) })
		check("open")
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertQuestion(q) })
		q.State, q.Answer, q.AnsweredBy, q.AnsweredVia, q.AnsweredAt = mercury.QuestionAnswered, "once", owner, "local", at(5)
		update(t, s, func(tx store.Tx) error { return tx.SaveQuestion(q) })
		check("answered")
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.Question("x"); return err })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.SaveQuestion(mercury.Question{ID: "x"}) })
	},
	"open and expired questions are found": func(t *testing.T, _ Home, s store.Store) {
		view(t, s, func(tx store.Tx) error {
			_, ok, err := tx.NextExpiry()
			same(t, "expiry of nothing", ok, false)
			return err
		})
		for i, q := range []mercury.Question{
			{ConversationID: "a", State: mercury.QuestionOpen, ExpiresAt: at(20)},
			{ConversationID: "b", State: mercury.QuestionOpen, ExpiresAt: at(10)},
			{ConversationID: "a", State: mercury.QuestionAnswered, ExpiresAt: at(5)},
			{ConversationID: "a", State: mercury.QuestionOpen},
		} {
			q.ID, q.RunID = fmt.Sprint("qu_", i), fmt.Sprint("run_", i%2)
			update(t, s, func(tx store.Tx) error { return tx.InsertQuestion(q) })
		}
		id := func(q mercury.Question) string { return q.ID }
		view(t, s, func(tx store.Tx) error {
			all, err := tx.OpenQuestions("")
			same(t, "open", ids(all, id), []string{"qu_0", "qu_1", "qu_3"})
			mine, err2 := tx.OpenQuestions("a")
			same(t, "open in one", ids(mine, id), []string{"qu_0", "qu_3"})
			runs, err3 := tx.RunQuestions("run_0")
			same(t, "of a run", ids(runs, id), []string{"qu_0", "qu_2"})
			expired, err4 := tx.ExpiredQuestions(at(20), 10)
			same(t, "expired", ids(expired, id), []string{"qu_1", "qu_0"})
			when, ok, err5 := tx.NextExpiry()
			same(t, "expiry", []any{when, ok}, []any{at(10), true})
			list, after, err6 := tx.QuestionsList(store.Page{Limit: 3})
			same(t, "page", ids(list, id), []string{"qu_3", "qu_2", "qu_1"})
			rest, after, err7 := tx.QuestionsList(store.Page{Limit: 3, After: after})
			same(t, "rest", append(ids(rest, id), after), []string{"qu_0", ""})
			return errors.Join(err, err2, err3, err4, err5, err6, err7)
		})
	},
}
