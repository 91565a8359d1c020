package sqlstore

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func scanConversation(s scanner) (mercury.Conversation, error) {
	var c mercury.Conversation
	var modeUntil, created, updated int64
	err := s.Scan(&c.ID, &c.Kind, &c.Title, &c.Profile, &c.ParentID, &c.ForkSeq, &c.Head, &c.LastSeq,
		&c.Mode, &modeUntil, &created, &updated)
	c.ModeUntil, c.CreatedAt, c.UpdatedAt = moment(modeUntil), moment(created), moment(updated)
	return c, err
}

func (tx *Tx) LockConversation(id string) (mercury.Conversation, error) {
	rows, err := tx.query("conversation.lock", id)
	return first(tx, rows, err, scanConversation)
}

func (tx *Tx) Conversation(id string) (mercury.Conversation, error) {
	rows, err := tx.query("conversation.get", id)
	return first(tx, rows, err, scanConversation)
}

// InsertConversation begins a fork's numbering where it left its parent.
func (tx *Tx) InsertConversation(c mercury.Conversation) error {
	if c.ParentID != "" {
		c.LastSeq = max(c.LastSeq, c.ForkSeq)
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = tx.Now()
	}
	if c.UpdatedAt.IsZero() {
		c.UpdatedAt = c.CreatedAt
	}
	return inserted(tx.exec("conversation.insert", c.ID, c.Kind, c.Title, c.Profile, c.ParentID, c.ForkSeq,
		c.Head, c.LastSeq, c.Mode, micros(c.ModeUntil), micros(c.CreatedAt), micros(c.UpdatedAt)))
}

func (tx *Tx) SaveConversation(c mercury.Conversation) error {
	return touched(tx.exec("conversation.save", c.Kind, c.Title, c.Profile, c.ParentID, c.ForkSeq, c.Head,
		c.Mode, micros(c.ModeUntil), micros(c.UpdatedAt), c.ID))
}

func (tx *Tx) Conversations(p store.Page) ([]mercury.Conversation, string, error) {
	at, id := int64(math.MaxInt64), ""
	if p.After != "" {
		us, rest, ok := strings.Cut(p.After, ".")
		n, err := strconv.ParseInt(us, 10, 64)
		if err != nil || !ok {
			return nil, "", badCursor(p)
		}
		at, id = n, rest
	}
	size := limit(p)
	rows, err := tx.query("conversation.list", at, at, id, size+1)
	found, err := all(tx, rows, err, scanConversation)
	if err != nil || len(found) <= size {
		return found, "", err
	}
	last := found[size-1]
	return found[:size], fmt.Sprintf("%d.%s", micros(last.UpdatedAt), last.ID), nil
}

func scanEntry(s scanner) (mercury.Entry, error) {
	var e mercury.Entry
	var r reader
	var actor, data, taint string
	var at, hidden int64
	err := s.Scan(&e.ID, &e.ConversationID, &e.Seq, &e.Kind, &e.RunID, &e.Round, &e.CallID, &actor, &e.Text,
		&data, &hidden, &taint, &at)
	if err != nil {
		return e, err
	}
	r.decode(actor, &e.Actor)
	r.decode(taint, &e.Taint)
	e.Data, e.Hidden, e.At = raw(data), hidden != 0, moment(at)
	return e, r.err
}

func (tx *Tx) Append(conversationID string, entries ...mercury.Entry) ([]mercury.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	c, err := tx.Conversation(conversationID)
	if err != nil {
		return nil, err
	}
	seq := c.LastSeq
	out := slices.Clone(entries)
	for i := range out {
		e := &out[i]
		seq++
		e.Seq, e.ConversationID = seq, conversationID
		if e.ID == "" {
			e.ID = mercury.NewID("en")
		}
		if e.At.IsZero() {
			e.At = tx.Now()
		}
		if _, err := tx.exec("entry.insert", e.ID, e.ConversationID, e.Seq, string(e.Kind), e.RunID, e.Round,
			e.CallID, encode(e.Actor), e.Text, string(e.Data), flag(e.Hidden), encodeList(e.Taint),
			micros(e.At)); err != nil {
			return nil, err
		}
	}
	return out, touched(tx.exec("conversation.appended", seq, micros(tx.Now()), conversationID))
}

func (tx *Tx) Entry(id string) (mercury.Entry, error) {
	rows, err := tx.query("entry.get", id)
	return first(tx, rows, err, scanEntry)
}

// A stretch is the part of one conversation's entries that a fork shows:
// those with after < seq <= last.
type stretch struct {
	conversation string
	after, last  int64
}

// maxForks bounds how deep forks of forks may go.
const maxForks = 1000

// stretches lists what makes up a conversation, oldest first.
func (tx *Tx) stretches(id string) ([]stretch, error) {
	var out []stretch
	last := int64(math.MaxInt64)
	for range maxForks {
		c, err := tx.Conversation(id)
		if err != nil {
			return nil, err
		}
		after := int64(0)
		if c.ParentID != "" {
			after = min(c.ForkSeq, last)
		}
		out = append(out, stretch{id, after, last})
		if c.ParentID == "" || after == 0 {
			slices.Reverse(out)
			return out, nil
		}
		id, last = c.ParentID, after
	}
	return nil, fmt.Errorf("read %s: forked more than %d times", id, maxForks)
}

func (tx *Tx) Entries(conversationID string, after int64, limit int) ([]mercury.Entry, error) {
	parts, err := tx.stretches(conversationID)
	if err != nil {
		return nil, err
	}
	left := int64(everything)
	if limit > 0 {
		left = int64(limit)
	}
	var out []mercury.Entry
	for _, p := range parts {
		if left == 0 || p.last <= after {
			continue
		}
		rows, err := tx.query("entry.after", p.conversation, max(after, p.after), p.last, left)
		found, err := all(tx, rows, err, scanEntry)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		left -= int64(len(found))
	}
	return out, nil
}

func (tx *Tx) EntriesBefore(conversationID string, before int64, limit int) ([]mercury.Entry, error) {
	parts, err := tx.stretches(conversationID)
	if err != nil {
		return nil, err
	}
	if before == 0 {
		before = math.MaxInt64
	}
	left := int64(everything)
	if limit > 0 {
		left = int64(limit)
	}
	var out []mercury.Entry
	for _, p := range slices.Backward(parts) {
		if left == 0 || p.after >= before {
			continue
		}
		rows, err := tx.query("entry.before", p.conversation, p.after, min(before-1, p.last), left)
		found, err := all(tx, rows, err, scanEntry)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		left -= int64(len(found))
	}
	slices.Reverse(out)
	return out, nil
}
