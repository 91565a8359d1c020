package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func (tx *Tx) PutLedger(r store.LedgerRow) error {
	_, err := tx.exec("ledger.put", r.ID, r.RunID, r.ConversationID, r.Profile, r.Purpose, r.Provider, r.Model,
		r.State, r.Usage.Input, r.Usage.Output, r.Usage.Cached, r.Usage.CacheWrite, r.Usage.Reasoning,
		flag(r.Usage.Estimated), micros(r.At))
	return err
}

// SumUsage orders the groups by name. Rows still reserved count with what was
// reserved and make their group estimated.
func (tx *Tx) SumUsage(by string, from, to time.Time, zone *time.Location) ([]store.UsageSum, error) {
	name := "ledger.sum." + by
	switch by {
	case "":
		name = "ledger.sum.all"
	case "day":
		return tx.sumDays(from, to, zone)
	case "model", "source", "conversation", "profile", "purpose":
	case "conversation source", "profile source", "purpose source":
		name = "ledger.sum." + strings.ReplaceAll(by, " ", ".")
	default:
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("sum usage by %q: no such group", by)}
	}
	rows, err := tx.query(name, micros(from), end(to))
	sums, err := all(tx, rows, err, func(s scanner) (store.UsageSum, error) {
		var u store.UsageSum
		err := scanUsage(s, &u.Group, &u)
		return u, err
	})
	slices.SortFunc(sums, func(a, b store.UsageSum) int { return strings.Compare(a.Group, b.Group) })
	return sums, err
}

func (tx *Tx) FirstReserved(from, to time.Time) (time.Time, bool, error) {
	return tx.earliest("ledger.reserved", micros(from), end(to))
}

func scanUsage(s scanner, group any, u *store.UsageSum) error {
	var estimated int64
	err := s.Scan(group, &u.Calls, &u.Usage.Input, &u.Usage.Output, &u.Usage.Cached, &u.Usage.CacheWrite,
		&u.Usage.Reasoning, &estimated)
	u.Usage.Estimated = estimated != 0
	return err
}

// sumDays folds quarters of an hour into the days of a zone.
func (tx *Tx) sumDays(from, to time.Time, zone *time.Location) ([]store.UsageSum, error) {
	if zone == nil {
		zone = time.UTC
	}
	type quarter struct {
		n   int64
		sum store.UsageSum
	}
	rows, err := tx.query("ledger.sum.quarter", micros(from), end(to))
	quarters, err := all(tx, rows, err, func(s scanner) (q quarter, err error) {
		err = scanUsage(s, &q.n, &q.sum)
		return q, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(quarters, func(a, b quarter) int { return cmp.Compare(a.n, b.n) })
	var days []store.UsageSum
	for _, q := range quarters {
		day := time.Unix(q.n*900, 0).In(zone).Format(time.DateOnly)
		if len(days) == 0 || days[len(days)-1].Group != day {
			days = append(days, store.UsageSum{Group: day})
		}
		last := &days[len(days)-1]
		last.Calls += q.sum.Calls
		last.Usage = last.Usage.Add(q.sum.Usage)
	}
	return days, nil
}

// end is the open end of a range; the zero time has none.
func end(t time.Time) int64 {
	if t.IsZero() {
		return everything
	}
	return micros(t)
}

func scanGrant(s scanner) (store.Grant, error) {
	var g store.Grant
	var r reader
	var actor, givenBy string
	var once, created, expires, revoked int64
	err := s.Scan(&g.ID, &actor, &g.Rule, &g.RunID, &once, &givenBy, &g.Via, &created, &expires, &revoked)
	if err != nil {
		return g, err
	}
	r.decode(actor, &g.Actor)
	r.decode(givenBy, &g.GivenBy)
	g.Once = once != 0
	g.CreatedAt, g.ExpiresAt, g.RevokedAt = moment(created), moment(expires), moment(revoked)
	return g, r.err
}

func (tx *Tx) InsertGrant(g store.Grant) error {
	return inserted(tx.exec("grant.insert", g.ID, encode(g.Actor), g.Rule, g.RunID, flag(g.Once), encode(g.GivenBy),
		g.Via, micros(g.CreatedAt), micros(g.ExpiresAt), micros(g.RevokedAt)))
}

func (tx *Tx) Grants(now time.Time) ([]store.Grant, error) {
	rows, err := tx.query("grant.live", micros(now))
	return all(tx, rows, err, scanGrant)
}

// RevokeGrant leaves a grant that has ended as it is.
func (tx *Tx) RevokeGrant(id string, at time.Time) error {
	n, err := tx.exec("grant.end", micros(at), id)
	if err != nil || n > 0 {
		return err
	}
	known, err := tx.exists("grant.exists", id)
	if err == nil && !known {
		return store.ErrNotFound
	}
	return err
}

func (tx *Tx) UseGrant(id string, at time.Time) error {
	n, err := tx.exec("grant.end", micros(at), id)
	if err != nil || n > 0 {
		return err
	}
	known, err := tx.exists("grant.exists", id)
	if err != nil {
		return err
	}
	if !known {
		return store.ErrNotFound
	}
	return fmt.Errorf("use grant %s: %w", id, store.ErrStale)
}

func (tx *Tx) Audit(a store.AuditRow) error {
	if a.ID == "" {
		a.ID = mercury.NewID("au")
	}
	if a.At.IsZero() {
		a.At = tx.Now()
	}
	_, err := tx.exec("audit.insert", a.ID, micros(a.At), encode(a.Actor), a.Act, a.Subject, a.Verdict, a.Rule, a.Detail)
	return err
}

func (tx *Tx) AuditRows(p store.Page) ([]store.AuditRow, string, error) {
	n, err := before(p)
	if err != nil {
		return nil, "", err
	}
	size := limit(p)
	rows, err := tx.query("audit.list", n, size+1)
	found, err := all(tx, rows, err, numberedRow(scanAudit))
	if err != nil {
		return nil, "", err
	}
	out, next := cut(found, size)
	return out, next, nil
}

func scanAudit(s scanner) (store.AuditRow, error) {
	var a store.AuditRow
	var r reader
	var actor string
	var at int64
	if err := s.Scan(&a.ID, &at, &actor, &a.Act, &a.Subject, &a.Verdict, &a.Rule, &a.Detail); err != nil {
		return a, err
	}
	r.decode(actor, &a.Actor)
	a.At = moment(at)
	return a, r.err
}
