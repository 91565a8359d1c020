package sqlstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// PutHold also removes holds that have ended, so that they need no clean-up.
func (tx *Tx) PutHold(h store.Hold) error {
	if _, err := tx.exec("hold.over", micros(tx.Now())); err != nil {
		return err
	}
	_, err := tx.exec("hold.put", h.Key, micros(h.Until), h.Reason, h.By)
	return err
}

func (tx *Tx) DeleteHold(key string) error {
	return touched(tx.exec("hold.delete", key))
}

// Holds returns those that have not ended.
func (tx *Tx) Holds() ([]store.Hold, error) {
	rows, err := tx.query("hold.list", micros(tx.Now()))
	return all(tx, rows, err, func(s scanner) (h store.Hold, err error) {
		var until int64
		err = s.Scan(&h.Key, &until, &h.Reason, &h.By)
		h.Until = moment(until)
		return h, err
	})
}

func (tx *Tx) NextHoldEnd(now time.Time) (time.Time, bool, error) {
	return tx.earliest("hold.end", micros(now))
}

func (tx *Tx) PutProcess(p store.Process) error {
	_, err := tx.exec("process.put", p.ID, p.Node, p.Name, p.Version, p.Digest, micros(p.StartedAt),
		micros(p.LeaseUntil))
	return err
}

func (tx *Tx) Renew(id string, d time.Duration) error {
	now := tx.Now()
	n, err := tx.exec("process.renew", micros(now.Add(d)), id, micros(now))
	if err == nil && n == 0 {
		return fmt.Errorf("renew the lease of process %s: %w", id, store.ErrStale)
	}
	return err
}

func (tx *Tx) DeleteProcess(id string) error {
	_, err := tx.exec("process.delete", id)
	return err
}

func (tx *Tx) Processes() ([]store.Process, error) {
	rows, err := tx.query("process.list")
	return all(tx, rows, err, func(s scanner) (p store.Process, err error) {
		var started, until int64
		err = s.Scan(&p.ID, &p.Node, &p.Name, &p.Version, &p.Digest, &started, &until)
		p.StartedAt, p.LeaseUntil = moment(started), moment(until)
		return p, err
	})
}

func scanLease(s scanner) (l store.Lease, err error) {
	var until int64
	err = s.Scan(&l.Name, &l.Owner, &l.Epoch, &until)
	l.Until = moment(until)
	return l, err
}

// TakeLease keeps the epoch when a living owner renews and raises it at every
// other taking. With ErrStale it returns the lease of who has it.
func (tx *Tx) TakeLease(name, owner string, d time.Duration) (store.Lease, error) {
	if tx.readOnly {
		return store.Lease{}, errReadOnlyTx
	}
	now := tx.Now()
	rows, err := tx.query("lease.take", name, owner, micros(now.Add(d)), micros(now), micros(now))
	l, err := first(tx, rows, err, scanLease)
	if !errors.Is(err, store.ErrNotFound) {
		return l, err
	}
	rows, err = tx.query("lease.get", name)
	l, err = first(tx, rows, err, scanLease)
	if err != nil {
		return l, err
	}
	return l, fmt.Errorf("take lease %s: %s has it until %s: %w", name, l.Owner, l.Until.Format(time.RFC3339),
		store.ErrStale)
}

// DropLease frees a lease its owner has; one that another has meanwhile stays.
// The row remains, so the epoch goes on rising.
func (tx *Tx) DropLease(name, owner string) error {
	_, err := tx.exec("lease.drop", name, owner)
	return err
}

func (tx *Tx) ChannelState(name string) (store.ChannelState, error) {
	rows, err := tx.query("channel.get", name)
	return first(tx, rows, err, func(s scanner) (c store.ChannelState, err error) {
		var data string
		err = s.Scan(&c.Name, &c.Cursor, &c.Epoch, &data)
		c.Data = raw(data)
		return c, err
	})
}

func (tx *Tx) SaveChannelState(s store.ChannelState) error {
	n, err := tx.exec("channel.put", s.Name, s.Cursor, s.Epoch, string(s.Data))
	if err == nil && n == 0 {
		return fmt.Errorf("save the place of channel %s: %w", s.Name, store.ErrStale)
	}
	return err
}

func (tx *Tx) MetaValue(key string) (string, error) {
	var v string
	err := tx.one("meta.get", []any{key}, &v)
	return v, err
}

func (tx *Tx) SetMeta(key, value string) error {
	_, err := tx.exec("meta.put", key, value)
	return err
}
