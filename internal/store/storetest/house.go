package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

var processTests = map[string]func(*testing.T, Home, store.Store){
	"holds are kept until they end": func(t *testing.T, _ Home, s store.Store) {
		soon, gone := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond), time.Now().UTC().Add(-time.Hour)
		want := []store.Hold{{Key: "bot/a", Until: soon, Reason: "r", By: "me"}, {Key: "bot/b", Reason: "mine"}}
		update(t, s, func(tx store.Tx) error {
			for _, h := range append([]store.Hold{{Key: "bot/gone", Until: gone}, {Key: "bot/a"}}, want...) {
				if err := tx.PutHold(h); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Holds()
			same(t, "holds", got, want)
			end, ok, err2 := tx.NextHoldEnd(time.Now())
			same(t, "end", []any{end, ok}, []any{soon, true})
			_, ok, err3 := tx.NextHoldEnd(soon)
			same(t, "none ends later", ok, false)
			return errors.Join(err, err2, err3)
		})
		update(t, s, func(tx store.Tx) error { return tx.DeleteHold("bot/b") })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.DeleteHold("bot/b") })
	},
	"a process renews its lease until it is over": func(t *testing.T, _ Home, s store.Store) {
		var now time.Time
		p := store.Process{ID: "proc_1", Node: "n", Name: "host 1", Version: "v", Digest: "d", StartedAt: at(0)}
		update(t, s, func(tx store.Tx) error {
			now = tx.Now()
			p.LeaseUntil = now.Add(time.Minute)
			return tx.PutProcess(p)
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Processes()
			same(t, "processes", got, []store.Process{p})
			return err
		})
		update(t, s, func(tx store.Tx) error { return tx.Renew("proc_1", time.Hour) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Processes()
			if until := got[0].LeaseUntil; until.Before(now.Add(time.Hour)) {
				t.Errorf("renewed until %v", until)
			}
			return err
		})
		p.LeaseUntil = now.Add(-time.Second)
		update(t, s, func(tx store.Tx) error { return tx.PutProcess(p) })
		fails(t, s, store.ErrStale, func(tx store.Tx) error { return tx.Renew("proc_1", time.Hour) })
		update(t, s, func(tx store.Tx) error { return tx.DeleteProcess("proc_1") })
		fails(t, s, store.ErrStale, func(tx store.Tx) error { return tx.Renew("proc_1", time.Hour) })
	},
	"a lease has one owner and a rising epoch": func(t *testing.T, _ Home, s store.Store) {
		take := func(owner string, d time.Duration) (l store.Lease, err error) {
			err = s.Update(t.Context(), func(tx store.Tx) (err error) {
				l, err = tx.TakeLease("poll", owner, d)
				return err
			})
			return l, err
		}
		first, err := take("a", time.Hour)
		if err != nil || first.Owner != "a" || first.Epoch != 1 {
			t.Fatalf("first: %+v, %v", first, err)
		}
		again, err := take("a", 2*time.Hour)
		if err != nil || again.Epoch != 1 || !again.Until.After(first.Until) {
			t.Errorf("its own again: %+v, %v", again, err)
		}
		other, err := take("b", time.Hour)
		if !errors.Is(err, store.ErrStale) || other.Owner != "a" {
			t.Errorf("someone else's: %+v, %v", other, err)
		}
		update(t, s, func(tx store.Tx) error { return tx.DropLease("poll", "b") }) // not its own: nothing
		if _, err := take("b", time.Hour); !errors.Is(err, store.ErrStale) {
			t.Errorf("after another's drop: %v", err)
		}
		update(t, s, func(tx store.Tx) error { return tx.DropLease("poll", "a") })
		second, err := take("b", -time.Second)
		if err != nil || second.Epoch != 2 || second.Owner != "b" {
			t.Errorf("freed: %+v, %v", second, err)
		}
		third, err := take("b", time.Hour)
		if err != nil || third.Epoch != 3 {
			t.Errorf("after its own was over: %+v, %v", third, err)
		}
	},
	"a channel's place is not set back by a former owner": func(t *testing.T, _ Home, s store.Store) {
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.ChannelState("telegram"); return err })
		save := func(cursor string, epoch int64) error {
			return s.Update(t.Context(), func(tx store.Tx) error {
				return tx.SaveChannelState(store.ChannelState{Name: "telegram", Cursor: cursor, Epoch: epoch,
					Data: json.RawMessage(`{"a":1}`)})
			})
		}
		for _, tt := range []struct {
			cursor string
			epoch  int64
			want   error
		}{{"10", 2, nil}, {"11", 2, nil}, {"12", 3, nil}, {"5", 2, store.ErrStale}} {
			if err := save(tt.cursor, tt.epoch); !errors.Is(err, tt.want) {
				t.Errorf("%s under %d: %v, want %v", tt.cursor, tt.epoch, err, tt.want)
			}
		}
		view(t, s, func(tx store.Tx) error {
			got, err := tx.ChannelState("telegram")
			same(t, "state", got, store.ChannelState{Name: "telegram", Cursor: "12", Epoch: 3, Data: json.RawMessage(`{"a":1}`)})
			return err
		})
	},
	"a fact is one value": func(t *testing.T, _ Home, s store.Store) {
		mustMiss(t, s, "boots")
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.SetMeta("boots", "1"), tx.SetMeta("boots", "2")) })
		view(t, s, func(tx store.Tx) error {
			v, err := tx.MetaValue("boots")
			same(t, "value", v, "2")
			return err
		})
	},
}

var ledgerTests = map[string]func(*testing.T, Home, store.Store){
	"usage is summed by what is asked": func(t *testing.T, _ Home, s store.Store) {
		row := func(i int, model, conversation string, when time.Time, state string) store.LedgerRow {
			return store.LedgerRow{ID: fmt.Sprint("lg_", i), RunID: "run", ConversationID: conversation, Profile: "p",
				Purpose: "turn", Provider: "x", Model: model, State: state, At: when,
				Usage: mercury.Usage{Input: 100, Output: 10, Cached: 5, CacheWrite: 2, Reasoning: 1}}
		}
		midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
		update(t, s, func(tx store.Tx) error {
			for _, r := range []store.LedgerRow{
				row(1, "m1", "a", midnight.Add(-2*time.Hour), "settled"),
				row(2, "m1", "b", midnight.Add(-time.Microsecond), "settled"),
				row(3, "m2", "a", midnight, "reserved"),
				row(4, "m2", "a", midnight.Add(24*time.Hour), "settled"),
			} {
				if err := tx.PutLedger(r); err != nil {
					return err
				}
			}
			settled := row(1, "m1", "a", midnight.Add(-2*time.Hour), "settled")
			settled.Usage.Input = 200
			return tx.PutLedger(settled)
		})
		kathmandu := time.FixedZone("+05:45", 5*3600+45*60)
		for name, tt := range map[string]struct {
			by   string
			from time.Time
			to   time.Time
			zone *time.Location
			want []string
		}{
			"all":          {"", time.Time{}, time.Time{}, nil, []string{" 4 500 estimated"}},
			"none":         {"", at(0).AddDate(1, 0, 0), time.Time{}, nil, []string{}},
			"model":        {"model", time.Time{}, time.Time{}, nil, []string{"m1 2 300", "m2 2 200 estimated"}},
			"source":       {"source", time.Time{}, time.Time{}, nil, []string{"x/m1 2 300", "x/m2 2 200 estimated"}},
			"conversation": {"conversation", time.Time{}, time.Time{}, nil, []string{"a 3 400 estimated", "b 1 100"}},
			"profile":      {"profile", time.Time{}, time.Time{}, nil, []string{"p 4 500 estimated"}},
			"purpose":      {"purpose", time.Time{}, time.Time{}, nil, []string{"turn 4 500 estimated"}},
			"by both":      {"conversation source", time.Time{}, time.Time{}, nil, []string{"a x/m1 1 200", "a x/m2 2 200 estimated", "b x/m1 1 100"}},
			"half open":    {"", midnight.Add(-time.Microsecond), midnight, nil, []string{" 1 100"}},
			"day": {"day", time.Time{}, time.Time{}, time.UTC,
				[]string{"2026-03-01 2 300", "2026-03-02 1 100 estimated", "2026-03-03 1 100"}},
			"day elsewhere": {"day", time.Time{}, midnight.Add(time.Hour), kathmandu,
				[]string{"2026-03-02 3 400 estimated"}},
		} {
			view(t, s, func(tx store.Tx) error {
				sums, err := tx.SumUsage(tt.by, tt.from, tt.to, tt.zone)
				same(t, name, ids(sums, func(u store.UsageSum) string {
					text := fmt.Sprint(u.Group, " ", u.Calls, " ", u.Usage.Input)
					if u.Usage.Estimated {
						text += " estimated"
					}
					return text
				}), tt.want)
				return err
			})
		}
		view(t, s, func(tx store.Tx) error {
			for name, tt := range map[string]struct {
				from, to time.Time
				want     time.Time
			}{
				"oldest reserved":       {time.Time{}, time.Time{}, midnight},
				"reserved from then on": {midnight, time.Time{}, midnight},
				"reserved before":       {midnight.Add(-24 * time.Hour), midnight, time.Time{}},
			} {
				at, found, err := tx.FirstReserved(tt.from, tt.to)
				if err != nil {
					return err
				}
				same(t, name, at, tt.want)
				same(t, name+", found", found, !tt.want.IsZero())
			}
			return nil
		})
		err := s.View(t.Context(), func(tx store.Tx) error {
			_, err := tx.SumUsage("colour", time.Time{}, time.Time{}, nil)
			return err
		})
		same(t, "kind of an unknown group", mercury.KindOf(err), mercury.Invalid)
	},
}

var rightsTests = map[string]func(*testing.T, Home, store.Store){
	"a grant lives until it is used, revoked or over": func(t *testing.T, _ Home, s store.Store) {
		g := store.Grant{ID: "gr_1", Actor: mercury.Actor{Role: mercury.BotRole, ID: "x"}, Rule: "run ls", RunID: "run_1",
			Once: true, GivenBy: owner, Via: "qu_1", CreatedAt: at(0), ExpiresAt: at(100)}
		lasting := store.Grant{ID: "gr_2", Actor: owner, Rule: "fetch x", GivenBy: owner, CreatedAt: at(1)}
		update(t, s, func(tx store.Tx) error { return errors.Join(tx.InsertGrant(g), tx.InsertGrant(lasting)) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error { return tx.InsertGrant(g) })
		expect := func(now int, want ...store.Grant) {
			t.Helper()
			view(t, s, func(tx store.Tx) error {
				got, err := tx.Grants(at(now))
				same(t, "live", got, want)
				return err
			})
		}
		expect(50, g, lasting)
		expect(100, lasting)
		update(t, s, func(tx store.Tx) error { return tx.UseGrant("gr_1", at(20)) })
		fails(t, s, store.ErrStale, func(tx store.Tx) error { return tx.UseGrant("gr_1", at(21)) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.UseGrant("x", at(21)) })
		expect(50, lasting)
		update(t, s, func(tx store.Tx) error { return tx.RevokeGrant("gr_2", at(30)) })
		update(t, s, func(tx store.Tx) error { return tx.RevokeGrant("gr_2", at(31)) })
		fails(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.RevokeGrant("x", at(21)) })
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Grants(at(0))
			same(t, "live", len(got), 0)
			return err
		})
	},
	"the audit is kept, newest first": func(t *testing.T, _ Home, s store.Store) {
		var want []store.AuditRow
		for i := range 5 {
			row := store.AuditRow{ID: fmt.Sprint("au_", i), At: at(i), Actor: owner, Act: "judge", Subject: "run_1",
				Verdict: "deny", Rule: "r", Detail: "d"}
			want = append([]store.AuditRow{row}, want...)
			update(t, s, func(tx store.Tx) error { return tx.Audit(row) })
		}
		view(t, s, func(tx store.Tx) error {
			list, after, err := tx.AuditRows(store.Page{Limit: 3})
			same(t, "page", list, want[:3])
			rest, after, err2 := tx.AuditRows(store.Page{Limit: 3, After: after})
			same(t, "rest", rest, want[3:])
			same(t, "end", after, "")
			return errors.Join(err, err2)
		})
	},
}
