package sqlstore

import (
	"errors"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/words"
)

func scanMemory(s scanner) (store.Memory, error) {
	var m store.Memory
	var r reader
	var sources, taint, actor string
	var created, seen, changed int64
	err := s.Scan(&m.ID, &m.Scope, &m.Kind, &m.Summary, &m.Detail, &m.Tier, &m.State, &m.Confidence, &m.Importance,
		&m.Durability, &m.Evidence, &m.Learned, &sources, &taint, &m.Rival, &actor, &m.RunID, &created, &seen, &changed)
	if err != nil {
		return m, err
	}
	r.decode(sources, &m.Sources)
	r.decode(taint, &m.Taint)
	r.decode(actor, &m.Actor)
	m.CreatedAt, m.SeenAt, m.ChangedAt = moment(created), moment(seen), moment(changed)
	return m, r.err
}

// memoryValues are the columns of a memory but its id, and its words.
func (tx *Tx) memoryValues(m store.Memory) []any {
	return []any{m.Scope, m.Kind, m.Summary, m.Detail, m.Tier, m.State, m.Confidence, m.Importance, m.Durability,
		int64(m.Evidence), m.Learned, encodeList(m.Sources), encodeList(m.Taint), m.Rival, encode(m.Actor), m.RunID,
		micros(m.CreatedAt), micros(m.SeenAt), micros(m.ChangedAt), tx.memoryForms(m.State, m.Summary, m.Detail)}
}

// memoryForms are the forms a memory is found by; empty where an index beside
// the database has them.
func (tx *Tx) memoryForms(state, summary, detail string) string {
	if !tx.dialect.shared || state != store.MemoryLive {
		return ""
	}
	return strings.Join(words.Tokens(summary+"\n"+detail), " ")
}

func (tx *Tx) InsertMemory(m store.Memory) error {
	if m.CreatedAt.IsZero() {
		m.CreatedAt = tx.Now()
	}
	return inserted(tx.exec("memory.insert", append([]any{m.ID}, tx.memoryValues(m)...)...))
}

func (tx *Tx) SaveMemory(m store.Memory) error {
	return touched(tx.exec("memory.save", append(tx.memoryValues(m), m.ID)...))
}

func (tx *Tx) Memory(id string) (store.Memory, error) {
	rows, err := tx.query("memory.get", id)
	return first(tx, rows, err, scanMemory)
}

func (tx *Tx) Memories(f store.MemoryFilter) ([]store.Memory, string, error) {
	at, err := before(f.Page)
	if err != nil {
		return nil, "", err
	}
	if len(f.States) == 0 {
		f.States = []string{store.MemoryLive}
	}
	text, args := tx.dialect.query("memory.list"), []any{at}
	for _, c := range []struct {
		column string
		values list
	}{{"scope", one(f.Scope)}, {"kind", f.Kinds}, {"tier", f.Tiers}, {"state", f.States}} {
		if len(c.values) > 0 {
			text += " AND " + c.column + " IN (?)"
			args = append(args, c.values)
		}
	}
	size := limit(f.Page)
	rows, err := tx.queryText(text+"\n"+tx.dialect.query("memory.list.end"), append(args, size+1)...)
	found, err := all(tx, rows, err, numberedRow(scanMemory))
	if err != nil {
		return nil, "", err
	}
	page, next := cut(found, size)
	return page, next, nil
}

// one is a list of one value, or none.
func one(s string) list {
	if s == "" {
		return nil
	}
	return list{s}
}

func (tx *Tx) BestMemories(scope string, kinds []string, since time.Time, limit int) ([]store.Memory, error) {
	rows, err := tx.query("memory.best", scope, list(kinds), micros(since), limit)
	return all(tx, rows, err, scanMemory)
}

func (tx *Tx) StaleMemories(scope string, since time.Time, limit int) ([]store.Memory, error) {
	rows, err := tx.query("memory.stale", scope, micros(since), limit)
	return all(tx, rows, err, scanMemory)
}

func (tx *Tx) CountMemories(scope string) ([]store.MemoryCount, error) {
	rows, err := tx.query("memory.count", scope)
	return all(tx, rows, err, func(s scanner) (store.MemoryCount, error) {
		var c store.MemoryCount
		err := s.Scan(&c.Kind, &c.Tier, &c.State, &c.N)
		return c, err
	})
}

func (tx *Tx) MemoryScopes() ([]string, error) {
	rows, err := tx.query("memory.scopes")
	return all(tx, rows, err, func(s scanner) (string, error) {
		var name string
		err := s.Scan(&name)
		return name, err
	})
}

// clearedKey is the fact that says how often memories were deleted for good:
// an index beside the database begins anew when it changes.
const clearedKey = "memory/cleared"

func (tx *Tx) ClearMemories(scope string) (int, error) {
	if _, err := tx.exec("memory.clear.undo", scope); err != nil {
		return 0, err
	}
	n, err := tx.exec("memory.clear", scope)
	if err != nil {
		return 0, err
	}
	return int(n), tx.SetMeta(clearedKey, mercury.NewID("clear"))
}

// Cleared names the last time that memories were deleted for good.
func (tx *Tx) Cleared() (string, error) {
	v, err := tx.MetaValue(clearedKey)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return v, err
}

func (tx *Tx) TalkCost(conversationID string) ([]store.UsageSum, error) {
	rows, err := tx.query("ledger.talk", conversationID)
	return all(tx, rows, err, func(s scanner) (store.UsageSum, error) {
		var u store.UsageSum
		err := scanUsage(s, &u.Group, &u)
		return u, err
	})
}
