package sqlstore

import (
	"fmt"
	"math"
	"strconv"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// everything is a LIMIT that limits nothing.
const everything = math.MaxInt64

// limit is the size of a page: 100 unless asked, at most 1,000.
func limit(p store.Page) int {
	switch {
	case p.Limit <= 0:
		return 100
	case p.Limit > 1000:
		return 1000
	}
	return p.Limit
}

// before reads a cursor of a list ordered by insertion, newest first.
func before(p store.Page) (int64, error) {
	if p.After == "" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(p.After, 10, 64)
	if err != nil {
		return 0, badCursor(p)
	}
	return n, nil
}

func badCursor(p store.Page) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read cursor %.40q: not one this list returned", p.After),
		Help: "Leave the cursor out to start at the beginning of the list."}
}

// numbered is a row with its place in the order of insertion.
type numbered[T any] struct {
	n   int64
	row T
}

// numberedRow reads a row whose first column is its number.
func numberedRow[T any](scan func(scanner) (T, error)) func(scanner) (numbered[T], error) {
	return func(s scanner) (numbered[T], error) {
		var v numbered[T]
		row, err := scan(afterNumber{s, &v.n})
		v.row = row
		return v, err
	}
}

type afterNumber struct {
	scanner
	n *int64
}

func (a afterNumber) Scan(into ...any) error {
	return a.scanner.Scan(append([]any{a.n}, into...)...)
}

// cut makes a page of rows that were read one beyond size, with the cursor of
// the next page.
func cut[T any](rows []numbered[T], size int) ([]T, string) {
	next := ""
	if len(rows) > size {
		rows = rows[:size]
		next = strconv.FormatInt(rows[size-1].n, 10)
	}
	var out []T
	for _, r := range rows {
		out = append(out, r.row)
	}
	return out, next
}
